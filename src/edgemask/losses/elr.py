"""Early-learning regularisation (ELR)."""

from __future__ import annotations

import torch
from torch import Tensor

from edgemask.losses._common import check_index, expected, prepare, require
from edgemask.losses.base import Loss, Reduction

__all__ = ["ELRLoss", "elr_probabilities", "elr_regulariser"]


def elr_probabilities(log_probs: Tensor, min_prob: float = 1e-4) -> Tensor:
    """Return the probabilities clipped to [min_prob, 1 − min_prob]."""
    return log_probs.exp().clamp(min_prob, 1.0 - min_prob)


def elr_regulariser(probabilities: Tensor, ensemble: Tensor) -> Tensor:
    """Return log(1 − ⟨ensemble, p⟩) for every sample; the ensemble carries no gradient."""
    return torch.log(1.0 - (ensemble.detach() * probabilities).sum(dim=1))


class ELRLoss(Loss):
    """Early-learning regularisation (ELR): cross entropy, and loyalty to one's early predictions.

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
        reduction: ``"mean"`` or ``"none"``.
    """

    equation = (
        "−log p_y + λ·log(1 − ⟨m_i, clip(p)⟩) with m_i ← β·m_i + (1−β)·sg[clip(p)/Σ_k clip(p_k)]"
    )
    reference = "Liu et al., Early-Learning Regularization Prevents Memorization, NeurIPS 2020"
    needs_index = True
    ensemble: Tensor

    def __init__(
        self,
        num_samples: int,
        num_classes: int,
        *,
        beta: float = 0.7,
        lam: float = 3.0,
        min_prob: float = 1e-4,
        reduction: Reduction = "mean",
    ):
        super().__init__(reduction=reduction)
        require(num_samples > 0, "num_samples", num_samples, "a positive size")
        require(num_classes > 1, "num_classes", num_classes, "at least 2")
        require(0.0 <= beta < 1.0, "beta", beta, "a momentum in [0, 1)")
        require(0.0 < min_prob < 0.5, "min_prob", min_prob, "a number between 0 and 0.5")
        self.num_samples = num_samples
        self.num_classes = num_classes
        self.beta = beta
        self.lam = lam
        self.min_prob = min_prob
        self.register_buffer("ensemble", torch.zeros(num_samples, num_classes))

    def forward(self, logits: Tensor, target: Tensor, index: Tensor | None = None) -> Tensor:
        """Compute the loss of a batch; ``index`` holds the samples' positions, (B,)."""
        log_probs, target = prepare(logits, target)
        if logits.shape[1] != self.num_classes:
            raise ValueError(
                f"logits of {logits.shape[1]} classes: ELR was made for num_classes="
                f"{self.num_classes}"
            )
        index = check_index(index, len(logits), self.num_samples, "ELR").to(self.ensemble.device)
        probabilities = elr_probabilities(log_probs, self.min_prob)
        ensemble = self.ensemble[index].to(log_probs)
        if self.training and torch.is_grad_enabled():
            now = probabilities.detach()
            now = now / now.sum(dim=1, keepdim=True)
            ensemble = self.beta * ensemble + (1.0 - self.beta) * now
            self.ensemble[index] = ensemble.to(self.ensemble)
        cross_entropy = expected(torch.neg, log_probs, target)
        return self._reduce(cross_entropy + self.lam * elr_regulariser(probabilities, ensemble))
