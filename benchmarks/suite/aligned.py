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
from edgemask.losses.cross_entropy import cross_entropy
from edgemask.losses.elr import ELRLoss, elr_probabilities, elr_regulariser

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

    def values(self, rows: Rows, index: Tensor | None) -> Tensor:
        """Return the loss of each row; ``index`` holds the samples' positions."""
        log_probs = torch.log_softmax(rows.logits, dim=1)
        probabilities = elr_probabilities(log_probs, self.min_prob)
        memory = self.ensemble.index_select(0, index)
        if self.training and torch.is_grad_enabled():
            prediction = probabilities.detach()
            prediction = prediction / prediction.sum(dim=1, keepdim=True)
            updated = torch.lerp(prediction, memory, self.beta)
            new = (memory.sum(dim=1) == 0).to(memory)
            self.label_counts.index_add_(0, rows.target[:, 0], new)
            self.memory_sums += (updated - memory).sum(dim=0)
            self.ensemble.index_copy_(0, index, updated)
            memory = updated
        aligned = memory * self.factors()
        scale = memory.sum(dim=1, keepdim=True) / aligned.sum(dim=1, keepdim=True).clamp_min(1e-12)
        regulariser = elr_regulariser(probabilities, aligned * scale)[:, None]
        return cross_entropy(log_probs, rows.target) + self.lam * regulariser

    def factors(self) -> Tensor:
        """Return what the running means of each class are multiplied by, (K,)."""
        given, remembered = (s / s.sum() for s in (self.label_counts, self.memory_sums))
        return (given / remembered).nan_to_num(1.0).clamp(1 / LARGEST, LARGEST)


em.register("loss", "elr-aligned", AlignedELRLoss)
