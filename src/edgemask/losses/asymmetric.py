"""Asymmetric losses: robust whenever the true class is still the most frequent label."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import Annotated

import torch
from torch import Tensor

from edgemask._options import Range
from edgemask.losses.base import Loss, OpenUnit, Positive, Rows, clamp_log, expected, loss, on_label
from edgemask.losses.bounded import mse

__all__ = [
    "AELLoss",
    "AGCELoss",
    "AMSELoss",
    "ANormLoss",
    "AULLoss",
    "Above1",
    "AtLeast1",
    "ael",
    "agce",
    "amse",
    "aul",
]

Above1 = Annotated[float, Range(above=1)]
AtLeast1 = Annotated[float, Range(1)]

_REFERENCE = "Zhou et al., Asymmetric Loss Functions for Learning with Noisy Labels, ICML 2021"


def agce(log_probs: Tensor, target: Tensor, a: float, q: float) -> Tensor:
    """Return [(a+1)^q − (a+p_y)^q]/q."""
    best = (a + 1) ** q
    return expected(lambda log_p: (best - (a + log_p.exp()) ** q) / q, log_probs, target)


def aul(log_probs: Tensor, target: Tensor, a: float, q: float) -> Tensor:
    """Return [(a−p_y)^q − (a−1)^q]/q."""
    best = (a - 1) ** q
    return expected(lambda log_p: ((a - log_p.exp()) ** q - best) / q, log_probs, target)


def ael(log_probs: Tensor, target: Tensor, a: float) -> Tensor:
    """Return exp(−p_y/a)."""
    return expected(lambda log_p: (log_p.exp() / -a).exp(), log_probs, target)


def amse(
    probs: Tensor, target: Tensor, a: float, q: float = 2.0, reduction: str = "none"
) -> Tensor:
    """Return |p_k − a·t_k|^q for all classes, (N, C); the loss is their ``"mean"``."""
    if q == 2.0:
        return mse(probs, target, a, reduction)
    powers = (probs - on_label(a, target, probs)).abs().pow(q)
    return powers.mean() if reduction == "mean" else powers


@loss
class AGCELoss(Loss):
    """Asymmetric generalised cross entropy (AGCE).

    Args:
        a: Shift of the probability.
        q: Exponent.
    """

    equation = "[(a+1)^q − (a+p_y)^q]/q"
    reference = _REFERENCE
    bounded = True

    a: Positive = 0.6
    q: Positive = 0.6

    def formula(self, log_probs: Tensor, target: Tensor) -> Tensor:
        """Return [(a+1)^q − (a+p_y)^q]/q."""
        return agce(log_probs, target, self.a, self.q)


@loss
class AULLoss(Loss):
    """Asymmetric unhinged loss (AUL).

    Args:
        a: Shift of the probability, above 1.
        q: Exponent.
    """

    equation = "[(a−p_y)^q − (a−1)^q]/q"
    reference = _REFERENCE
    bounded = True

    a: Above1 = 5.5
    q: Positive = 3.0

    def formula(self, log_probs: Tensor, target: Tensor) -> Tensor:
        """Return [(a−p_y)^q − (a−1)^q]/q."""
        return aul(log_probs, target, self.a, self.q)


@loss
class AELLoss(Loss):
    """Asymmetric exponential loss (AEL).

    Args:
        a: Temperature of the exponential.
    """

    equation = "exp(−p_y/a)"
    reference = _REFERENCE
    bounded = True

    a: Positive = 2.5

    def formula(self, log_probs: Tensor, target: Tensor) -> Tensor:
        """Return exp(−p_y/a)."""
        return ael(log_probs, target, self.a)


@loss
class AMSELoss(Loss):
    """Asymmetric mean squared error (AMSE): the probability of the label is pulled towards a.

    The constant a²/K makes the values look large; the gradients are not.

    Args:
        a: Value that the label's probability is compared with, at least 1.
        q: Exponent; 2 is the published loss, others its ablation.
    """

    equation = "(1/K)·Σ_k |p_k − a·t_k|^q, q = 2"
    reference = "Wang et al., Joint Asymmetric Loss for Learning with Noisy Labels, ICCV 2025"
    bounded = True

    a: AtLeast1 = 30.0
    _: KW_ONLY
    q: AtLeast1 = 2.0

    def formula(self, log_probs: Tensor, target: Tensor) -> Tensor:
        """Return |p_k − a·t_k|^q for all classes."""
        return amse(log_probs.exp(), target, self.a, self.q)

    def values(self, rows: Rows, index: Tensor | None) -> Tensor:
        """Return what :meth:`formula` returns, or its mean, from probabilities at once."""
        del index
        reduction = "mean" if self.is_plain_mean(rows) else "none"
        return amse(torch.softmax(rows.logits, dim=1), rows.target, self.a, self.q, reduction)


@loss
class ANormLoss(Loss):
    """Asymmetric norm (ANorm) of the difference between label and prediction.

    Args:
        a: Value that the label's probability is compared with, above 1.
        power: Exponent n of the norm.
        min_prob: Probabilities are clipped to [min_prob, 1].
    """

    equation = "{Σ_k |a·t_k − clip(p_k)|^n − (a−1)^n}/n, n = power"
    reference = _REFERENCE
    bounded = True

    a: Above1 = 1.5
    power: Positive = 2.0
    _: KW_ONLY
    min_prob: OpenUnit = 1e-5

    def formula(self, log_probs: Tensor, target: Tensor) -> Tensor:
        """Return {Σ_k |a·t_k − clip(p_k)|^n − (a−1)^n}/n."""
        probs = clamp_log(log_probs, self.min_prob).exp()
        distance = amse(probs, target, self.a, self.power)
        best: float = (self.a - 1) ** self.power
        return (distance.sum(dim=1, keepdim=True) - best) / self.power
