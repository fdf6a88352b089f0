"""Early-learning regularisation (ELR)."""

from __future__ import annotations

from dataclasses import KW_ONLY, field
from typing import Annotated

import torch
from torch import Tensor

from edgemask._options import Range
from edgemask.losses.base import BelowHalf, Clip, Loss, Rows, check_index, loss
from edgemask.losses.cross_entropy import cross_entropy

__all__ = ["ELRLoss", "elr_probabilities", "elr_regulariser"]


def elr_probabilities(log_probs: Tensor, min_prob: float = 1e-4) -> Tensor:
    """Return the probabilities clipped to [min_prob, 1 − min_prob]."""
    return log_probs.exp().clamp(min_prob, 1.0 - min_prob)


def elr_regulariser(probabilities: Tensor, ensemble: Tensor) -> Tensor:
    """Return log(1 − ⟨ensemble, p⟩) of each sample, (B,); the ensemble carries no gradient."""
    return torch.log(1.0 - (ensemble.detach() * probabilities).sum(dim=1))


@loss
class ELRLoss(Loss):
    """Early-learning regularisation (ELR): cross entropy, and agreement with early predictions.

    Every sample has a running mean of its predictions. In ``train()`` mode with gradients on, the
    mean is updated before it is used; in ``eval()`` mode or under ``no_grad`` it is only used.
    The means are a buffer, so that a run resumes from ``state_dict`` exactly. A sample that occurs
    twice in a batch is updated from both rows' old mean, and one of the rows is kept.

    Args:
        num_samples: Size N of the training set.
        num_classes: Number K of classes.
        beta: Momentum β of the running means.
        lam: Weight λ of the regulariser.
        min_prob: Probabilities of the regulariser are clipped to [min_prob, 1 − min_prob].
    """

    equation = (
        "−log p_y + λ·log(1 − ⟨m_i, clip(p)⟩) with m_i ← β·m_i + (1−β)·sg[clip(p)/Σ_k clip(p_k)]"
    )
    reference = "Liu et al., Early-Learning Regularization Prevents Memorization, NeurIPS 2020"
    needs_index = True

    num_samples: Annotated[int, Range(1)]
    num_classes: Annotated[int, Range(2)]
    _: KW_ONLY
    beta: Clip = 0.7
    lam: Annotated[float, Range()] = 3.0
    min_prob: BelowHalf = 1e-4
    ensemble: Tensor = field(init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.register_buffer("ensemble", torch.zeros(self.num_samples, self.num_classes))

    def values(self, rows: Rows, index: Tensor | None) -> Tensor:
        """Return the loss of each row; ``index`` holds the samples' positions."""
        if rows.logits.shape[1] != self.num_classes:
            raise ValueError(
                f"logits of {rows.logits.shape[1]} classes: ELR was made for num_classes="
                f"{self.num_classes}"
            )
        index = check_index(index, rows.shape, self.num_samples, "ELR").to(self.ensemble.device)
        log_probs = torch.log_softmax(rows.logits, dim=1)
        probabilities = elr_probabilities(log_probs, self.min_prob)
        ensemble = before = self.ensemble.index_select(0, index).to(log_probs)
        if self.training and torch.is_grad_enabled():
            prediction = probabilities.detach()
            prediction = prediction / prediction.sum(dim=1, keepdim=True)
            updated = torch.lerp(prediction, ensemble, self.beta)
            ensemble = updated if rows.valid is None else torch.where(rows.valid, updated, ensemble)
            self.ensemble.index_copy_(0, index, ensemble.to(self.ensemble))
        held_to = self.targets(before, ensemble, rows)
        regulariser = elr_regulariser(probabilities, held_to)[:, None]
        return cross_entropy(log_probs, rows.target) + self.lam * regulariser

    def targets(self, before: Tensor, ensemble: Tensor, rows: Rows) -> Tensor:
        """Return what the predictions of a batch are held to, (N, K): their running means.

        Args:
            before: The running means before this batch.
            ensemble: The running means with it; ``before`` itself where they are only used.
            rows: The batch.
        """
        del before, rows
        return ensemble
