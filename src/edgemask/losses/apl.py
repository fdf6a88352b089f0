"""Active-passive losses: a normalised loss with MAE or reverse cross entropy beside it."""

from __future__ import annotations

from torch import Tensor

from edgemask.losses.base import Reduction
from edgemask.losses.bounded import check_rce, mae, rce
from edgemask.losses.pair import NCEPair, NFLPair

__all__ = ["NCEMAELoss", "NCERCELoss", "NFLMAELoss", "NFLRCELoss"]

_REFERENCE = "Ma et al., Normalized Loss Functions for Deep Learning with Noisy Labels, ICML 2020"


class NCEMAELoss(NCEPair):
    """Normalised cross entropy with mean absolute error (NCE+MAE).

    Args:
        alpha: Weight α of NCE.
        beta: Weight β of MAE.
        reduction: ``"mean"`` or ``"none"``.
    """

    equation = "α·NCE + β·(1 − p_y)"
    reference = _REFERENCE
    symmetric = True

    def __init__(self, alpha: float = 1.0, beta: float = 1.0, *, reduction: Reduction = "mean"):
        super().__init__(alpha, beta, reduction=reduction)

    def _passive(self, logits: Tensor, target: Tensor) -> Tensor:
        return mae(logits, target)


class NCERCELoss(NCEPair):
    """Normalised cross entropy with reverse cross entropy (NCE+RCE).

    Args:
        alpha: Weight α of NCE.
        beta: Weight β of RCE.
        min_prob: Probabilities of RCE are clipped to [min_prob, 1].
        min_target: Targets of RCE are clipped to [min_target, 1] before the logarithm.
        reduction: ``"mean"`` or ``"none"``.
    """

    equation = "α·NCE + β·RCE"
    reference = _REFERENCE
    symmetric = True

    def __init__(
        self,
        alpha: float = 1.0,
        beta: float = 1.0,
        *,
        min_prob: float = 1e-7,
        min_target: float = 1e-4,
        reduction: Reduction = "mean",
    ):
        super().__init__(alpha, beta, reduction=reduction)
        check_rce(min_prob, min_target)
        self.min_prob = min_prob
        self.min_target = min_target

    def _passive(self, logits: Tensor, target: Tensor) -> Tensor:
        return rce(logits, target, min_prob=self.min_prob, min_target=self.min_target)


class NFLMAELoss(NFLPair):
    """Normalised focal loss with mean absolute error (NFL+MAE).

    Args:
        alpha: Weight α of NFL.
        beta: Weight β of MAE.
        gamma: Strength γ of the focal factor.
        reduction: ``"mean"`` or ``"none"``.
    """

    equation = "α·NFL + β·(1 − p_y)"
    reference = _REFERENCE
    symmetric = True

    def __init__(
        self,
        alpha: float = 1.0,
        beta: float = 1.0,
        *,
        gamma: float = 0.5,
        reduction: Reduction = "mean",
    ):
        super().__init__(alpha, beta, gamma=gamma, reduction=reduction)

    def _passive(self, logits: Tensor, target: Tensor) -> Tensor:
        return mae(logits, target)


class NFLRCELoss(NFLPair):
    """Normalised focal loss with reverse cross entropy (NFL+RCE).

    Args:
        alpha: Weight α of NFL.
        beta: Weight β of RCE.
        gamma: Strength γ of the focal factor.
        min_prob: Probabilities of RCE are clipped to [min_prob, 1].
        min_target: Targets of RCE are clipped to [min_target, 1] before the logarithm.
        reduction: ``"mean"`` or ``"none"``.
    """

    equation = "α·NFL + β·RCE"
    reference = _REFERENCE
    symmetric = True

    def __init__(
        self,
        alpha: float = 1.0,
        beta: float = 1.0,
        *,
        gamma: float = 0.5,
        min_prob: float = 1e-7,
        min_target: float = 1e-4,
        reduction: Reduction = "mean",
    ):
        super().__init__(alpha, beta, gamma=gamma, reduction=reduction)
        check_rce(min_prob, min_target)
        self.min_prob = min_prob
        self.min_target = min_target

    def _passive(self, logits: Tensor, target: Tensor) -> Tensor:
        return rce(logits, target, min_prob=self.min_prob, min_target=self.min_target)
