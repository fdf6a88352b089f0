"""Uniform selection: equally many labels of every class, those that predictions agree with best."""

from __future__ import annotations

import math

import torch
from torch import Tensor

__all__ = ["divergence_cutoff", "uniform_selection"]


def divergence_cutoff(divergence: Tensor, *, adjust_above: float | None, tau: float) -> float:
    """Return the divergence below which labels are taken for right: the mean, lower if it is high.

    ``c = mean d``; where ``c / ln 2 > adjust_above`` most labels are doubted, and the cut-off is
    ``c - (c - min d) / tau``.

    Args:
        divergence: Jensen-Shannon divergence between prediction and given label in natural
            logarithms, ``(N,)``.
        adjust_above: Mean divergence, as a share of its largest value ln 2; None never adjusts.
        tau: Filter coefficient.

    Example:
        >>> d = torch.tensor([0.1, 0.3, 0.5])
        >>> round(divergence_cutoff(d, adjust_above=0.7, tau=5.0), 4)
        0.3
    """
    mean = float(divergence.mean())
    if adjust_above is not None and mean > adjust_above * math.log(2):
        mean -= (mean - float(divergence.min())) / tau
    return mean


def uniform_selection(
    divergence: Tensor, labels: Tensor, num_classes: int, *, cutoff: float
) -> Tensor:
    """Choose the same number of samples of each given class, those of smallest divergence.

    The number is ``int(R N / C)``, R being the share of all samples below the cut-off. A class with
    fewer samples gives all that it has.

    Args:
        divergence: Divergence between prediction and given label, ``(N,)``.
        labels: Given labels, ``(N,)``.
        num_classes: Number C of classes.
        cutoff: What counts as small.

    Returns:
        ``(N,)`` bool: whether a sample keeps its label.

    Reference:
        Karim et al., UNICON: Combating Label Noise Through Uniform Selection and Contrastive
        Learning, CVPR 2022, Section 3.1.
    """
    below = int((divergence < cutoff).sum())
    quota = below // num_classes
    order = torch.argsort(divergence, stable=True)
    order = order[torch.argsort(labels[order], stable=True)]  # by class, then by divergence
    ordered = labels[order]
    starts = torch.searchsorted(ordered, torch.arange(num_classes, device=labels.device))
    rank = torch.arange(len(labels), device=labels.device) - starts[ordered]
    chosen = torch.zeros_like(labels, dtype=torch.bool)
    chosen[order[rank < quota]] = True
    return chosen
