"""Penalties on what a batch of predictions looks like as a whole."""

from __future__ import annotations

import math

from torch import Tensor

__all__ = ["prior_penalty"]


def prior_penalty(logits: Tensor) -> Tensor:
    """Return ``sum_c (1/C) log((1/C) / mean_i p_ic)``: 0 where all classes are predicted alike.

    It keeps a network that learns from its own guesses from putting everything in one class.

    Args:
        logits: Scores of a batch, ``(B, C)``.

    Reference:
        Tanaka et al., Joint Optimization Framework for Learning with Noisy Labels, CVPR 2018, as in
        DivideMix, Eq. 11.
    """
    prior = 1.0 / logits.shape[1]
    # The mean of probabilities from their logarithms: a class that nobody is predicted as has a
    # finite penalty and a gradient.
    log_mean = logits.float().log_softmax(dim=1).logsumexp(dim=0) - math.log(len(logits))
    return (prior * (math.log(prior) - log_mean)).sum()
