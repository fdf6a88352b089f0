"""Normalised negative losses, which lower the probabilities of all classes but the label."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY

from torch import Tensor

from edgemask.losses.base import Loss, NonNegative, OpenUnit, clamp_log, loss
from edgemask.losses.cross_entropy import focal_terms
from edgemask.losses.normalized import share

__all__ = ["NNCELoss", "NNFLLoss", "nnce", "nnfl"]

_REFERENCE = "Ye et al., Active Negative Loss Functions, NeurIPS 2023"


def nnce(log_probs: Tensor, target: Tensor, min_prob: float, max_prob: float = 1.0) -> Tensor:
    """Return the normalised negative cross entropy."""
    return 1 - share(clamp_log(log_probs, min_prob, max_prob) - math.log(min_prob), target)


def nnfl(log_probs: Tensor, target: Tensor, gamma: float, min_prob: float) -> Tensor:
    """Return the normalised negative focal loss."""
    worst = -((1 - min_prob) ** gamma) * math.log(min_prob)
    return 1 - share(worst - focal_terms(clamp_log(log_probs, min_prob), gamma), target)


@loss
class NNCELoss(Loss):
    """Normalised negative cross entropy (NNCE).

    Args:
        min_prob: Probabilities are clipped to [min_prob, 1]; defines the constant A.
    """

    equation = "1 − (A + log clip(p_y)) / Σ_k (A + log clip(p_k)) with A = −log min_prob"
    reference = _REFERENCE
    symmetric = True
    bounded = True

    _: KW_ONLY
    min_prob: OpenUnit = 1e-7

    def formula(self, log_probs: Tensor, target: Tensor) -> Tensor:
        """Return 1 − (A + log clip(p_y)) / Σ_k (A + log clip(p_k))."""
        return nnce(log_probs, target, self.min_prob)


@loss
class NNFLLoss(Loss):
    """Normalised negative focal loss (NNFL).

    Args:
        gamma: Strength γ of the focal factor.
        min_prob: Probabilities are clipped to [min_prob, 1]; defines the constant A.
    """

    equation = (
        "1 − (A − ℓ_y) / Σ_k (A − ℓ_k) with ℓ_k = −sg[(1−clip(p_k))^γ]·log clip(p_k), "
        "A = −(1−min_prob)^γ·log min_prob"
    )
    reference = _REFERENCE
    symmetric = True
    bounded = True

    gamma: NonNegative = 0.5
    _: KW_ONLY
    min_prob: OpenUnit = 1e-7

    def formula(self, log_probs: Tensor, target: Tensor) -> Tensor:
        """Return 1 − (A − ℓ_y) / Σ_k (A − ℓ_k) of the focal loss ℓ."""
        return nnfl(log_probs, target, self.gamma, self.min_prob)
