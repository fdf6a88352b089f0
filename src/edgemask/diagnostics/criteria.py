"""How well a criterion finds the edges that matter: exact deletion damage, CDR's critical edges."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from edgemask.heads import CRITERIA
from edgemask.heads.sem import edge_scores, normalise_scores

__all__ = [
    "cdr_overlap",
    "criteria_histograms",
    "criteria_statistics",
    "deletion_damage",
    "dynamic_range",
    "rank_correlation",
]


@torch.no_grad()
def deletion_damage(
    logits: Tensor, target: Tensor, contribution: Callable[[int], Tensor]
) -> Tensor:
    """Return how much the mean cross entropy grows when one edge is deleted, exactly.

    With ``delta_ijk = -a_ijk`` the change of logit j of sample i when edge (j, k) is removed,
    ``dL_i = log(1 + p_ij (e^delta - 1)) - [y_i = j] delta``. No ``(B, C, d)`` tensor is built.

    Args:
        logits: Dense logits, ``(B, C)``.
        target: Labels, ``(B,)``.
        contribution: Class j -> ``a_ijk`` of its edges, ``(B, d)``: ``lambda j: w[j] * v`` for a
            linear head, the values of the edge functions for a KAN.

    Returns:
        ``(C, d)``.

    Example:
        >>> v, w = torch.randn(8, 3), torch.randn(2, 3)
        >>> deletion_damage(v @ w.T, torch.zeros(8).long(), lambda j: w[j] * v).shape
        torch.Size([2, 3])
    """
    logs = F.log_softmax(logits.double(), dim=1)
    rows = []
    for j in range(logits.shape[1]):
        delta = -contribution(j).double()
        log_p = logs[:, j, None]
        others = torch.log(-torch.expm1(log_p.clamp_max(-1e-300)))
        grown = torch.logaddexp(others, log_p + delta)
        rows.append((grown - (target == j)[:, None] * delta).mean(0))
    return torch.stack(rows)


def rank_correlation(first: ArrayLike, second: ArrayLike) -> float | None:
    """Return Spearman's rank correlation, ties at their mean rank; None where one is constant.

    Example:
        >>> rank_correlation([1, 2, 3], [10, 100, 1000])
        1.0
    """
    a, b = _ranks(first), _ranks(second)
    if a.std() == 0 or b.std() == 0:
        return None
    return float(np.clip(np.corrcoef(a, b)[0, 1], -1.0, 1.0))


def _ranks(values: ArrayLike) -> NDArray[np.float64]:
    array = np.asarray(values, dtype=np.float64).ravel()
    _, inverse, counts = np.unique(array, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    means: NDArray[np.float64] = last - (counts - 1) / 2.0
    return means[inverse]


def dynamic_range(scores: Tensor) -> float | None:
    """Return the largest raw score over the smallest one above zero (Fig. 4a); None without any.

    Edges of dead features score exactly 0 and have no part in it.
    """
    alive = scores[scores > 0]
    return float(alive.max().double() / alive.min().double()) if alive.numel() else None


@torch.no_grad()
def criteria_statistics(
    features: Tensor, weight: Tensor, bias: Tensor | None, target: Tensor
) -> dict[str, float]:
    """Judge every criterion on one batch of one network with a linear head.

    Returns:
        For each criterion ``criteria/<name>/range`` (:func:`dynamic_range`),
        ``criteria/<name>/mean`` (mean normalised score: how concentrated near zero they are) and
        ``criteria/<name>/damage`` (rank correlation with :func:`deletion_damage`); what is not
        defined is left out.
    """
    v, w = features.detach(), weight.detach()
    logits = F.linear(v, w, bias)
    damage = deletion_damage(logits, target, lambda j: w[j] * v).cpu()
    result: dict[str, float] = {}
    for name in CRITERIA:
        scores = edge_scores(v, w, bias, criterion=name)
        numbers = {
            "range": dynamic_range(scores),
            "mean": float(normalise_scores(scores).mean()),
            "damage": rank_correlation(scores.cpu(), damage),
        }
        for key, value in numbers.items():
            if value is not None:
                result[f"criteria/{name}/{key}"] = value
    return result


@torch.no_grad()
def criteria_histograms(
    features: Tensor, weight: Tensor, bias: Tensor | None = None, *, bins: int = 50
) -> dict[str, Tensor]:
    """Return how the normalised scores of each criterion spread over [0, 1] (Fig. 4b).

    Returns:
        Criterion -> share of the edges in each bin.
    """
    result = {}
    for name in CRITERIA:
        scores = normalise_scores(edge_scores(features, weight, bias, criterion=name))
        counts = torch.histc(scores.float(), bins=bins, min=0.0, max=1.0)
        result[name] = counts / counts.sum().clamp_min(1)
    return result


@torch.no_grad()
def cdr_overlap(
    features: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    target: Tensor,
    mask: Tensor,
    *,
    tau: float,
) -> dict[str, float]:
    """Compare a mask with CDR's critical edges of the same layer and batch.

    CDR calls the share ``1 - tau`` of parameters with the largest ``|g w|`` critical. The gradient
    here is that of cross entropy at the dense layer, ``(p - onehot(y))^T v / B``: a masked pass
    would leave no gradient at masked edges, and the two sets would agree by construction.

    Args:
        features: What the head reads, ``(B, d)``.
        weight: Its weights, ``(C, d)``.
        bias: Its bias.
        target: The labels trained on, ``(B,)``.
        mask: The mask of the step; nonzero where an edge was kept.
        tau: The noise rate.

    Returns:
        ``cdr/critical_of_kept``: share of kept edges that are critical; ``cdr/kept_of_critical``:
        the reverse; ``cdr/critical``: share of all edges that are critical, what the first would
        be by chance.
    """
    if not 0.0 <= tau <= 1.0:
        raise ValueError(f"tau must lie in [0, 1], got {tau!r}")
    p = F.linear(features, weight, bias).softmax(1)
    error = p - F.one_hot(target, weight.shape[0]).to(p.dtype)
    importance = (error.T @ features / len(features) * weight).abs().flatten()
    count = int((1 - tau) * importance.numel())
    critical = torch.zeros_like(importance, dtype=torch.bool)
    critical[importance.topk(count).indices] = True
    kept = mask.flatten() != 0
    both = float((kept & critical).sum())
    return {
        "cdr/critical_of_kept": both / max(float(kept.sum()), 1.0),
        "cdr/kept_of_critical": both / max(count, 1),
        "cdr/critical": count / importance.numel(),
    }
