"""Contrast between two views of a batch: each sample is like itself and unlike all others."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = ["contrastive_loss"]


def contrastive_loss(first: Tensor, second: Tensor, *, temperature: float = 0.05) -> Tensor:
    """Return the SimCLR loss of two views, averaged over all 2B projections.

    ``-log(exp(z_i z_j / T) / sum_{k != i} exp(z_i z_k / T))``, j being the other view of i.

    Args:
        first: Projections of unit length, ``(B, D)``.
        second: Those of the other view.
        temperature: The temperature T.

    Reference:
        Chen et al., A Simple Framework for Contrastive Learning of Visual Representations,
        ICML 2020.
    """
    size = len(first)
    both = torch.cat([first, second]).float()
    similarity = both @ both.t() / temperature
    itself = torch.eye(2 * size, dtype=torch.bool, device=both.device)
    partner = torch.arange(2 * size, device=both.device).roll(size)
    return F.cross_entropy(similarity.masked_fill(itself, -torch.inf), partner)
