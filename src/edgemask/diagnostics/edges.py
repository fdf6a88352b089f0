"""Pictures of a head's edges as training goes on (Fig. S1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from edgemask.errors import MissingExtraError

__all__ = ["edge_picture", "kept_edges"]


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
    columns = torch.arange(shown) * width // max(shown, 1)
    chance = keep.detach().float().cpu()[:, columns]
    drawn = torch.rand(chance.shape, generator=generator) < chance
    return [(int(k), int(j)) for j, k in drawn.nonzero()]


def edge_picture(keeps: Mapping[str, Tensor], *, features: int = 16, seed: int = 0) -> Any:
    """Draw features, classes and the edges kept between them, one panel a time.

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
