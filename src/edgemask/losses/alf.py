"""Normalised cross entropy with an asymmetric loss beside it."""

from __future__ import annotations

from torch import Tensor

from edgemask.losses.asymmetric import ael, agce, aul, check_ael, check_agce, check_aul
from edgemask.losses.base import Reduction
from edgemask.losses.pair import NCEPair

__all__ = ["NCEAELLoss", "NCEAGCELoss", "NCEAULLoss"]

_REFERENCE = "Zhou et al., Asymmetric Loss Functions for Learning with Noisy Labels, ICML 2021"


class NCEAGCELoss(NCEPair):
    """Normalised cross entropy with asymmetric GCE (NCE+AGCE).

    Args:
        alpha: Weight α of NCE.
        beta: Weight β of AGCE.
        a: Shift of the probability in AGCE.
        q: Exponent of AGCE.
        reduction: ``"mean"`` or ``"none"``.
    """

    equation = "α·NCE + β·AGCE(a, q)"
    reference = _REFERENCE

    def __init__(
        self,
        alpha: float = 1.0,
        beta: float = 4.0,
        a: float = 6.0,
        q: float = 1.5,
        *,
        reduction: Reduction = "mean",
    ):
        super().__init__(alpha, beta, reduction=reduction)
        check_agce(a, q)
        self.a = a
        self.q = q

    def _passive(self, logits: Tensor, target: Tensor) -> Tensor:
        return agce(logits, target, a=self.a, q=self.q)


class NCEAULLoss(NCEPair):
    """Normalised cross entropy with the asymmetric unhinged loss (NCE+AUL).

    Args:
        alpha: Weight α of NCE.
        beta: Weight β of AUL.
        a: Shift of the probability in AUL, above 1.
        q: Exponent of AUL.
        reduction: ``"mean"`` or ``"none"``.
    """

    equation = "α·NCE + β·AUL(a, q)"
    reference = _REFERENCE

    def __init__(
        self,
        alpha: float = 1.0,
        beta: float = 4.0,
        a: float = 6.3,
        q: float = 1.5,
        *,
        reduction: Reduction = "mean",
    ):
        super().__init__(alpha, beta, reduction=reduction)
        check_aul(a, q)
        self.a = a
        self.q = q

    def _passive(self, logits: Tensor, target: Tensor) -> Tensor:
        return aul(logits, target, a=self.a, q=self.q)


class NCEAELLoss(NCEPair):
    """Normalised cross entropy with the asymmetric exponential loss (NCE+AEL).

    Args:
        alpha: Weight α of NCE.
        beta: Weight β of AEL.
        a: Temperature of AEL.
        reduction: ``"mean"`` or ``"none"``.
    """

    equation = "α·NCE + β·AEL(a)"
    reference = _REFERENCE

    def __init__(
        self,
        alpha: float = 1.0,
        beta: float = 4.0,
        a: float = 5.0,
        *,
        reduction: Reduction = "mean",
    ):
        super().__init__(alpha, beta, reduction=reduction)
        check_ael(a)
        self.a = a

    def _passive(self, logits: Tensor, target: Tensor) -> Tensor:
        return ael(logits, target, a=self.a)
