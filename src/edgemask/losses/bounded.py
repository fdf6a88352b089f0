"""Bounded losses of the probabilities: MAE, MSE, reverse cross entropy, and symmetric CE."""

from __future__ import annotations

import torch
from torch import Tensor

from edgemask.losses._common import as_distribution, clamp_log, expected, prepare, require
from edgemask.losses.base import Loss, Reduction
from edgemask.losses.cross_entropy import cross_entropy

__all__ = ["MAELoss", "MSELoss", "RCELoss", "SCELoss", "check_rce", "mae", "mse", "rce", "sce"]


def mae(logits: Tensor, target: Tensor) -> Tensor:
    """Return 1 − p_y for every sample."""
    return expected(lambda log_p: -torch.expm1(log_p), *prepare(logits, target))


def mse(logits: Tensor, target: Tensor) -> Tensor:
    """Return the mean over classes of (p_k − t_k)² for every sample."""
    log_probs, target = prepare(logits, target)
    return (log_probs.exp() - as_distribution(target, log_probs)).square().mean(dim=1)


def rce(
    logits: Tensor, target: Tensor, *, min_prob: float = 1e-7, min_target: float = 1e-4
) -> Tensor:
    """Return the reverse cross entropy of every sample."""
    log_probs, target = prepare(logits, target)
    cost = -as_distribution(target, log_probs).clamp(min_target, 1.0).log()
    return (clamp_log(log_probs, min_prob).exp() * cost).sum(dim=1)


def sce(
    logits: Tensor,
    target: Tensor,
    *,
    alpha: float = 0.1,
    beta: float = 1.0,
    min_prob: float = 1e-7,
    min_target: float = 1e-4,
) -> Tensor:
    """Return α·CE + β·RCE of every sample."""
    reverse = rce(logits, target, min_prob=min_prob, min_target=min_target)
    return alpha * cross_entropy(logits, target) + beta * reverse


def check_rce(min_prob: float, min_target: float) -> None:
    """Check the clips of the reverse cross entropy."""
    require(0.0 <= min_prob < 1.0, "min_prob", min_prob, "a probability below 1")
    require(0.0 < min_target < 1.0, "min_target", min_target, "a number between 0 and 1")


class MAELoss(Loss):
    """Mean absolute error (MAE) of the probabilities; robust, but slow to learn from.

    Args:
        scale: Factor s; with 2 the loss is the sum of absolute differences ‖p − t‖₁.
        reduction: ``"mean"`` or ``"none"``.
    """

    equation = "s·(1 − p_y)"
    reference = "Ghosh et al., Robust Loss Functions under Label Noise, AAAI 2017"
    symmetric = True
    bounded = True

    def __init__(self, *, scale: float = 1.0, reduction: Reduction = "mean"):
        super().__init__(scale=scale, reduction=reduction)

    def _per_sample(self, logits: Tensor, target: Tensor) -> Tensor:
        return mae(logits, target)


class MSELoss(Loss):
    """Mean squared error (MSE) of the probabilities, also called the Brier score.

    Args:
        reduction: ``"mean"`` or ``"none"``.
    """

    equation = "(1/K)·Σ_k (p_k − t_k)²"
    reference = "Ghosh et al., Robust Loss Functions under Label Noise, AAAI 2017"
    bounded = True

    def __init__(self, *, reduction: Reduction = "mean"):
        super().__init__(reduction=reduction)

    def _per_sample(self, logits: Tensor, target: Tensor) -> Tensor:
        return mse(logits, target)


class RCELoss(Loss):
    """Reverse cross entropy (RCE): prediction and label change places.

    Args:
        min_prob: Probabilities are clipped to [min_prob, 1].
        min_target: Targets are clipped to [min_target, 1] before the logarithm.
        scale: Factor of the loss.
        reduction: ``"mean"`` or ``"none"``.
    """

    equation = "−Σ_k clip(p_k)·log clip(t_k)"
    reference = "Wang et al., Symmetric Cross Entropy for Robust Learning, ICCV 2019"
    symmetric = True
    bounded = True

    def __init__(
        self,
        *,
        min_prob: float = 1e-7,
        min_target: float = 1e-4,
        scale: float = 1.0,
        reduction: Reduction = "mean",
    ):
        super().__init__(scale=scale, reduction=reduction)
        check_rce(min_prob, min_target)
        self.min_prob = min_prob
        self.min_target = min_target

    def _per_sample(self, logits: Tensor, target: Tensor) -> Tensor:
        return rce(logits, target, min_prob=self.min_prob, min_target=self.min_target)


class SCELoss(Loss):
    """Symmetric cross entropy (SCE): cross entropy plus its reverse.

    The name speaks of the two directions; in the sense of the noise-tolerance theory the loss is
    not symmetric, because its cross entropy is not.

    Args:
        alpha: Weight α of the cross entropy.
        beta: Weight β of the reverse cross entropy.
        min_prob: Probabilities of the reverse part are clipped to [min_prob, 1].
        min_target: Targets are clipped to [min_target, 1] before the logarithm.
        reduction: ``"mean"`` or ``"none"``.
    """

    equation = "α·CE + β·RCE"
    reference = "Wang et al., Symmetric Cross Entropy for Robust Learning, ICCV 2019"

    def __init__(
        self,
        alpha: float = 0.1,
        beta: float = 1.0,
        *,
        min_prob: float = 1e-7,
        min_target: float = 1e-4,
        reduction: Reduction = "mean",
    ):
        super().__init__(reduction=reduction)
        check_rce(min_prob, min_target)
        self.alpha = alpha
        self.beta = beta
        self.min_prob = min_prob
        self.min_target = min_target

    def _per_sample(self, logits: Tensor, target: Tensor) -> Tensor:
        return sce(
            logits,
            target,
            alpha=self.alpha,
            beta=self.beta,
            min_prob=self.min_prob,
            min_target=self.min_target,
        )
