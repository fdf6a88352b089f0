"""Two losses joined with weights: an active one that fits, a passive or negative one that holds."""

from __future__ import annotations

from torch import Tensor

from edgemask.losses._common import require
from edgemask.losses.base import Loss, Reduction
from edgemask.losses.normalized import nce, nfl

__all__ = ["NCEPair", "NFLPair", "PairLoss"]


class PairLoss(Loss):
    """The form α·active + β·passive; subclasses give the two parts.

    Args:
        alpha: Weight α of the active part.
        beta: Weight β of the passive part.
        reduction: ``"mean"`` or ``"none"``.
    """

    bounded = True

    def __init__(self, alpha: float, beta: float, *, reduction: Reduction = "mean"):
        super().__init__(reduction=reduction)
        require(alpha >= 0.0, "alpha", alpha, "a weight that is not negative")
        require(beta >= 0.0, "beta", beta, "a weight that is not negative")
        self.alpha = alpha
        self.beta = beta

    def _active(self, logits: Tensor, target: Tensor) -> Tensor:
        raise NotImplementedError

    def _passive(self, logits: Tensor, target: Tensor) -> Tensor:
        raise NotImplementedError

    def _per_sample(self, logits: Tensor, target: Tensor) -> Tensor:
        return self.alpha * self._active(logits, target) + self.beta * self._passive(logits, target)


class NCEPair(PairLoss):
    """A pair whose active part is the normalised cross entropy."""

    def _active(self, logits: Tensor, target: Tensor) -> Tensor:
        return nce(logits, target)


class NFLPair(PairLoss):
    """A pair whose active part is the normalised focal loss.

    Args:
        alpha: Weight α of the active part.
        beta: Weight β of the passive part.
        gamma: Strength γ of the focal factor.
        reduction: ``"mean"`` or ``"none"``.
    """

    def __init__(
        self, alpha: float, beta: float, *, gamma: float = 0.5, reduction: Reduction = "mean"
    ):
        super().__init__(alpha, beta, reduction=reduction)
        require(gamma >= 0.0, "gamma", gamma, "a number that is not negative")
        self.gamma = gamma

    def _active(self, logits: Tensor, target: Tensor) -> Tensor:
        return nfl(logits, target, gamma=self.gamma)
