"""Normalised negative losses: learn from what a sample is not."""

from __future__ import annotations

import math

from torch import Tensor

from edgemask.losses._common import clamp_log, expected, prepare, require
from edgemask.losses.base import Loss, Reduction
from edgemask.losses.cross_entropy import focal_terms

__all__ = ["NNCELoss", "NNFLLoss", "nnce", "nnfl"]

_REFERENCE = "Ye et al., Active Negative Loss Functions, NeurIPS 2023"


def _complement(terms: Tensor, target: Tensor) -> Tensor:
    """Return one minus the share that the label's term has in the sum over all labels."""
    return expected(lambda share: 1 - share, terms / terms.sum(dim=1, keepdim=True), target)


def nnce(
    logits: Tensor, target: Tensor, *, min_prob: float = 1e-7, max_prob: float = 1.0
) -> Tensor:
    """Return the normalised negative cross entropy of every sample."""
    log_probs, target = prepare(logits, target)
    return _complement(clamp_log(log_probs, min_prob, max_prob) - math.log(min_prob), target)


def nnfl(logits: Tensor, target: Tensor, *, gamma: float = 0.5, min_prob: float = 1e-7) -> Tensor:
    """Return the normalised negative focal loss of every sample."""
    log_probs, target = prepare(logits, target)
    worst = -((1 - min_prob) ** gamma) * math.log(min_prob)
    # Rounding may put the focal loss of a clipped probability a little above its maximum.
    terms = (worst - focal_terms(clamp_log(log_probs, min_prob), gamma)).clamp(min=0.0)
    return _complement(terms, target)


class NNCELoss(Loss):
    """Normalised negative cross entropy (NNCE).

    Args:
        min_prob: Probabilities are clipped to [min_prob, 1]; fixes the constant A.
        scale: Factor of the loss.
        reduction: ``"mean"`` or ``"none"``.
    """

    equation = "1 − (A + log clip(p_y)) / Σ_k (A + log clip(p_k)) with A = −log min_prob"
    reference = _REFERENCE
    symmetric = True
    bounded = True

    def __init__(
        self, *, min_prob: float = 1e-7, scale: float = 1.0, reduction: Reduction = "mean"
    ):
        super().__init__(scale=scale, reduction=reduction)
        require(0.0 < min_prob < 1.0, "min_prob", min_prob, "a number between 0 and 1")
        self.min_prob = min_prob

    def _per_sample(self, logits: Tensor, target: Tensor) -> Tensor:
        return nnce(logits, target, min_prob=self.min_prob)


class NNFLLoss(Loss):
    """Normalised negative focal loss (NNFL).

    Args:
        gamma: Strength γ of the focal factor.
        min_prob: Probabilities are clipped to [min_prob, 1]; fixes the constant A.
        scale: Factor of the loss.
        reduction: ``"mean"`` or ``"none"``.
    """

    equation = (
        "1 − (A − ℓ_y) / Σ_k (A − ℓ_k) with ℓ_k = −sg[(1−clip(p_k))^γ]·log clip(p_k), "
        "A = −(1−min_prob)^γ·log min_prob"
    )
    reference = _REFERENCE
    symmetric = True
    bounded = True

    def __init__(
        self,
        gamma: float = 0.5,
        *,
        min_prob: float = 1e-7,
        scale: float = 1.0,
        reduction: Reduction = "mean",
    ):
        super().__init__(scale=scale, reduction=reduction)
        require(gamma >= 0.0, "gamma", gamma, "a number that is not negative")
        require(0.0 < min_prob < 1.0, "min_prob", min_prob, "a number between 0 and 1")
        self.gamma = gamma
        self.min_prob = min_prob

    def _per_sample(self, logits: Tensor, target: Tensor) -> Tensor:
        return nnfl(logits, target, gamma=self.gamma, min_prob=self.min_prob)
