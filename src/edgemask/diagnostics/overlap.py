"""Whether the edges that SEM keeps are those that CDR calls critical."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = ["cdr_overlap"]


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
