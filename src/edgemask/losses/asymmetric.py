"""Asymmetric losses: robust whenever the true class is still the most frequent label."""

from __future__ import annotations

from torch import Tensor

from edgemask.losses._common import as_distribution, clamp_log, expected, prepare, require
from edgemask.losses.base import Loss, Reduction

__all__ = [
    "AELLoss",
    "AGCELoss",
    "AMSELoss",
    "ANormLoss",
    "AULLoss",
    "ael",
    "agce",
    "amse",
    "anorm",
    "aul",
    "check_ael",
    "check_agce",
    "check_amse",
    "check_aul",
]

_REFERENCE = "Zhou et al., Asymmetric Loss Functions for Learning with Noisy Labels, ICML 2021"


def agce(logits: Tensor, target: Tensor, *, a: float = 0.6, q: float = 0.6) -> Tensor:
    """Return [(a+1)^q − (a+p_y)^q]/q for every sample."""
    best = (a + 1) ** q
    return expected(lambda log_p: (best - (a + log_p.exp()) ** q) / q, *prepare(logits, target))


def aul(logits: Tensor, target: Tensor, *, a: float = 5.5, q: float = 3.0) -> Tensor:
    """Return [(a−p_y)^q − (a−1)^q]/q for every sample."""
    best = (a - 1) ** q
    return expected(lambda log_p: ((a - log_p.exp()) ** q - best) / q, *prepare(logits, target))


def ael(logits: Tensor, target: Tensor, *, a: float = 2.5) -> Tensor:
    """Return exp(−p_y/a) for every sample."""
    return expected(lambda log_p: (-log_p.exp() / a).exp(), *prepare(logits, target))


def amse(logits: Tensor, target: Tensor, *, a: float = 30.0, q: float = 2.0) -> Tensor:
    """Return the mean over classes of |p_k − a·t_k|^q for every sample."""
    log_probs, target = prepare(logits, target)
    difference = log_probs.exp() - a * as_distribution(target, log_probs)
    return difference.abs().pow(q).mean(dim=1)


def anorm(
    logits: Tensor, target: Tensor, *, a: float = 1.5, power: float = 2.0, min_prob: float = 1e-5
) -> Tensor:
    """Return {Σ_k |a·t_k − clip(p_k)|^n − (a−1)^n}/n for every sample, n the power."""
    log_probs, target = prepare(logits, target)
    difference = a * as_distribution(target, log_probs) - clamp_log(log_probs, min_prob).exp()
    best: float = (a - 1) ** power
    return (difference.abs().pow(power).sum(dim=1) - best) / power


def check_agce(a: float, q: float) -> None:
    """Check the arguments of AGCE."""
    require(a > 0.0, "a", a, "a positive number")
    require(q > 0.0, "q", q, "a positive number")


def check_aul(a: float, q: float) -> None:
    """Check the arguments of AUL."""
    require(a > 1.0, "a", a, "a number above 1")
    require(q > 0.0, "q", q, "a positive number")


def check_ael(a: float) -> None:
    """Check the argument of AEL."""
    require(a > 0.0, "a", a, "a positive number")


def check_amse(a: float, q: float = 2.0) -> None:
    """Check the arguments of AMSE."""
    require(a >= 1.0, "a", a, "a number of at least 1")
    require(q >= 1.0, "q", q, "a number of at least 1")


class AGCELoss(Loss):
    """Asymmetric generalised cross entropy (AGCE).

    Args:
        a: Shift of the probability.
        q: Exponent.
        scale: Factor of the loss.
        reduction: ``"mean"`` or ``"none"``.
    """

    equation = "[(a+1)^q − (a+p_y)^q]/q"
    reference = _REFERENCE
    bounded = True

    def __init__(
        self,
        a: float = 0.6,
        q: float = 0.6,
        *,
        scale: float = 1.0,
        reduction: Reduction = "mean",
    ):
        super().__init__(scale=scale, reduction=reduction)
        check_agce(a, q)
        self.a = a
        self.q = q

    def _per_sample(self, logits: Tensor, target: Tensor) -> Tensor:
        return agce(logits, target, a=self.a, q=self.q)


