"""Pairs α·A + β·B: an active loss that fits the label, and one that resists wrong labels.

ANL and JAL are trained with an L1 penalty on all parameters of the model instead of weight decay.
That penalty is not part of the formula; a loss made by ``preset`` holds its strength as ``l1``.
"""

from __future__ import annotations

import math
from dataclasses import KW_ONLY

import torch
from torch import Tensor

from edgemask.losses.asymmetric import Above1, AtLeast1, ael, agce, amse, aul
from edgemask.losses.base import (
    BelowHalf,
    Clip,
    Exponent,
    Loss,
    NonNegative,
    OpenUnit,
    Positive,
    Rows,
    clamp_log,
    loss,
    over_processes,
)
from edgemask.losses.bounded import mae, rce
from edgemask.losses.cross_entropy import cross_entropy
from edgemask.losses.negative import nnce, nnfl
from edgemask.losses.normalized import nce, nfl, ngce

__all__ = [
    "ANLCEERLoss",
    "ANLCELoss",
    "ANLFLLoss",
    "JALCELoss",
    "JALFLLoss",
    "NCEAELLoss",
    "NCEAGCELoss",
    "NCEAULLoss",
    "NCEMAELoss",
    "NCERCELoss",
    "NFLMAELoss",
    "NFLRCELoss",
    "NGCEMAELoss",
    "NGCERCELoss",
    "PairLoss",
    "SCELoss",
    "entropy_gap",
]

_SCE = "Wang et al., Symmetric Cross Entropy for Robust Learning, ICCV 2019"
_APL = "Ma et al., Normalized Loss Functions for Deep Learning with Noisy Labels, ICML 2020"
_ALF = "Zhou et al., Asymmetric Loss Functions for Learning with Noisy Labels, ICML 2021"
_ANL = "Ye et al., Active Negative Loss Functions, NeurIPS 2023"
_JAL = "Wang et al., Joint Asymmetric Loss for Learning with Noisy Labels, ICCV 2025"


@loss
class PairLoss(Loss):
    """The form α·A + β·B; subclasses fill in :meth:`formula` with :meth:`pair`.

    Args:
        alpha: Weight α of the first part.
        beta: Weight β of the second part.
    """

    bounded = True

    alpha: NonNegative = 1.0
    beta: NonNegative = 1.0

    def pair(self, first: Tensor, second: Tensor) -> Tensor:
        """Return α·first + β·second, (N, 1)."""
        if second.shape[1] > 1:
            second = second.mean(dim=1, keepdim=True)
        return torch.add(self.alpha * first, second, alpha=self.beta)


@loss
class SCELoss(PairLoss):
    """Symmetric cross entropy (SCE): cross entropy plus its reverse.

    The name is about the two directions; in the sense of the noise-tolerance theory the loss is
    not symmetric, because its cross entropy is not.

    Args:
        alpha: Weight α of the cross entropy.
        beta: Weight β of the reverse cross entropy.
        min_prob: Probabilities of the reverse part are clipped to [min_prob, 1].
        min_target: Targets are clipped to [min_target, 1] before the logarithm.
    """

    equation = "α·CE + β·RCE"
    reference = _SCE
    bounded = False

    alpha: NonNegative = 0.1
    _: KW_ONLY
    min_prob: Clip = 1e-7
    min_target: OpenUnit = 1e-4

    def formula(self, log_probs: Tensor, target: Tensor) -> Tensor:
        """Return α·CE + β·RCE."""
        reverse = rce(log_probs, target, self.min_prob, self.min_target)
        return self.pair(cross_entropy(log_probs, target), reverse)


@loss
class NCEMAELoss(PairLoss):
    """Normalised cross entropy with mean absolute error (NCE+MAE).

    Args:
        alpha: Weight α of NCE.
        beta: Weight β of MAE.
    """

    equation = "α·NCE + β·(1 − p_y)"
    reference = _APL
    symmetric = True

    def formula(self, log_probs: Tensor, target: Tensor) -> Tensor:
        """Return α·NCE + β·MAE."""
        return self.pair(nce(log_probs, target), mae(log_probs, target))


