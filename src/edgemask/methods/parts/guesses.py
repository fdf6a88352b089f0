"""Guesses: what networks say of a sample, made into targets."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = ["co_guess", "refine_labels", "sharpen"]


def sharpen(probabilities: Tensor, temperature: float = 0.5) -> Tensor:
    """Return ``p^(1/T)``, scaled to sum to 1: peaked below temperature 1, flat above.

    Args:
        probabilities: Distributions, ``(B, C)``.
        temperature: The temperature T.

    Example:
        >>> sharpen(torch.tensor([[0.8, 0.2]]))
        tensor([[0.9412, 0.0588]])
    """
    # In logarithms: at small temperatures p^(1/T) itself underflows to 0.
    tiny = torch.finfo(probabilities.dtype).tiny
    return (probabilities.clamp(min=tiny).log() / temperature).softmax(dim=1)


def co_guess(logits: Sequence[Tensor]) -> Tensor:
    """Return the mean of the predictions of several networks and views.

    Args:
        logits: Scores of the same samples, each ``(B, C)``.
    """
    return torch.stack([scores.softmax(dim=1) for scores in logits]).mean(dim=0)


def refine_labels(labels: Tensor, weights: Tensor, guess: Tensor) -> Tensor:
    """Return ``w onehot(y) + (1 - w) p``: the label as far as it is trusted, else the guess.

    Args:
        labels: Given labels, ``(B,)``.
        weights: Trust in them, ``(B,)``.
        guess: Predictions, ``(B, C)``.
    """
    weight = weights.to(guess)[:, None]
    return weight * F.one_hot(labels, guess.shape[1]).to(guess) + (1 - weight) * guess
