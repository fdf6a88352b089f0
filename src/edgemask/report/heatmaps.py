"""Heat maps: the edges of the head over time, and the transition matrix of the labels.

One colour serves all of them, from transparent (0) to full (1), so that they read as well on a dark
page as on a light one.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgemask.errors import MissingExtraError
from edgemask.report.charts import Chart, FigureData, histogram
from edgemask.report.escape import printable
from edgemask.report.tables import Table, TableRow, percent
from edgemask.runs import Array, RunRecord, finite_number

__all__ = [
    "HeatMap",
    "head_over_time",
    "matrix_map",
    "png_address",
    "realised_transition",
    "transition_map",
]

_MAX_NUMBERS = 20
"""A transition matrix of up to so many classes is shown as numbers,"""
_MAX_DRAWN = 200
"""up to so many as a map,"""
_MAX_COUNTED = 2_000
"""and up to so many it is counted at all."""
_MAX_FRAMES = 60
_GAMMA = 0.5
_INK = (47, 107, 214)


def png_address(image: Array) -> str:
    """Return a uint8 image, (H, W) or (H, W, channels), as a PNG in a ``data:`` address."""
    try:
        from PIL import Image
    except ImportError as error:
        raise MissingExtraError("pillow", "app", "to put pictures on a page", error) from error
    file = io.BytesIO()
    Image.fromarray(image[..., 0] if image.shape[2:] == (1,) else image).save(
        file, format="PNG", optimize=True
    )
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode("ascii")


@dataclass(frozen=True, kw_only=True)
class HeatMap:
    """A heat map; the picture of its last frame is for pages without scripts."""

    id: str
    rows: int
    columns: int
    width: str
    height: str
    picture: str


def _heat_map(
    figures: FigureData,
    values: Array,
    *,
    rows: list[str],
    columns: list[str],
    words: tuple[str, str],
    percent_values: bool,
    size: tuple[str, str],
) -> HeatMap:
    """Return the map of values in [0, 1] of shape (frames, rows, columns)."""
    levels = np.round(255 * np.clip(np.nan_to_num(values), 0, 1)).astype(np.uint8)
    picture = np.empty((*levels.shape[1:], 4), dtype=np.uint8)
    picture[..., :3] = _INK
    picture[..., 3] = np.round(255 * (levels[-1] / 255.0) ** _GAMMA)
    name = figures.add(
        kind="map",
        shape=list(levels.shape),
        data=base64.b64encode(levels.tobytes()).decode("ascii"),
        rows=rows,
        columns=columns,
        words=list(words),
        percent=percent_values,
        gamma=_GAMMA,
    )
    return HeatMap(
        id=name,
        rows=len(rows),
        columns=len(columns),
        width=size[0],
        height=size[1],
        picture=png_address(picture),
    )


def realised_transition(run: RunRecord) -> Array | None:
    """Return the shares of given labels by true class; ``None`` without clean labels."""
    if "clean" not in run.noise:
        return None
    inside = run.noise["clean"] >= 0
    clean, noisy = run.noise["clean"][inside], run.noise["noisy"][inside]
    if not len(clean):
        return None
    size = max(run.num_classes, int(clean.max()) + 1, int(noisy.max()) + 1)
    if size > _MAX_COUNTED:
        return None
    counts = np.zeros((size, size))
    np.add.at(counts, (clean, noisy), 1)
    return np.asarray(counts / np.maximum(counts.sum(axis=1, keepdims=True), 1))


@dataclass(frozen=True, kw_only=True)
class TransitionMap:
    """The transition matrix of the labels, as numbers, as a map, or as a list of confusions."""

    title: str
    names: list[str]
    numbers: list[list[float]] | None = None
    map: HeatMap | None = None
    confusions: Table | None = None


def transition_map(figures: FigureData, run: RunRecord) -> TransitionMap | None:
    """Return the transition matrix to draw; ``None`` without clean labels."""
    matrix = realised_transition(run)
    if matrix is None:
        return None
    names = [run.class_name(label) for label in range(len(matrix))]
    return matrix_map(figures, matrix, names, "Given label by true class, as counted")


def matrix_map(
    figures: FigureData, matrix: Array, class_names: Sequence[str], title: str
) -> TransitionMap:
    """Return a transition matrix to draw: as numbers, as a map, or its largest entries."""
    size = len(matrix)
    names = [printable(name) for name in class_names]
    if size <= _MAX_NUMBERS:
        return TransitionMap(title=title, names=names, numbers=matrix.tolist())
    drawn = None
    if size <= _MAX_DRAWN:
        drawn = _heat_map(
            figures,
            matrix[None],
            rows=names,
            columns=names,
            words=("true ", ", given "),
            percent_values=True,
            size=(f"{8 * size}px", f"{8 * size}px"),
        )
    return TransitionMap(title=title, names=names, map=drawn, confusions=_confusions(names, matrix))


def _confusions(names: list[str], matrix: Array, most: int = 8) -> Table:
    """Return the most frequent confusions of a matrix that is too large to read."""
    off = matrix * (1 - np.eye(len(matrix)))
    order = np.argsort(-off, axis=None, kind="stable")[:most]
    pairs = [divmod(int(place), len(matrix)) for place in order if off.flat[place] > 0]
    rows: list[TableRow] = [
        [names[true], names[given], percent(float(matrix[true, given]), digits=1)]
        for true, given in pairs
    ]
    return Table(
        ["true class", "given label", "share (%)"],
        rows,
        "Most frequent confusions",
        text_columns=2,
    )


@dataclass(frozen=True, kw_only=True)
class HeadOverTime:
    """Histogram and heat map of the edge scores, moved by one slider over epochs."""

    id: str
    frames: int
    last_epoch: int
    map: HeatMap | None = None
    row_names: list[str] | None = None
    note: str = ""
    histogram: Chart | None = None


def head_over_time(figures: FigureData, run: RunRecord, budget: int) -> HeadOverTime | None:
    """Return histogram and heat map of the scores; ``None`` for a head without scores.

    Args:
        figures: Gets the data for the scripts.
        run: The run.
        budget: How many scores may go into the page at most; epochs, then features, then classes
            are left out evenly until they fit.
    """
    head = run.head
    scores = head.get("scores")
    if scores is None and "histogram" not in head:
        return None
    most = _MAX_FRAMES
    if scores is not None:
        most = min(most, max(2, budget // (scores.shape[1] * scores.shape[2])))
    frames = _evenly(len(head["epochs"]), most)
    epochs = [int(head["epochs"][frame]) for frame in frames]
    bins = _score_histogram(figures, run, frames) if "histogram" in head else None
    drawn: dict[str, Any] = {} if scores is None else _edge_map(figures, run, frames, budget)
    retention = None
    if "retention" in head:
        retention = [round(float(np.nan_to_num(head["retention"][frame])), 5) for frame in frames]
    slider = figures.add(
        kind="slider",
        histogram=bins and bins.id,
        map=drawn["map"].id if drawn else None,
        epochs=epochs,
        retention=retention,
    )
    return HeadOverTime(
        id=slider, frames=len(frames), last_epoch=epochs[-1], histogram=bins, **drawn
    )


def _score_histogram(figures: FigureData, run: RunRecord, frames: list[int]) -> Chart:
    counts = np.maximum(np.nan_to_num(run.head["histogram"].astype(np.float64)), 0)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    options = run.config.get("head")
    if isinstance(options, Mapping) and isinstance(options.get("options"), Mapping):
        options = options["options"]
    rho = finite_number(options.get("rho")) if isinstance(options, Mapping) else None
    return histogram(
        figures,
        "Scores of the edges",
        run.head["edges"].astype(float).tolist(),
        [
            ("epoch shown", shares[-1].tolist()),
            (f"epoch {int(run.head['epochs'][frames[0]])}", shares[frames[0]].tolist()),
        ],
        x_title="edges by score",
        mark=None if rho is None else (rho, f"threshold rho = {rho:g}"),
        note="Share of all edges of the head in each bin of the normalised score; the vertical "
        "axis is logarithmic.",
        frames=[[float(f"{share:.4g}") for share in shares[frame]] for frame in frames],
    )


def _edge_map(
    figures: FigureData, run: RunRecord, frames: list[int], budget: int
) -> dict[str, Any]:
    scores = run.head["scores"]
    _, classes, features = scores.shape
    share = max(1, budget // len(frames))
    columns = _evenly(features, max(2, share // classes))
    rows = _evenly(classes, max(2, share // len(columns)))
    stored = run.head.get("columns", np.arange(features))
    names = [printable(run.class_name(row)) for row in rows]
    drawn = _heat_map(
        figures,
        scores[np.ix_(frames, rows, columns)].astype(np.float32),
        rows=names,
        columns=[f"feature {int(stored[column])}" for column in columns],
        words=("", ", "),
        percent_values=False,
        size=("100%", f"{min(440, max(120, 15 * len(rows)))}px"),
    )
    return {
        "map": drawn,
        "row_names": names if len(rows) <= _MAX_NUMBERS else None,
        "note": f"{len(rows)} of {classes} classes, {len(columns)} features, {len(frames)} of "
        f"{len(scores)} recorded epochs. A faint edge has a low score and is likely to be masked.",
    }


def _evenly(count: int, most: int) -> list[int]:
    """Return at most ``most`` places out of ``count``, evenly spaced, with both ends."""
    if count <= most:
        return list(range(count))
    return sorted({int(place) for place in np.linspace(0, count - 1, max(most, 1)).round()})
