"""Sparse over-parameterisation (SOP)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from edgemask.losses._common import as_distribution, check_index, prepare, require
from edgemask.losses.base import Loss, Reduction

__all__ = ["SOPLoss", "sop"]


def sop(
    logits: Tensor, target: Tensor, u: Tensor, v: Tensor, *, min_prob: float = 1e-4
) -> tuple[Tensor, Tensor]:
    """Return the two parts of SOP and what the corrected prediction is.

    Args:
        logits: Scores, (B, C).
        target: Labels (B,), or label distributions (B, C).
        u: The samples' noise on the label, (B, 1).
        v: The samples' noise on the other classes, (B, C).
        min_prob: Lower clip of the corrected prediction.

    Returns:
        The loss of every sample, (B,), and the corrected predictions, (B, C).
    """
    log_probs, target = prepare(logits, target)
    label = as_distribution(target, log_probs)
    plus = (u.to(log_probs).square() * label).clamp(0.0, 1.0)
    minus = (v.to(log_probs).square() * (1.0 - label)).clamp(0.0, 1.0)
    corrected = (log_probs.exp() + plus - minus.detach()).clamp(min=min_prob)
    corrected = (corrected / corrected.sum(dim=1, keepdim=True)).clamp(min=min_prob, max=1.0)
    guess = F.one_hot(log_probs.argmax(dim=1), log_probs.shape[1]).to(log_probs)
    fit = -(label * corrected.log()).sum(dim=1)
    return fit + (guess + plus - minus - label).square().sum(dim=1), corrected


class SOPLoss(Loss):
    """Sparse over-parameterisation (SOP): the noise of every label is learned beside the network.

    ``u`` and ``v`` are parameters, one row a sample; :meth:`parameter_groups` gives them to an
    optimiser with the learning rates of their own that the method needs (plain SGD, no momentum,
    no weight decay). The balance term belongs to the whole batch; with ``reduction="none"`` every
    sample carries it. The consistency term needs a second view of the batch.

    Args:
        num_samples: Size N of the training set.
        num_classes: Number K of classes.
        lr_u: Learning rate of u.
        lr_v: Learning rate of v.
        balance: Weight of the cross entropy between the uniform and the mean prediction.
        consistency: Weight of the divergence between two views' predictions.
        init_std: Standard deviation that u and v start with.
        min_prob: Lower clip of the corrected prediction.
        reduction: ``"mean"`` or ``"none"``.

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

    def __init__(
        self,
        num_samples: int,
        num_classes: int,
        *,
        lr_u: float = 1.0,
        lr_v: float = 10.0,
        balance: float = 0.1,
        consistency: float = 0.9,
        init_std: float = 1e-8,
        min_prob: float = 1e-4,
        reduction: Reduction = "mean",
    ):
        super().__init__(reduction=reduction)
        require(num_samples > 0, "num_samples", num_samples, "a positive size")
        require(num_classes > 1, "num_classes", num_classes, "at least 2")
        require(0.0 < min_prob < 0.5, "min_prob", min_prob, "a number between 0 and 0.5")
        require(init_std >= 0.0, "init_std", init_std, "a number that is not negative")
        self.num_samples = num_samples
        self.num_classes = num_classes
        self.lr_u = lr_u
        self.lr_v = lr_v
        self.balance = balance
        self.consistency = consistency
        self.init_std = init_std
        self.min_prob = min_prob
        self.u = nn.Parameter(torch.empty(num_samples, 1))
        self.v = nn.Parameter(torch.empty(num_samples, num_classes))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw u and v anew, close to zero."""
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
        """Compute the loss of a batch.

        Args:
            logits: Scores of the first view, (B, C).
            target: Labels (B,), or label distributions (B, C).
            index: Positions of the samples in the training set, (B,).
            second: Scores of a second view, (B, C), for the consistency term.

        Returns:
            A scalar, or (B,) with ``reduction="none"``.
        """
        if logits.ndim == 2 and logits.shape[1] != self.num_classes:
            raise ValueError(
                f"logits of {logits.shape[1]} classes: SOP was made for num_classes="
                f"{self.num_classes}"
            )
        index = check_index(index, len(logits), self.num_samples, "SOP").to(self.u.device)
        u, v = self.u[index], self.v[index]
        values, corrected = sop(logits, target, u, v, min_prob=self.min_prob)
        if self.balance and len(corrected):
            mean = corrected.mean(dim=0).clamp(self.min_prob, 1.0)
            values = values - self.balance * mean.log().mean()
        if second is not None and self.consistency:
            teacher = prepare(logits.detach(), target)[0]
            student = prepare(second, target)[0]
            divergence = F.kl_div(student, teacher, reduction="none", log_target=True)
            values = values + self.consistency * divergence.sum(dim=1)
        return self._reduce(values)
