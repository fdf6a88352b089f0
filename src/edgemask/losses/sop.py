"""Sparse over-parameterisation (SOP)."""

from __future__ import annotations

from dataclasses import KW_ONLY, field
from typing import Annotated, Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from edgemask._options import Range
from edgemask.losses.base import (
    BelowHalf,
    Loss,
    NonNegative,
    Rows,
    at_label,
    check_index,
    loss,
    on_label,
    over_processes,
    read_rows,
)

__all__ = ["SOPLoss", "sop"]


def sop(
    log_probs: Tensor, target: Tensor, u: Tensor, v: Tensor, min_prob: float
) -> tuple[Tensor, Tensor]:
    """Return the loss of each row, (N, 1), and the corrected predictions, (N, C).

    Args:
        log_probs: Log-probabilities, (N, C).
        target: Labels (N, 1), or label distributions (N, C).
        u: The samples' noise on the label, (N, 1).
        v: The samples' noise on the other classes, (N, C).
        min_prob: Lower clip of the corrected prediction.
    """
    label = on_label(1.0, target, log_probs)
    plus = (u.to(log_probs).square() * label).clamp(0.0, 1.0)
    minus = (v.to(log_probs).square() * (1.0 - label)).clamp(0.0, 1.0)
    corrected = (log_probs.exp() + plus - minus.detach()).clamp(min=min_prob)
    corrected = (corrected / corrected.sum(dim=1, keepdim=True)).clamp(min=min_prob, max=1.0)
    guess = on_label(1.0, log_probs.argmax(dim=1, keepdim=True), log_probs)
    distance = (guess + plus - minus - label).square().sum(dim=1, keepdim=True)
    return distance - at_label(corrected.log(), target), corrected


@loss
class SOPLoss(Loss):
    """Sparse over-parameterisation (SOP): the noise of every label is learned beside the network.

    ``u`` and ``v`` are parameters, one row per sample; :meth:`parameter_groups` gives them to an
    optimiser with the learning rates of their own that the method needs (plain SGD, no momentum,
    no weight decay). The balance term belongs to the whole batch; with ``reduction="none"`` each
    sample includes it. The consistency term needs a second view of the batch.

    Args:
        num_samples: Size N of the training set.
        num_classes: Number K of classes.
        lr_u: Learning rate of u.
        lr_v: Learning rate of v.
        balance: Weight of the cross entropy between the uniform and the mean prediction, over all
            processes of a distributed job.
        consistency: Weight of the divergence between two views' predictions.
        init_std: Standard deviation that u and v start with.
        min_prob: Lower clip of the corrected prediction.

    Example:
        >>> loss = SOPLoss(num_samples=50_000, num_classes=100)
        >>> optimiser = torch.optim.SGD(loss.parameter_groups())
    """

    equation = (
        "−Σ_k t_k·log norm(p + U − sg[V])_k + ‖onehot(argmax p) + U − V − t‖² "
        "with U = clip(u_i²·t), V = clip(v_i²·(1−t)); + balance, + consistency"
    )
    reference = "Liu et al., Robust Training under Label Noise by Over-parameterization, ICML 2022"
    bounded = True
    needs_index = True
    sparse_gradients: ClassVar[bool] = False
    """Whether gradients of u and v hold the rows of the batch alone, set on an object. A step then
    costs the same however many samples there are; SGD without momentum takes such gradients, many
    other optimisers and distributed wrappers do not."""

    num_samples: Annotated[int, Range(1)]
    num_classes: Annotated[int, Range(2)]
    _: KW_ONLY
    lr_u: NonNegative = 1.0
    lr_v: NonNegative = 10.0
    balance: Annotated[float, Range()] = 0.1
    consistency: Annotated[float, Range()] = 0.9
    init_std: NonNegative = 1e-8
    min_prob: BelowHalf = 1e-4
    u: nn.Parameter = field(init=False)
    v: nn.Parameter = field(init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.u = nn.Parameter(torch.empty(self.num_samples, 1))
        self.v = nn.Parameter(torch.empty(self.num_samples, self.num_classes))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw u and v again, close to zero."""
        nn.init.normal_(self.u, std=self.init_std)
        nn.init.normal_(self.v, std=self.init_std)

    def parameter_groups(self) -> list[dict[str, Any]]:
        """Return u and v as parameter groups for an SGD optimiser."""
        plain = {"momentum": 0.0, "weight_decay": 0.0, "nesterov": False}
        return [
            {"params": [self.u], "lr": self.lr_u, **plain},
            {"params": [self.v], "lr": self.lr_v, **plain},
        ]

    def forward(
        self,
        logits: Tensor,
        target: Tensor,
        index: Tensor | None = None,
        *,
        second: Tensor | None = None,
    ) -> Tensor:
        """Compute the loss of a batch; see :meth:`Loss.forward`.

        Args:
            logits: Scores of the first view.
            target: Labels or label distributions.
            index: Positions of the samples in the training set.
            second: Scores of a second view, for the consistency term.
        """
        rows = read_rows(logits, target, self.ignore_index)
        values = self.values(rows, index)
        if second is not None and self.consistency:
            teacher = torch.log_softmax(rows.logits.detach(), dim=1)
            student = torch.log_softmax(read_rows(second, target, self.ignore_index).logits, dim=1)
            divergence = F.kl_div(student, teacher, reduction="none", log_target=True)
            values = values + self.consistency * divergence.sum(dim=1, keepdim=True)
        return self.reduce(values, rows)

    def _rows(self, table: Tensor, index: Tensor) -> Tensor:
        return F.embedding(index, table, sparse=True) if self.sparse_gradients else table[index]

    def values(self, rows: Rows, index: Tensor | None) -> Tensor:
        """Return the loss of each row, without the consistency term."""
        if rows.logits.shape[1] != self.num_classes:
            raise ValueError(
                f"logits of {rows.logits.shape[1]} classes: SOP was made for num_classes="
                f"{self.num_classes}"
            )
        index = check_index(index, rows.shape, self.num_samples, "SOP").to(self.u.device)
        log_probs = torch.log_softmax(rows.logits, dim=1)
        values, corrected = sop(
            log_probs,
            rows.target,
            self._rows(self.u, index),
            self._rows(self.v, index),
            self.min_prob,
        )
        if self.balance:
            count = torch.ones_like(values) if rows.valid is None else rows.valid.to(values)
            total, size = over_processes((corrected * count).sum(dim=0), count.sum())
            mean = total / size.clamp(min=1.0)
            values = values - self.balance * mean.clamp(self.min_prob, 1.0).log().mean()
        return values