@loss
class NCERCELoss(PairLoss):
    """Normalised cross entropy with reverse cross entropy (NCE+RCE).

    Args:
        alpha: Weight α of NCE.
        beta: Weight β of RCE.
        min_prob: Probabilities of RCE are clipped to [min_prob, 1].
        min_target: Targets of RCE are clipped to [min_target, 1] before the logarithm.
    """

    equation = "α·NCE + β·RCE"
    reference = _APL
    symmetric = True

    _: KW_ONLY
    min_prob: Clip = 1e-7
    min_target: OpenUnit = 1e-4

    def formula(self, log_probs: Tensor, target: Tensor) -> Tensor:
        """Return α·NCE + β·RCE."""
        reverse = rce(log_probs, target, self.min_prob, self.min_target)
        return self.pair(nce(log_probs, target), reverse)


@loss
class NFLMAELoss(PairLoss):
    """Normalised focal loss with mean absolute error (NFL+MAE).

    Args:
        alpha: Weight α of NFL.
        beta: Weight β of MAE.
        gamma: Strength γ of the focal factor.
    """

    equation = "α·NFL + β·(1 − p_y)"
    reference = _APL
    symmetric = True

    _: KW_ONLY
    gamma: NonNegative = 0.5

    def formula(self, log_probs: Tensor, target: Tensor) -> Tensor:
        """Return α·NFL + β·MAE."""
        return self.pair(nfl(log_probs, target, self.gamma), mae(log_probs, target))


@loss
class NFLRCELoss(PairLoss):
    """Normalised focal loss with reverse cross entropy (NFL+RCE).

    Args:
        alpha: Weight α of NFL.
        beta: Weight β of RCE.
        gamma: Strength γ of the focal factor.
        min_prob: Probabilities of RCE are clipped to [min_prob, 1].
        min_target: Targets of RCE are clipped to [min_target, 1] before the logarithm.
    """

    equation = "α·NFL + β·RCE"
    reference = _APL
    symmetric = True

    _: KW_ONLY
    gamma: NonNegative = 0.5
    min_prob: Clip = 1e-7
    min_target: OpenUnit = 1e-4

    def formula(self, log_probs: Tensor, target: Tensor) -> Tensor:
        """Return α·NFL + β·RCE."""
        reverse = rce(log_probs, target, self.min_prob, self.min_target)
        return self.pair(nfl(log_probs, target, self.gamma), reverse)


@loss
class NGCEMAELoss(PairLoss):
    """Normalised generalised cross entropy with mean absolute error (NGCE+MAE).

    Args:
        alpha: Weight α of NGCE.
        beta: Weight β of MAE.
        q: Exponent of NGCE, in (0, 1].
        min_prob: Probabilities of NGCE are clipped to [min_prob, 1].
    """

    equation = "α·NGCE + β·(1 − p_y)"
    reference = _APL
    symmetric = True

    _: KW_ONLY
    q: Exponent = 0.7
    min_prob: Clip = 1e-7

    def formula(self, log_probs: Tensor, target: Tensor) -> Tensor:
        """Return α·NGCE + β·MAE."""
        return self.pair(ngce(log_probs, target, self.q, self.min_prob), mae(log_probs, target))


