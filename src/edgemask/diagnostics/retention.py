"""What masking heads keep: the share of edges, and their scores over time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

__all__ = ["ScoreSnapshot", "retention", "score_snapshot", "scored_head"]

BINS = 50


def scored_head(model: nn.Module) -> nn.Module | None:
    """Return the first layer of a model that scores its edges, or None."""
    for module in model.modules():
        if isinstance(getattr(module, "scores", None), Tensor) and hasattr(module, "retention"):
            return module
    return None


def retention(model: nn.Module) -> float | None:
    """Return the share of edges that the model's masking head kept last, or None without one.

    Heads without scores that drop edges at random (DropConnect) report theirs as well.

    Example:
        >>> retention(nn.Linear(4, 2)) is None
        True
    """
    for module in model.modules():
        value: Any = getattr(module, "retention", None)
        if isinstance(value, float):
            return value
    return None


@dataclass(frozen=True)
class ScoreSnapshot:
    """The scores of a head at one time, small enough to keep many."""

    scores: Tensor
    """``(C, d')`` float16: the kept columns."""

    columns: Tensor
    """``(d',)``: which columns they are, evenly spaced."""

    histogram: Tensor
    """``(50,)``: how many of all edges score in each fiftieth of [0, 1]."""


def score_snapshot(model: nn.Module, *, max_columns: int = 256) -> ScoreSnapshot | None:
    """Take the scores of the model's masking head, thinned to ``max_columns`` features.

    Args:
        model: The network.
        max_columns: Features kept at most.
    """
    head = scored_head(model)
    if head is None:
        return None
    values: Tensor = head.scores.detach().float().cpu()  # type: ignore[operator]
    width = values.shape[1]
    kept = min(width, max_columns)
    columns = torch.from_numpy(_spread(width, kept))
    histogram = torch.histc(values, bins=BINS, min=0.0, max=1.0).to(torch.int64)
    return ScoreSnapshot(values[:, columns].half(), columns, histogram)


def _spread(width: int, kept: int) -> NDArray[np.int64]:
    return np.floor(np.arange(kept) * width / max(kept, 1)).astype(np.int64)
