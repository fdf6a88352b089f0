"""A candidate: early-learning regularisation whose memory gives every class its share.

Early-learning regularisation (ELR) holds a network to the running means of its own predictions, and
so makes classes rarer that it predicts too seldom. Here the running means are multiplied by the
share that a class has of the given labels over the share that it has of the running means (as far
as LARGEST and its inverse), and scaled back to their sums. Both shares are of the samples seen.
"""

from __future__ import annotations

from dataclasses import field

import torch
from torch import Tensor

import edgemask as em
from edgemask.losses.base import Rows, loss
from edgemask.losses.elr import ELRLoss

LARGEST = 5.0


@loss
class AlignedELRLoss(ELRLoss):
    """ELR whose running means are aligned with the shares of the given labels; one process."""

    equation = "−log p_y + λ·log(1 − ⟨a_i, clip(p)⟩), a_ik ∝ m_ik · share_k(labels) / share_k(m)"
    reference = "EdgeMask's own; distribution alignment is from ReMixMatch (Berthelot et al., 2020)"

    label_counts: Tensor = field(init=False)
    memory_sums: Tensor = field(init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("label_counts", "memory_sums"):
            self.register_buffer(name, torch.zeros(self.num_classes))

    def targets(self, before: Tensor, ensemble: Tensor, rows: Rows) -> Tensor:
        """Return the running means of a batch, aligned with the given labels."""
        if ensemble is not before:
            new = (before.sum(dim=1) == 0).to(before)
            self.label_counts.index_add_(0, rows.target[:, 0], new)
            self.memory_sums += (ensemble - before).sum(dim=0)
        aligned = ensemble * self.factors()
        sums = aligned.sum(dim=1, keepdim=True).clamp_min(1e-12)
        return aligned * (ensemble.sum(dim=1, keepdim=True) / sums)

    def factors(self) -> Tensor:
        """Return what the running means of each class are multiplied by, (K,)."""
        given, remembered = (s / s.sum() for s in (self.label_counts, self.memory_sums))
        return (given / remembered).nan_to_num(1.0).clamp(1 / LARGEST, LARGEST)


em.register("loss", "elr-aligned", AlignedELRLoss)
