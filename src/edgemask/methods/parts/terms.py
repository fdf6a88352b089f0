"""Terms of losses that methods are put together from: one value a sample, or a safe mean."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from edgemask.methods.parts.divergences import kl_divergence

__all__ = [
    "info_nce",
    "negative_entropy",
    "negative_learning",
    "neighbour_consistency",
    "safe_mean",
]


def safe_mean(values: Tensor, rows: Tensor | None = None) -> Tensor:
    """Return the mean over some rows, and 0 (with a gradient of 0) over none.

    Args:
        values: One value a sample, ``(B,)``.
        rows: Which samples count, as a mask or as positions; None means all.

    Example:
        >>> values = torch.tensor([1.0, 3.0, 8.0])
        >>> float(safe_mean(values, torch.tensor([True, True, False])))
        2.0
        >>> float(safe_mean(values, torch.tensor([], dtype=torch.long)))
        0.0
    """
    chosen = values if rows is None else values[rows]
    return chosen.sum() / max(len(chosen), 1)


def negative_entropy(logits: Tensor, *, rectified: bool = False) -> Tensor:
    """Return ``sum_c p_c log p_c`` of each row: added to a loss, it keeps predictions unsure.

    Args:
        logits: ``(B, C)``.
        rectified: Whether negative logits are set to 0 first, as the released code of CA2C does;
            they then feel no penalty.

    Reference:
        Pereyra et al., Regularizing Neural Networks by Penalizing Confident Output Distributions,
        ICLR workshop 2017.
    """
    logits = logits.float().clamp(min=0) if rectified else logits.float()
    log_p = F.log_softmax(logits, dim=1)
    return (log_p.exp() * log_p).sum(dim=1)


def negative_learning(logits: Tensor, wrong: Tensor) -> Tensor:
    """Return ``-sum_{c in wrong} log(1 - p_c)`` of each row: learn what a sample is not.

    Args:
        logits: ``(B, C)``.
        wrong: The complementary classes: a mask ``(B, C)``, or one class a row, ``(B,)``.

    Reference:
        Kim et al., NLNL: Negative Learning for Noisy Labels, ICCV 2019.
    """
    log_p = F.log_softmax(logits.float(), dim=1)
    # log(1 - p), with 1e-7 in it so that a sure p stays finite; the released codes do the same.
    log_not = torch.log1p(1e-7 - log_p.exp())
    if wrong.ndim == 1:
        return -log_not.gather(1, wrong[:, None]).squeeze(1)
    return -torch.where(wrong, log_not, 0.0).sum(dim=1)


def info_nce(query: Tensor, positive: Tensor, negatives: Tensor, *, temperature: float) -> Tensor:
    """Return ``-log(exp(q k+ / T) / (exp(q k+ / T) + sum_n exp(q n / T)))`` of each row.

    Args:
        query: Unit vectors, ``(B, D)``.
        positive: The partner of each, ``(B, D)``; detached by the caller where that is meant.
        negatives: Shared by all rows, ``(M, D)``; none gives a loss of 0.
        temperature: The temperature T.

    Reference:
        He et al., Momentum Contrast for Unsupervised Visual Representation Learning, CVPR 2020.
    """
    near = (query * positive).sum(dim=1, keepdim=True)
    logits = torch.cat([near, query @ negatives.t()], dim=1).float() / temperature
    return -F.log_softmax(logits, dim=1)[:, 0]


def neighbour_consistency(logits: Tensor, target: Tensor, *, temperature: float = 2.0) -> Tensor:
    """Return ``T^2 KL_2(softmax(z / T) || target)`` of each row, the student first, in base 2.

    Args:
        logits: The student's, z, ``(B, C)``.
        target: What its neighbours say, ``(B, C)``, above 0 everywhere.
        temperature: The temperature T.

    Reference:
        Iscen et al., Learning with Neighbor Consistency for Noisy Labels, CVPR 2022.
    """
    log_p = F.log_softmax(logits.float() / temperature, dim=1)
    log_q = target.clamp(min=1e-6).log()
    return temperature**2 * kl_divergence(log_p, log_q, base=2)
