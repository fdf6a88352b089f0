"""From a method's own score to the probability that a label is right."""

from __future__ import annotations

import torch
from torch import Tensor

from edgemask.noise.trust import trust_from_losses

__all__ = ["trust_from_cleanness"]


def trust_from_cleanness(values: Tensor) -> Tensor | None:
    """Return the probability that each label is right, or None before all samples were seen.

    Cleanness ranks the samples; what counts as clean depends on the smoothing of the labels. So two
    Gaussians are fitted to ``1 - cleanness``, and trust is the posterior of the lower one.

    Args:
        values: Cleanness of each sample, ``(N,)``; NaN for one that was not seen.
    """
    if bool(values.isnan().any()):
        return None
    return torch.from_numpy(trust_from_losses(1.0 - values.cpu().double().numpy()))
