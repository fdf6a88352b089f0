"""Normalised losses: any loss divided by its sum over all labels is symmetric."""

from __future__ import annotations

from torch import Tensor

from edgemask.losses._common import expected, prepare, require
from edgemask.losses.base import Loss, Reduction
from edgemask.losses.cross_entropy import focal_terms
from edgemask.losses.gce import box_cox

__all__ = ["NCELoss", "NFLLoss", "NGCELoss", "nce", "nfl", "ngce"]

_REFERENCE = "Ma et al., Normalized Loss Functions for Deep Learning with Noisy Labels, ICML 2020"


def _share(terms: Tensor, target: Tensor) -> Tensor:
    """Return the share that the label's term has in the sum over all labels."""
    return expected(lambda term: term, terms / terms.sum(dim=1, keepdim=True), target)


def nce(logits: Tensor, target: Tensor) -> Tensor:
    """Return log p_y / Σ_k log p_k for every sample."""
    return _share(*prepare(logits, target))


def nfl(logits: Tensor, target: Tensor, *, gamma: float = 0.5) -> Tensor:
    """Return the focal loss of the label over the sum of those of all labels."""
    log_probs, target = prepare(logits, target)
    return _share(focal_terms(log_probs, gamma), target)


def ngce(logits: Tensor, target: Tensor, *, q: float = 0.7, min_prob: float = 1e-7) -> Tensor:
    """Return the GCE of the label over the sum of those of all labels."""
    log_probs, target = prepare(logits, target)
    return _share(box_cox(log_probs, q, min_prob), target)


class NCELoss(Loss):
    """Normalised cross entropy (NCE).

    Args:
        scale: Factor of the loss.
        reduction: ``"mean"`` or ``"none"``.
    """

    equation = "log p_y / Σ_k log p_k"
    reference = _REFERENCE
    symmetric = True
    bounded = True

    def __init__(self, *, scale: float = 1.0, reduction: Reduction = "mean"):
        super().__init__(scale=scale, reduction=reduction)

    def _per_sample(self, logits: Tensor, target: Tensor) -> Tensor:
        return nce(logits, target)


class NFLLoss(Loss):
    """Normalised focal loss (NFL).

    Args:
        gamma: Strength γ of the focal factor.
        scale: Factor of the loss.
        reduction: ``"mean"`` or ``"none"``.
    """

    equation = "ℓ_y / Σ_k ℓ_k with ℓ_k = −sg[(1−p_k)^γ]·log p_k"
    reference = _REFERENCE
    symmetric = True
    bounded = True

    def __init__(self, gamma: float = 0.5, *, scale: float = 1.0, reduction: Reduction = "mean"):
        super().__init__(scale=scale, reduction=reduction)
        require(gamma >= 0.0, "gamma", gamma, "a number that is not negative")
        self.gamma = gamma

    def _per_sample(self, logits: Tensor, target: Tensor) -> Tensor:
        return nfl(logits, target, gamma=self.gamma)


class NGCELoss(Loss):
    """Normalised generalised cross entropy (NGCE).

    Args:
        q: Exponent, in (0, 1].
        min_prob: Probabilities are clipped to [min_prob, 1].
        scale: Factor of the loss.
        reduction: ``"mean"`` or ``"none"``.
    """

    equation = "(1 − clip(p_y)^q) / (K − Σ_k clip(p_k)^q)"
    reference = _REFERENCE
    symmetric = True
    bounded = True

    def __init__(
        self,
        q: float = 0.7,
        *,
        min_prob: float = 1e-7,
        scale: float = 1.0,
        reduction: Reduction = "mean",
    ):
        super().__init__(scale=scale, reduction=reduction)
        require(0.0 < q <= 1.0, "q", q, "a number in (0, 1]")
        require(0.0 <= min_prob < 1.0, "min_prob", min_prob, "a probability below 1")
        self.q = q
        self.min_prob = min_prob

    def _per_sample(self, logits: Tensor, target: Tensor) -> Tensor:
        return ngce(logits, target, q=self.q, min_prob=self.min_prob)
