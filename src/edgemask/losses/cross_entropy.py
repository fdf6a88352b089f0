"""Cross entropy and its relatives: label smoothing and focal loss."""

from __future__ import annotations

import torch
from torch import Tensor

from edgemask.losses._common import expected, prepare, require
from edgemask.losses.base import Loss, Reduction

__all__ = [
    "CELoss",
    "FocalLoss",
    "LabelSmoothingLoss",
    "cross_entropy",
    "focal",
    "focal_terms",
    "label_smoothing",
]


def cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    """Return −log p_y for every sample."""
    return expected(torch.neg, *prepare(logits, target))


def label_smoothing(logits: Tensor, target: Tensor, *, rate: float = 0.1) -> Tensor:
    """Return the cross entropy with (1−r)·t + r/K for every sample; r may be negative."""
    log_probs, target = prepare(logits, target)
    return (1 - rate) * expected(torch.neg, log_probs, target) - rate * log_probs.mean(dim=1)


def focal_terms(log_probs: Tensor, gamma: float) -> Tensor:
    """Return −sg[(1−p)^γ]·log p, elementwise; the factor carries no gradient."""
    factor = torch.expm1(log_probs.detach()).neg().clamp(min=0.0).pow(gamma)
    return -factor * log_probs


def focal(logits: Tensor, target: Tensor, *, gamma: float = 0.5) -> Tensor:
    """Return the focal loss of every sample."""
    log_probs, target = prepare(logits, target)
    return expected(lambda log_p: focal_terms(log_p, gamma), log_probs, target)


class CELoss(Loss):
    """Cross entropy (CE), the loss that fits every label in the end, wrong ones too.

    Args:
        reduction: ``"mean"`` or ``"none"``.

    Example:
        >>> CELoss()(torch.zeros(1, 4), torch.tensor([2]))
        tensor(1.3863)
    """

    equation = "−log p_y"
    reference = "the usual definition, torch.nn.CrossEntropyLoss"

    def __init__(self, *, reduction: Reduction = "mean"):
        super().__init__(reduction=reduction)

    def _per_sample(self, logits: Tensor, target: Tensor) -> Tensor:
        return cross_entropy(logits, target)


class LabelSmoothingLoss(Loss):
    """Label smoothing (LS): cross entropy with a share of the label spread over all classes.

    Args:
        rate: The share r that is spread; negative ("negative label smoothing") sharpens instead.
        reduction: ``"mean"`` or ``"none"``.
    """

    equation = "−Σ_k [(1−r)·t_k + r/K]·log p_k"
    reference = (
        "Szegedy et al., Rethinking the Inception Architecture, CVPR 2016; negative rates: "
        "Wei et al., To Smooth or Not? When Label Smoothing Meets Noisy Labels, ICML 2022"
    )

    def __init__(self, rate: float = 0.1, *, reduction: Reduction = "mean"):
        super().__init__(reduction=reduction)
        require(rate <= 1.0, "rate", rate, "at most 1 (negative rates are allowed)")
        self.rate = rate

    def _per_sample(self, logits: Tensor, target: Tensor) -> Tensor:
        return label_smoothing(logits, target, rate=self.rate)


class FocalLoss(Loss):
    """Focal loss (FL): cross entropy with less weight on samples that are already fitted.

    The focal factor carries no gradient, as in the code of all papers on robust losses.

    Args:
        gamma: Strength γ of the focal factor.
        reduction: ``"mean"`` or ``"none"``.
    """

    equation = "−sg[(1−p_y)^γ]·log p_y"
    reference = "Lin et al., Focal Loss for Dense Object Detection, ICCV 2017"

    def __init__(self, gamma: float = 0.5, *, reduction: Reduction = "mean"):
        super().__init__(reduction=reduction)
        require(gamma >= 0.0, "gamma", gamma, "a number that is not negative")
        self.gamma = gamma

    def _per_sample(self, logits: Tensor, target: Tensor) -> Tensor:
        return focal(logits, target, gamma=self.gamma)