@loss
class NGCERCELoss(PairLoss):
    """Normalised generalised cross entropy with reverse cross entropy (NGCE+RCE).

    Args:
        alpha: Weight α of NGCE.
        beta: Weight β of RCE.
        q: Exponent of NGCE, in (0, 1].
        min_prob: Probabilities of both parts are clipped to [min_prob, 1].
        min_target: Targets of RCE are clipped to [min_target, 1] before the logarithm.
    """

    equation = "α·NGCE + β·RCE"
    reference = _APL
    symmetric = True

    _: KW_ONLY
    q: Exponent = 0.7
    min_prob: Clip = 1e-7
    min_target: OpenUnit = 1e-4

    def formula(self, log_probs: Tensor, target: Tensor) -> Tensor:
        """Return α·NGCE + β·RCE."""
        reverse = rce(log_probs, target, self.min_prob, self.min_target)
        return self.pair(ngce(log_probs, target, self.q, self.min_prob), reverse)


@loss
class NCEAGCELoss(PairLoss):
    """Normalised cross entropy with asymmetric GCE (NCE+AGCE).

    Args:
        alpha: Weight α of NCE.
        beta: Weight β of AGCE.
        a: Shift of the probability in AGCE.
        q: Exponent of AGCE.
    """

    equation = "α·NCE + β·AGCE(a, q)"
    reference = _ALF

    beta: NonNegative = 4.0
    a: Positive = 6.0
    q: Positive = 1.5

    def formula(self, log_probs: Tensor, target: Tensor) -> Tensor:
        """Return α·NCE + β·AGCE."""
        return self.pair(nce(log_probs, target), agce(log_probs, target, self.a, self.q))


@loss
class NCEAULLoss(PairLoss):
    """Normalised cross entropy with the asymmetric unhinged loss (NCE+AUL).

    Args:
        alpha: Weight α of NCE.
        beta: Weight β of AUL.
        a: Shift of the probability in AUL, above 1.
        q: Exponent of AUL.
    """

    equation = "α·NCE + β·AUL(a, q)"
    reference = _ALF

    beta: NonNegative = 4.0
    a: Above1 = 6.3
    q: Positive = 1.5

    def formula(self, log_probs: Tensor, target: Tensor) -> Tensor:
        """Return α·NCE + β·AUL."""
        return self.pair(nce(log_probs, target), aul(log_probs, target, self.a, self.q))


@loss
class NCEAELLoss(PairLoss):
    """Normalised cross entropy with the asymmetric exponential loss (NCE+AEL).

    Args:
        alpha: Weight α of NCE.
        beta: Weight β of AEL.
        a: Temperature of AEL.
    """

    equation = "α·NCE + β·AEL(a)"
    reference = _ALF

    beta: NonNegative = 4.0
    a: Positive = 5.0

    def formula(self, log_probs: Tensor, target: Tensor) -> Tensor:
        """Return α·NCE + β·AEL."""
        return self.pair(nce(log_probs, target), ael(log_probs, target, self.a))


@loss
class ANLCELoss(PairLoss):
    """Active negative loss on cross entropy (ANL-CE, short ANL): NCE with NNCE.

    Args:
        alpha: Weight α of NCE.
        beta: Weight β of NNCE.
        min_prob: Probabilities of NNCE are clipped to [min_prob, 1].
    """

    equation = "α·NCE + β·NNCE"
    reference = _ANL
    symmetric = True

    alpha: NonNegative = 5.0
    beta: NonNegative = 5.0
    _: KW_ONLY
    min_prob: BelowHalf = 1e-7

    def formula(self, log_probs: Tensor, target: Tensor) -> Tensor:
        """Return α·NCE + β·NNCE."""
        return self.pair(nce(log_probs, target), nnce(log_probs, target, self.min_prob))


@loss
class ANLFLLoss(PairLoss):
    """Active negative loss on the focal loss (ANL-FL): NFL with NNFL.

    Args:
        alpha: Weight α of NFL.
        beta: Weight β of NNFL.
        gamma: Strength γ of the focal factor in both.
        min_prob: Probabilities of NNFL are clipped to [min_prob, 1].
    """

    equation = "α·NFL + β·NNFL"
    reference = _ANL
    symmetric = True

    alpha: NonNegative = 5.0
    beta: NonNegative = 5.0
    _: KW_ONLY
    gamma: NonNegative = 0.5
    min_prob: BelowHalf = 1e-7

    def formula(self, log_probs: Tensor, target: Tensor) -> Tensor:
        """Return α·NFL + β·NNFL."""
        negative = nnfl(log_probs, target, self.gamma, self.min_prob)
        return self.pair(nfl(log_probs, target, self.gamma), negative)