class AULLoss(Loss):
    """Asymmetric unhinged loss (AUL).

    Args:
        a: Shift of the probability, above 1.
        q: Exponent.
        scale: Factor of the loss.
        reduction: ``"mean"`` or ``"none"``.
    """

    equation = "[(a−p_y)^q − (a−1)^q]/q"
    reference = _REFERENCE
    bounded = True

    def __init__(
        self,
        a: float = 5.5,
        q: float = 3.0,
        *,
        scale: float = 1.0,
        reduction: Reduction = "mean",
    ):
        super().__init__(scale=scale, reduction=reduction)
        check_aul(a, q)
        self.a = a
        self.q = q

    def _per_sample(self, logits: Tensor, target: Tensor) -> Tensor:
        return aul(logits, target, a=self.a, q=self.q)


class AELLoss(Loss):
    """Asymmetric exponential loss (AEL).

    Args:
        a: Temperature of the exponential.
        scale: Factor of the loss.
        reduction: ``"mean"`` or ``"none"``.
    """

    equation = "exp(−p_y/a)"
    reference = _REFERENCE
    bounded = True

    def __init__(self, a: float = 2.5, *, scale: float = 1.0, reduction: Reduction = "mean"):
        super().__init__(scale=scale, reduction=reduction)
        check_ael(a)
        self.a = a

    def _per_sample(self, logits: Tensor, target: Tensor) -> Tensor:
        return ael(logits, target, a=self.a)


class AMSELoss(Loss):
    """Asymmetric mean squared error (AMSE): the label is pulled towards a, not towards 1.

    The constant a²/K makes the values look large; the gradients are not.

    Args:
        a: Height of the label, at least 1.
        q: Exponent; 2 is the published loss, others its ablation.
        scale: Factor of the loss.
        reduction: ``"mean"`` or ``"none"``.
    """

    equation = "(1/K)·Σ_k |p_k − a·t_k|^q, q = 2"
    reference = "Wang et al., Joint Asymmetric Loss for Learning with Noisy Labels, ICCV 2025"
    bounded = True

    def __init__(
        self,
        a: float = 30.0,
        *,
        q: float = 2.0,
        scale: float = 1.0,
        reduction: Reduction = "mean",
    ):
        super().__init__(scale=scale, reduction=reduction)
        check_amse(a, q)
        self.a = a
        self.q = q

    def _per_sample(self, logits: Tensor, target: Tensor) -> Tensor:
        return amse(logits, target, a=self.a, q=self.q)


class ANormLoss(Loss):
    """Asymmetric norm (ANorm) of the difference between label and prediction.

    Args:
        a: Height of the label, above 1.
        power: Exponent n of the norm.
        min_prob: Probabilities are clipped to [min_prob, 1].
        scale: Factor of the loss.
        reduction: ``"mean"`` or ``"none"``.
    """

    equation = "{Σ_k |a·t_k − clip(p_k)|^n − (a−1)^n}/n, n = power"
    reference = _REFERENCE
    bounded = True

    def __init__(
        self,
        a: float = 1.5,
        power: float = 2.0,
        *,
        min_prob: float = 1e-5,
        scale: float = 1.0,
        reduction: Reduction = "mean",
    ):
        super().__init__(scale=scale, reduction=reduction)
        require(a > 1.0, "a", a, "a number above 1")
        require(power > 0.0, "power", power, "a positive number")
        require(0.0 < min_prob < 1.0, "min_prob", min_prob, "a number between 0 and 1")
        self.a = a
        self.power = power
        self.min_prob = min_prob

    def _per_sample(self, logits: Tensor, target: Tensor) -> Tensor:
        return anorm(logits, target, a=self.a, power=self.power, min_prob=self.min_prob)
