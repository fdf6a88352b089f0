"""Cross entropy and its relatives: label smoothing and focal loss."""

from __future__ import annotations

import math
from typing import Annotated

import torch
from torch import Tensor
from torch.nn import functional as F

from edgemask._options import Range
from edgemask.losses.base import Loss, NonNegative, at_label, expected, loss

__all__ = ["CELoss", "FocalLoss", "LabelSmoothingLoss", "cross_entropy", "focal", "focal_terms"]


def cross_entropy(log_probs: Tensor, target: Tensor) -> Tensor:
    """Return −log p_y."""
    return -at_label(log_probs, target)


def focal_terms(log_probs: Tensor, gamma: float) -> Tensor:
    """Return −sg[(1−p)^γ]·log p, elementwise; the factor carries no gradient."""
    factor = torch.expm1(log_probs.detach()).neg_().pow_(gamma).neg_()
    return factor * log_probs


def focal(log_probs: Tensor, target: Tensor, gamma: float) -> Tensor:
    """Return −sg[(1−p_y)^γ]·log p_y."""
    return expected(lambda log_p: focal_terms(log_p, gamma), log_probs, target)


@loss
class CELoss(Loss):
    """Cross entropy (CE), which fits every label in the end, wrong ones included.

    Example:
        >>> CELoss()(torch.zeros(1, 4), torch.tensor([2]))
        tensor(1.3863)
    """

    equation = "−log p_y"
    reference = "the usual definition, torch.nn.CrossEntropyLoss"

    def formula(self, log_probs: Tensor, target: Tensor) -> Tensor:
        """Return −log p_y."""
        return cross_entropy(log_probs, target)

    def forward(self, logits: Tensor, target: Tensor, index: Tensor | None = None) -> Tensor:
        """Compute the loss of a batch; see :meth:`Loss.forward`."""
        usual = (
            (self.weight is None and self.scale == 1.0 and self.reduction == "mean")
            and (logits.dtype == torch.float32 and target.dtype == torch.int64 and logits.is_cpu)
            and (logits.ndim == 2 and logits.shape[1] > 1 and logits.shape[:1] == target.shape)
            and not torch.compiler.is_compiling()
        )
        if usual:
            # torch's own operator is quicker and checks the labels as well. What it refuses, and a
            # batch without any label that counts (not a number there), is left to the general way.
            try:
                value = F.cross_entropy(logits, target, ignore_index=self.ignore_index)
            except IndexError:
                return super().forward(logits, target, index)
            if math.isfinite(value.item()):
                return value
        return super().forward(logits, target, index)


@loss
class LabelSmoothingLoss(Loss):
    """Label smoothing (LS): cross entropy with a share of the label spread over all classes.

    Args:
        rate: The share r that is spread; negative ("negative label smoothing") sharpens instead.
    """

    equation = "−Σ_k [(1−r)·t_k + r/K]·log p_k"
    reference = (
        "Szegedy et al., Rethinking the Inception Architecture, CVPR 2016; negative rates: "
        "Wei et al., To Smooth or Not? When Label Smoothing Meets Noisy Labels, ICML 2022"
    )

    rate: Annotated[float, Range(high=1)] = 0.1

    def formula(self, log_probs: Tensor, target: Tensor) -> Tensor:
        """Return the cross entropy with (1−r)·t + r/K."""
        uniform = -log_probs.mean(dim=1, keepdim=True)
        return (1 - self.rate) * cross_entropy(log_probs, target) + self.rate * uniform


@loss
class FocalLoss(Loss):
    """Focal loss (FL): cross entropy with less weight on samples that are already fitted.

    The focal factor carries no gradient, as in the code of all papers on robust losses.

    Args:
        gamma: Strength γ of the focal factor.
    """

    equation = "−sg[(1−p_y)^γ]·log p_y"
    reference = "Lin et al., Focal Loss for Dense Object Detection, ICCV 2017"

    gamma: NonNegative = 0.5

    def formula(self, log_probs: Tensor, target: Tensor) -> Tensor:
        """Return −sg[(1−p_y)^γ]·log p_y."""
        return focal(log_probs, target, self.gamma)
