"""Joint asymmetric losses (JAL): a normalised loss with the asymmetric mean squared error.

As with ANL, the L1 penalty of the published training is not part of the loss: ``preset`` carries
its strength as ``l1``.
"""

from __future__ import annotations

from torch import Tensor

from edgemask.losses.asymmetric import amse, check_amse
from edgemask.losses.base import Reduction
from edgemask.losses.pair import NCEPair, NFLPair

__all__ = ["JALCELoss", "JALFLLoss"]

_REFERENCE = "Wang et al., Joint Asymmetric Loss for Learning with Noisy Labels, ICCV 2025"


class JALCELoss(NCEPair):
    """Joint asymmetric loss on cross entropy (JAL-CE, short JAL): NCE with AMSE.

    Args:
        alpha: Weight α of NCE.
        beta: Weight β of AMSE.
        a: Height of the label in AMSE, at least 1.
        reduction: ``"mean"`` or ``"none"``.
    """

    equation = "α·NCE + β·AMSE(a)"
    reference = _REFERENCE

    def __init__(
        self,
        alpha: float = 1.0,
        beta: float = 1.0,
        a: float = 30.0,
        *,
        reduction: Reduction = "mean",
    ):
        super().__init__(alpha, beta, reduction=reduction)
        check_amse(a)
        self.a = a

    def _passive(self, logits: Tensor, target: Tensor) -> Tensor:
        return amse(logits, target, a=self.a)


class JALFLLoss(NFLPair):
    """Joint asymmetric loss on the focal loss (JAL-FL): NFL with AMSE.

    Args:
        alpha: Weight α of NFL.
        beta: Weight β of AMSE.
        a: Height of the label in AMSE, at least 1.
        gamma: Strength γ of the focal factor.
        reduction: ``"mean"`` or ``"none"``.
    """

    equation = "α·NFL + β·AMSE(a)"
    reference = _REFERENCE

    def __init__(
        self,
        alpha: float = 1.0,
        beta: float = 1.0,
        a: float = 30.0,
        *,
        gamma: float = 0.5,
        reduction: Reduction = "mean",
    ):
        super().__init__(alpha, beta, gamma=gamma, reduction=reduction)
        check_amse(a)
        self.a = a

    def _passive(self, logits: Tensor, target: Tensor) -> Tensor:
        return amse(logits, target, a=self.a)
