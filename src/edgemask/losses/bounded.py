"""Bounded losses of the probabilities: mean absolute error, mean squared error, reverse CE."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY

import torch
from torch import Tensor
from torch.nn import functional as F

from edgemask.losses.base import (
    Clip,
    Loss,
    OpenUnit,
    Rows,
    clamp_log,
    expected,
    loss,
    off_label,
    on_label,
)

__all__ = ["MAELoss", "MSELoss", "RCELoss", "mae", "mse", "rce"]


def mae(log_probs: Tensor, target: Tensor) -> Tensor:
    """Return 1 − p_y, exact near p_y = 1."""
    return expected(lambda log_p: -torch.expm1(log_p), log_probs, target)


def mse(probs: Tensor, target: Tensor, a: float = 1.0, reduction: str = "none") -> Tensor:
    """Return (p_k − a·t_k)² for all classes, (N, C); the loss is their ``"mean"``."""
    return F.mse_loss(probs, on_label(a, target, probs), reduction=reduction)


def rce(log_probs: Tensor, target: Tensor, min_prob: float, min_target: float) -> Tensor:
    """Return −Σ_k clip(p_k)·log clip(t_k)."""
    if target.is_floating_point():
        cost = -target.clamp(min_target, 1.0).log()
    else:
        cost = off_label(-math.log(min_target), target, log_probs)
    return (clamp_log(log_probs, min_prob).exp() * cost).sum(dim=1, keepdim=True)


@loss
class MAELoss(Loss):
    """Mean absolute error (MAE) of the probabilities; robust, but slow to learn from.

    With ``scale=2`` the loss is the sum of absolute differences ‖p − t‖₁, as in some papers.
    """

    equation = "1 − p_y"
    reference = "Ghosh et al., Robust Loss Functions under Label Noise, AAAI 2017"
    symmetric = True
    bounded = True

    def formula(self, log_probs: Tensor, target: Tensor) -> Tensor:
        """Return 1 − p_y."""
        return mae(log_probs, target)


@loss
class MSELoss(Loss):
    """Mean squared error (MSE) of the probabilities, also called the Brier score."""

    equation = "(1/K)·Σ_k (p_k − t_k)²"
    reference = "Ghosh et al., Robust Loss Functions under Label Noise, AAAI 2017"
    bounded = True

    def formula(self, log_probs: Tensor, target: Tensor) -> Tensor:
        """Return (p_k − t_k)² for all classes."""
        return mse(log_probs.exp(), target)

    def values(self, rows: Rows, index: Tensor | None) -> Tensor:
        """Return what :meth:`formula` returns, or its mean, from probabilities at once."""
        del index
        reduction = "mean" if self.is_plain_mean(rows) else "none"
        return mse(torch.softmax(rows.logits, dim=1), rows.target, reduction=reduction)


@loss
class RCELoss(Loss):
    """Reverse cross entropy (RCE): cross entropy with prediction and label exchanged.

    Args:
        min_prob: Probabilities are clipped to [min_prob, 1].
        min_target: Targets are clipped to [min_target, 1] before the logarithm.
    """

    equation = "−Σ_k clip(p_k)·log clip(t_k)"
    reference = "Wang et al., Symmetric Cross Entropy for Robust Learning, ICCV 2019"
    symmetric = True
    bounded = True

    _: KW_ONLY
    min_prob: Clip = 1e-7
    min_target: OpenUnit = 1e-4

    def formula(self, log_probs: Tensor, target: Tensor) -> Tensor:
        """Return −Σ_k clip(p_k)·log clip(t_k)."""
        return rce(log_probs, target, self.min_prob, self.min_target)