def entropy_gap(log_probs: Tensor, min_prob: float, valid: Tensor | None = None) -> Tensor:
    """Return log K minus the entropy of the mean prediction of the valid rows, a scalar.

    The mean is over all processes of a distributed job.
    """
    probs = clamp_log(log_probs, min_prob, 1 - min_prob).exp()
    mass = (probs if valid is None else probs * valid).sum(dim=0)
    count = mass.new_full((), len(probs)) if valid is None else valid.sum()
    mass, _ = over_processes(mass, count)
    mean = (mass / mass.sum().clamp(min=min_prob)).clamp(min_prob, 1 - min_prob)
    return math.log(log_probs.shape[1]) + (mean * mean.log()).sum()


@loss
class ANLCEERLoss(ANLCELoss):
    """ANL-CE with entropy regularisation (ANL-CE-ER), which keeps all classes in use.

    The regulariser belongs to the whole batch; with ``reduction="none"`` each sample includes it.

    Args:
        alpha: Weight α of NCE.
        beta: Weight β of NNCE.
        entropy: Weight λ of the regulariser.
        min_prob: Probabilities are clipped to [min_prob, 1 − min_prob].
    """

    equation = "α·NCE + β·NNCE + λ·[log K + Σ_k m_k·log m_k], m the mean prediction of the batch"
    reference = "Ye et al., Active Negative Loss: A Robust Framework, arXiv:2412.02373"
    symmetric = False

    _: KW_ONLY
    entropy: NonNegative = 2.0

    def formula(self, log_probs: Tensor, target: Tensor) -> Tensor:
        """Return α·NCE + β·NNCE, clipped on both sides."""
        negative = nnce(log_probs, target, self.min_prob, 1 - self.min_prob)
        return self.pair(nce(log_probs, target), negative)

    def values(self, rows: Rows, index: Tensor | None) -> Tensor:
        """Return the loss of each row, the regulariser of the batch included."""
        del index
        log_probs = torch.log_softmax(rows.logits, dim=1)
        gap = entropy_gap(log_probs, self.min_prob, rows.valid)
        return self.formula(log_probs, rows.target) + self.entropy * gap


@loss
class JALCELoss(PairLoss):
    """Joint asymmetric loss on cross entropy (JAL-CE, short JAL): NCE with AMSE.

    Args:
        alpha: Weight α of NCE.
        beta: Weight β of AMSE.
        a: Value that AMSE compares the label's probability with, at least 1.
    """

    equation = "α·NCE + β·AMSE(a)"
    reference = _JAL

    a: AtLeast1 = 30.0

    def formula(self, log_probs: Tensor, target: Tensor) -> Tensor:
        """Return α·NCE + β·AMSE."""
        return self.pair(nce(log_probs, target), amse(log_probs.exp(), target, self.a))


@loss
class JALFLLoss(PairLoss):
    """Joint asymmetric loss on the focal loss (JAL-FL): NFL with AMSE.

    Args:
        alpha: Weight α of NFL.
        beta: Weight β of AMSE.
        a: Value that AMSE compares the label's probability with, at least 1.
        gamma: Strength γ of the focal factor.
    """

    equation = "α·NFL + β·AMSE(a)"
    reference = _JAL

    a: AtLeast1 = 30.0
    _: KW_ONLY
    gamma: NonNegative = 0.5

    def formula(self, log_probs: Tensor, target: Tensor) -> Tensor:
        """Return α·NFL + β·AMSE."""
        return self.pair(nfl(log_probs, target, self.gamma), amse(log_probs.exp(), target, self.a))
