"""Active negative losses (ANL): a normalised loss with its normalised negative beside it.

The papers train them with an L1 penalty on all weights instead of weight decay. That penalty is
an optimisation setting and not part of the loss: ``preset`` carries its strength as ``l1``.
"""

from __future__ import annotations

import math

from torch import Tensor

from edgemask.losses._common import clamp_log, prepare, require
from edgemask.losses.base import Reduction
from edgemask.losses.negative import nnce, nnfl
from edgemask.losses.pair import NCEPair, NFLPair

__all__ = ["ANLCEERLoss", "ANLCELoss", "ANLFLLoss", "entropy_gap"]

_REFERENCE = "Ye et al., Active Negative Loss Functions, NeurIPS 2023"


def entropy_gap(logits: Tensor, target: Tensor, *, min_prob: float = 1e-7) -> Tensor:
    """Return log K minus the entropy of the batch's mean prediction, a scalar."""
    log_probs, _ = prepare(logits, target)
    if not len(log_probs):
        return log_probs.sum()
    mass = clamp_log(log_probs, min_prob, 1 - min_prob).exp().sum(dim=0)
    mean = (mass / mass.sum()).clamp(min_prob, 1 - min_prob)
    return math.log(logits.shape[1]) + (mean * mean.log()).sum()


class ANLCELoss(NCEPair):
    """Active negative loss on cross entropy (ANL-CE, short ANL): NCE with NNCE.

    Args:
        alpha: Weight α of NCE.
        beta: Weight β of NNCE.
        min_prob: Probabilities of NNCE are clipped to [min_prob, 1].
        reduction: ``"mean"`` or ``"none"``.
    """

    equation = "α·NCE + β·NNCE"
    reference = _REFERENCE
    symmetric = True

    def __init__(
        self,
        alpha: float = 5.0,
        beta: float = 5.0,
        *,
        min_prob: float = 1e-7,
        reduction: Reduction = "mean",
    ):
        super().__init__(alpha, beta, reduction=reduction)
        require(0.0 < min_prob < 0.5, "min_prob", min_prob, "a number between 0 and 0.5")
        self.min_prob = min_prob

    def _passive(self, logits: Tensor, target: Tensor) -> Tensor:
        return nnce(logits, target, min_prob=self.min_prob)


class ANLFLLoss(NFLPair):
    """Active negative loss on the focal loss (ANL-FL): NFL with NNFL.

    Args:
        alpha: Weight α of NFL.
        beta: Weight β of NNFL.
        gamma: Strength γ of the focal factor in both.
        min_prob: Probabilities of NNFL are clipped to [min_prob, 1].
        reduction: ``"mean"`` or ``"none"``.
    """

    equation = "α·NFL + β·NNFL"
    reference = _REFERENCE
    symmetric = True

    def __init__(
        self,
        alpha: float = 5.0,
        beta: float = 5.0,
        *,
        gamma: float = 0.5,
        min_prob: float = 1e-7,
        reduction: Reduction = "mean",
    ):
        super().__init__(alpha, beta, gamma=gamma, reduction=reduction)
        require(0.0 < min_prob < 0.5, "min_prob", min_prob, "a number between 0 and 0.5")
        self.min_prob = min_prob

    def _passive(self, logits: Tensor, target: Tensor) -> Tensor:
        return nnfl(logits, target, gamma=self.gamma, min_prob=self.min_prob)


class ANLCEERLoss(ANLCELoss):
    """ANL-CE with entropy regularisation (ANL-CE-ER), which keeps all classes in use.

    The regulariser belongs to the whole batch; with ``reduction="none"`` every sample carries it.

    Args:
        alpha: Weight α of NCE.
        beta: Weight β of NNCE.
        entropy: Weight λ of the regulariser.
        min_prob: Probabilities are clipped to [min_prob, 1 − min_prob].
        reduction: ``"mean"`` or ``"none"``.
    """

    equation = "α·NCE + β·NNCE + λ·[log K + Σ_k m_k·log m_k], m the mean prediction of the batch"
    reference = "Ye et al., Active Negative Loss: A Robust Framework, arXiv:2412.02373"
    symmetric = False

    def __init__(
        self,
        alpha: float = 5.0,
        beta: float = 5.0,
        *,
        entropy: float = 2.0,
        min_prob: float = 1e-7,
        reduction: Reduction = "mean",
    ):
        super().__init__(alpha, beta, min_prob=min_prob, reduction=reduction)
        require(entropy >= 0.0, "entropy", entropy, "a weight that is not negative")
        self.entropy = entropy

    def _passive(self, logits: Tensor, target: Tensor) -> Tensor:
        return nnce(logits, target, min_prob=self.min_prob, max_prob=1 - self.min_prob)

    def _per_sample(self, logits: Tensor, target: Tensor) -> Tensor:
        gap = entropy_gap(logits, target, min_prob=self.min_prob)
        return super()._per_sample(logits, target) + self.entropy * gap
