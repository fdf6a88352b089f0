"""The edges of a masking head: the share kept, their scores over time, a picture (Fig. S1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from edgemask.errors import MissingExtraError
from edgemask.heads.adaptive import AdaptiveLinear

__all__ = [
    "ScoreSnapshot",
    "edge_picture",
    "kept_edges",
    "logit_factor",
    "retention",
    "score_snapshot",
    "scored_head",
]


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
        if isinstance(value, float) and not isinstance(module, AdaptiveLinear):
            return value
    return None


def logit_factor(model: nn.Module) -> float | None:
    """Return what a head that adapts its strength multiplies the logits by, or None without one.

    Example:
        >>> logit_factor(AdaptiveLinear(4, 2))
        1.0
    """
    for module in model.modules():
        if isinstance(module, AdaptiveLinear):
            return float(module.factor)
    return None


@dataclass(frozen=True)
class ScoreSnapshot:
    """The scores of a head at one epoch, thinned out to be stored for many epochs."""

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
    columns = _evenly_spaced(kept, width)
    histogram = torch.histc(values, bins=BINS, min=0.0, max=1.0).to(torch.int64)
    return ScoreSnapshot(values[:, columns].half(), columns, histogram)


def kept_edges(
    keep: Tensor, *, features: int = 16, generator: torch.Generator | None = None
) -> list[tuple[int, int]]:
    """Draw which edges of some evenly spaced features are kept: pairs (feature, class).

    Args:
        keep: Keep probabilities, or a mask, ``(C, d)``.
        features: How many features are shown.
        generator: Of the draw.
    """
    width = keep.shape[1]
    shown = min(features, width)
    columns = _evenly_spaced(shown, width)
    chance = keep.detach().float().cpu()[:, columns]
    drawn = torch.rand(chance.shape, generator=generator) < chance
    return [(int(k), int(j)) for j, k in drawn.nonzero()]


def edge_picture(keeps: Mapping[str, Tensor], *, features: int = 16, seed: int = 0) -> Any:
    """Draw features, classes and the edges kept between them, one panel per entry.

    Args:
        keeps: Title -> keep probabilities or mask, ``(C, d)``; for SEM and SKAN alike.
        features: How many features are shown.
        seed: Seed of the draw.

    Returns:
        A ``matplotlib`` figure.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("matplotlib", "app", "to draw edges", error) from error
    figure = Figure(figsize=(3.0 * len(keeps), 3.0), layout="constrained")
    axes = figure.subplots(1, len(keeps), squeeze=False)[0]
    generator = torch.Generator().manual_seed(seed)
    for axis, (title, keep) in zip(axes, keeps.items(), strict=True):
        classes, shown = keep.shape[0], min(features, keep.shape[1])
        left = [(0.0, (k + 0.5) / shown) for k in range(shown)]
        right = [(1.0, (j + 0.5) / classes) for j in range(classes)]
        for k, j in kept_edges(keep, features=features, generator=generator):
            xs, ys = zip(left[k], right[j], strict=True)
            axis.plot(xs, ys, color="tab:blue", linewidth=0.6, alpha=0.6)
        for points in (left, right):
            axis.scatter(*zip(*points, strict=True), s=18, color="black", zorder=3)
        share = float(keep.float().mean())
        axis.set_title(f"{title}: {100 * share:.0f} % kept", fontsize=9)
        axis.set_axis_off()
    return figure


def _evenly_spaced(count: int, width: int) -> Tensor:
    """Return ``count`` of ``width`` columns."""
    return torch.arange(count) * width // max(count, 1)
