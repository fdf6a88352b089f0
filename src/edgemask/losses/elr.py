"""Early-learning regularisation (ELR)."""

from __future__ import annotations

from dataclasses import KW_ONLY, field
from typing import Annotated, Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from edgemask._options import Range
from edgemask.losses.base import (
    BelowHalf,
    Clip,
    Loss,
    Rows,
    at_label,
    check_index,
    loss,
    sum_over_processes,
)

__all__ = ["ELRLoss", "elr_probabilities", "elr_regulariser"]


def elr_probabilities(log_probs: Tensor, min_prob: float = 1e-4) -> Tensor:
    """Return the probabilities clipped to [min_prob, 1 − min_prob]."""
    return log_probs.exp().clamp(min_prob, 1.0 - min_prob)


def elr_regulariser(probabilities: Tensor, ensemble: Tensor) -> Tensor:
    """Return log(1 − ⟨ensemble, p⟩) of each sample, (B,); the ensemble carries no gradient."""
    return torch.log(1.0 - (ensemble.detach() * probabilities).sum(dim=1))


class _WithGradient(torch.autograd.Function):
    """A function of logits that is given by its values (N, 1) and its gradients (N, C)."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, values: Tensor, gradients: Tensor) -> Tensor:
        """Return the values."""
        del logits
        ctx.save_for_backward(gradients)
        return values.view_as(values)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        """Return the gradients times what comes from above."""
        (gradients,) = ctx.saved_tensors
        return grad * gradients, None, None


@loss
class ELRLoss(Loss):
    """Early-learning regularisation (ELR): cross entropy, and agreement with early predictions.

    Every sample has a running mean of its predictions. In ``train()`` mode with gradients on, the
    mean is updated before it is used; in ``eval()`` mode or under ``no_grad`` it is only used.
    The means are a buffer, so that a run resumes from ``state_dict`` exactly. A sample that occurs
    twice in a batch is updated from both rows' old mean, and one of the rows is kept.

    Two options go beyond the published loss. A network that predicts a class too seldom is held to
    that: with ``align`` above 1 the means of class k are multiplied by g_k / m_k, its share of the
    given labels over its share of the means (as far as ``align`` and its inverse), and the means of
    each sample are scaled back to their sum. And where the labels are right, the means hold back
    what is hard to learn: with ``full_at`` above 0 λ is multiplied by min(1, d / full_at), where d
    is the share of given labels that are not the class of the largest mean. All shares are running
    means over the samples trained on, with a weight that falls to 1/e in an epoch; processes that
    train together have them in common.

    Args:
        num_samples: Size N of the training set.
        num_classes: Number K of classes.
        beta: Momentum β of the running means.
        lam: Weight λ of the regulariser.
        align: Largest factor that aligns the means of a class with the given labels; 1 leaves the
            means as they are, as published.
        full_at: Share of given labels that disagree with the means from which on λ acts in full; 0
            lets it always do so, as published.
        min_prob: Probabilities of the regulariser are clipped to [min_prob, 1 − min_prob].
    """

    equation = (
        "−log p_y + λ·log(1 − ⟨m_i, clip(p)⟩) with m_i ← β·m_i + (1−β)·sg[clip(p)/Σ_k clip(p_k)]"
    )
    reference = (
        "Liu et al., Early-Learning Regularization Prevents Memorization, NeurIPS 2020; align "
        "(after the distribution alignment of ReMixMatch, Berthelot et al., 2020) and full_at are "
        "EdgeMask's own"
    )
    needs_index = True

    num_samples: Annotated[int, Range(1)]
    num_classes: Annotated[int, Range(2)]
    _: KW_ONLY
    beta: Clip = 0.7
    lam: Annotated[float, Range()] = 3.0
    align: Annotated[float, Range(1)] = 1.0
    full_at: Annotated[float, Range(0, 1)] = 0.0
    min_prob: BelowHalf = 1e-4
    ensemble: Tensor = field(init=False)
    sums: Tensor | None = field(init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.register_buffer("ensemble", torch.zeros(self.num_samples, self.num_classes))
        # Given labels of each class, means of each class, labels that disagree; a trace of each,
        # so that none is 0 / 0.
        sums = None
        if self.align > 1 or self.full_at:
            sums = torch.full((2 * self.num_classes + 1,), 1e-6)
        self.register_buffer("sums", sums)

    def values(self, rows: Rows, index: Tensor | None) -> Tensor:
        """Return the loss of each row; ``index`` holds the samples' positions."""
        if rows.logits.shape[1] != self.num_classes:
            raise ValueError(
                f"logits of {rows.logits.shape[1]} classes: ELR was made for num_classes="
                f"{self.num_classes}"
            )
        index = check_index(index, rows.shape, self.num_samples, "ELR").to(self.ensemble.device)
        learns = torch.is_grad_enabled()
        with torch.no_grad():
            log_probs = torch.log_softmax(rows.logits, dim=1)
            probs = log_probs.exp()
            clipped = probs.clamp(self.min_prob, 1.0 - self.min_prob)
            means = self.ensemble.index_select(0, index).to(probs)
            labels = rows.target  # as distributions
            if not labels.is_floating_point():
                labels = torch.zeros_like(probs).scatter_(1, labels, 1.0)
            if learns and self.training:
                means = self._update(means, clipped, labels, rows.valid, index)
            lam: float | Tensor = self.lam
            if self.sums is not None:
                means, lam = self._adjust(means, self.sums.to(means))
            agreement = means * clipped
            rest = 1.0 - agreement.sum(dim=1, keepdim=True)
            values = lam * rest.log() - at_label(log_probs, rows.target)
            if not learns:
                return values
            # Autograd would need longer for these gradients.
            agreement *= clipped == probs  # what was clipped has none
            slope = torch.addcmul(agreement, agreement.sum(dim=1, keepdim=True), probs, value=-1.0)
            fit = probs if labels is not rows.target else probs * labels.sum(dim=1, keepdim=True)
            gradients = torch.addcmul(fit - labels, slope, lam / rest, value=-1.0)
            if self.is_plain_mean(rows):
                values, gradients = values.mean(), gradients / gradients.shape[0]
        result: Tensor = _WithGradient.apply(rows.logits, values, gradients)  # type: ignore[no-untyped-call]
        return result

    def _update(
        self, means: Tensor, clipped: Tensor, labels: Tensor, valid: Tensor | None, index: Tensor
    ) -> Tensor:
        """Update and return the running means of a batch, and the sums that adjust them."""
        updated = torch.lerp(clipped / clipped.sum(dim=1, keepdim=True), means, self.beta)
        if valid is not None:
            updated = torch.where(valid, updated, means)
        self.ensemble.index_copy_(0, index, updated.to(self.ensemble))
        if self.sums is not None:
            _add_batch(self.sums, updated, labels, valid, self.num_samples)
        return updated

    def _adjust(self, means: Tensor, sums: Tensor) -> tuple[Tensor, float | Tensor]:
        """Return the aligned means, and λ for the share of labels that disagree."""
        given, remembered, disagree = sums.split([self.num_classes, self.num_classes, 1])
        number = given.sum()
        if self.align > 1:
            factors = (given / remembered).mul_(remembered.sum() / number)
            mass = means.sum(dim=1, keepdim=True)
            means = means * factors.clamp_(1.0 / self.align, self.align)
            tiny = torch.finfo(means.dtype).tiny
            means *= mass.div_(means.sum(dim=1, keepdim=True).clamp_(min=tiny))
        if not self.full_at:
            return means, self.lam
        return means, (disagree / number).div_(self.full_at).clamp_(max=1.0).mul_(self.lam)


def _add_batch(
    sums: Tensor, means: Tensor, labels: Tensor, valid: Tensor | None, num_samples: int
) -> None:
    """Add a batch to the sums, which fade meanwhile."""
    disagree = 1.0 - labels.gather(1, means.argmax(dim=1, keepdim=True))
    rows = torch.cat([labels, means, disagree], dim=1)
    batch = (rows if valid is None else rows * valid).sum(dim=0)
    shared = sum_over_processes(batch)
    if valid is None and not shared:
        sums *= max(0.0, 1.0 - means.shape[0] / num_samples)
    else:
        sums *= (1.0 - batch[: means.shape[1]].sum() / num_samples).clamp(min=0.0)
    sums += batch
