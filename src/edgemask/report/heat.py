"""Heat maps: the edges of the head over time, and the transition matrix of the labels.

One colour serves all of them, from transparent (0) to full (1), so that they stand as well on a
dark page as on a light one.
"""

from __future__ import annotations

import base64

import numpy as np

from edgemask.report.arrays import Array
from edgemask.report.charts import Book, bars
from edgemask.report.escape import as_html, plain
from edgemask.report.png import data_uri
from edgemask.report.records import RunRecord
from edgemask.report.tables import Row, Table, percent

__all__ = ["head_over_time", "realised_transition", "transition_map"]

_MOST_NUMBERS = 20
"""Up to so many classes a matrix is shown with its numbers,"""
_MOST_DRAWN = 200
"""up to so many as a map,"""
_MOST_COUNTED = 2_000
"""and up to so many it is counted at all."""
_INK = (47, 107, 214)


def realised_transition(run: RunRecord) -> Array | None:
    """Return the shares of given labels by true class; ``None`` without clean labels."""
    if "clean" not in run.noise:
        return None
    inside = run.noise["clean"] >= 0
    clean, noisy = run.noise["clean"][inside], run.noise["noisy"][inside]
    if not len(clean):
        return None
    size = max(run.num_classes, int(clean.max()) + 1, int(noisy.max()) + 1)
    if size > _MOST_COUNTED:
        return None
    counts = np.zeros((size, size))
    np.add.at(counts, (clean, noisy), 1)
    return np.asarray(counts / np.maximum(counts.sum(axis=1, keepdims=True), 1))


def transition_map(book: Book, run: RunRecord) -> str:
    """Return the transition matrix as a table of numbers or a map; nothing without clean labels."""
    matrix = realised_transition(run)
    if matrix is None:
        return ""
    title = "Given label by true class, as counted"
    names = [plain(run.class_name(place)) for place in range(len(matrix))]
    scale = ""
    if len(matrix) <= _MOST_NUMBERS:
        body = _numbers(matrix, names)
    elif len(matrix) <= _MOST_DRAWN:
        body = _map(
            book,
            matrix[None],
            rows=names,
            columns=names,
            words=("true ", ", given "),
            percent_values=True,
            style=f"width:{8 * len(matrix)}px;height:{8 * len(matrix)}px",
            gamma=0.5,
        )
        scale = _scale()
    else:
        body = f'<p class="note">{len(matrix)} classes are too many to draw.</p>'
    return (
        f'<figure class="matrix"><figcaption>{title} (%)</figcaption>'
        f'<div class="scroll" tabindex="0" role="region" aria-label="{title}">{body}</div>'
        f"{scale}{_confusions(run, matrix)}</figure>"
    )


def _confusions(run: RunRecord, matrix: Array, most: int = 8) -> str:
    """Return the commonest confusions of a large matrix as a table, which a picture cannot say."""
    if len(matrix) <= _MOST_NUMBERS:
        return ""
    off = matrix * (1 - np.eye(len(matrix)))
    order = np.argsort(-off, axis=None, kind="stable")[:most]
    pairs = [divmod(int(place), len(matrix)) for place in order if off.flat[place] > 0]
    rows: list[Row] = [
        [run.class_name(true), run.class_name(given), percent(float(matrix[true, given]), digits=1)]
        for true, given in pairs
    ]
    caption = "Most frequent confusions"
    return Table(["true class", "given label", "share (%)"], rows, caption, text_columns=2).to_html(
        sortable=True
    )


def head_over_time(book: Book, run: RunRecord, budget: int) -> str:
    """Return histogram and heat map of the scores with one slider over epochs.

    Args:
        book: Data of the page's figures.
        run: The run.
        budget: How many scores may go into the page at most; epochs, then features, then classes
            are left out evenly until they fit.
    """
    head = run.head
    if "scores" not in head and "histogram" not in head:
        return ""
    scores = head.get("scores")
    count = len(head["epochs"])
    if scores is None:
        frames = _even(count, 60)
    else:
        size = scores.shape[1] * scores.shape[2]
        frames = _even(count, min(60, max(2, budget // size)))
    parts: dict[str, str] = {}
    histogram_id = map_id = None
    if "histogram" in head:
        histogram_id = f"figure-{len(book.figures)}"
        parts["histogram"] = _score_histogram(book, run, frames)
    if scores is not None:
        map_id = f"figure-{len(book.figures)}"
        parts["map"] = _edge_map(book, run, frames, budget)
    retention = head.get("retention")
    slider = book.add(
        {
            "kind": "slider",
            "histogram": histogram_id,
            "map": map_id,
            "epochs": [int(head["epochs"][frame]) for frame in frames],
            "retention": None
            if retention is None
            else [round(float(np.nan_to_num(retention[frame])), 5) for frame in frames],
        }
    )
    last = int(head["epochs"][frames[-1]])
    control = (
        f'<div class="slider needs-script" id="{slider}"><label>Epoch <output>{last}</output> '
        f'<input type="range" min="0" max="{len(frames) - 1}" value="{len(frames) - 1}" step="1">'
        f'</label><button type="button">Play</button><span class="note"></span></div>'
    )
    return control + parts.get("map", "") + parts.get("histogram", "")


def _score_histogram(book: Book, run: RunRecord, frames: list[int]) -> str:
    counts = np.maximum(np.nan_to_num(run.head["histogram"].astype(np.float64)), 0)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    head = run.config.get("head")
    options = head.get("options") if isinstance(head, dict) else None
    rho = head.get("rho") if isinstance(head, dict) else None
    if rho is None and isinstance(options, dict):
        rho = options.get("rho")
    mark = (float(rho), f"threshold rho = {rho:g}") if isinstance(rho, int | float) else None
    first = int(run.head["epochs"][frames[0]])
    html = bars(
        book,
        "Scores of the edges",
        run.head["edges"].astype(float).tolist(),
        [("epoch shown", shares[-1].tolist()), (f"epoch {first}", shares[frames[0]].tolist())],
        x_title="edges by score",
        mark=mark,
        note="Share of all edges of the head in each bin of the normalised score; the vertical "
        "axis is logarithmic.",
    )
    figure = list(book.figures.values())[-1]
    figure["frames"] = [[float(f"{share:.4g}") for share in shares[frame]] for frame in frames]
    return html


def _edge_map(book: Book, run: RunRecord, frames: list[int], budget: int) -> str:
    scores = run.head["scores"]
    _, classes, width = scores.shape
    share = max(1, budget // len(frames))
    columns = _even(width, max(2, share // classes))
    rows = _even(classes, max(2, share // len(columns)))
    picked = scores[np.ix_(frames, rows, columns)].astype(np.float32)
    kept = run.head.get("columns", np.arange(width))
    names = [plain(run.class_name(row)) for row in rows]
    height = min(440, max(120, 15 * len(rows)))
    body = _map(
        book,
        picked,
        rows=names,
        columns=[f"feature {int(kept[column])}" for column in columns],
        words=("", ", "),
        percent_values=False,
        style=f"width:100%;height:{height}px",
        gamma=0.5,
    )
    labels = ""
    if len(rows) <= _MOST_NUMBERS:
        spans = "".join(f"<span>{as_html(name)}</span>" for name in names)
        labels = f'<div class="rows" style="height:{height}px" aria-hidden="true">{spans}</div>'
    return (
        '<figure class="edges"><figcaption>Edges of the head: classes down, features across'
        f'</figcaption><div class="labelled">{labels}{body}</div>{_scale()}'
        f'<p class="note">{len(rows)} of {classes} classes, {len(columns)} features, '
        f"{len(frames)} of {len(scores)} recorded epochs. A faint edge has a low score and is "
        "likely to be masked.</p></figure>"
    )


def _scale() -> str:
    """Return the key of the colours, which follow the square root of the value."""
    steps = "".join(f'<i style="--v:{place / 20:g}"></i>' for place in range(21))
    ticks = "".join(
        f'<span style="left:{100 * value**0.5:.0f}%">{value:g}</span>'
        for value in (0, 0.1, 0.25, 0.5, 1)
    )
    return f'<div class="scale" aria-hidden="true"><div>{steps}</div><div>{ticks}</div></div>'


def _map(
    book: Book,
    values: Array,
    *,
    rows: list[str],
    columns: list[str],
    words: tuple[str, str],
    percent_values: bool,
    style: str,
    gamma: float = 1.0,
) -> str:
    """Return a canvas for values in [0, 1], with the last frame as a picture without scripts."""
    bytes_ = np.round(255 * np.clip(np.nan_to_num(values), 0, 1)).astype(np.uint8)
    name = book.add(
        {
            "kind": "map",
            "shape": list(bytes_.shape),
            "data": base64.b64encode(bytes_.tobytes()).decode("ascii"),
            "rows": rows,
            "columns": columns,
            "words": list(words),
            "percent": percent_values,
            "gamma": gamma,
        }
    )
    picture = np.empty((*bytes_.shape[1:], 4), dtype=np.uint8)
    picture[..., :3] = _INK
    picture[..., 3] = np.round(255 * (bytes_[-1] / 255.0) ** gamma)
    label = f"Heat map of {len(rows)} rows and {len(columns)} columns"
    return (
        f'<div class="heat" id="{name}" style="{style}">'
        f'<canvas class="needs-script" width="{len(columns)}" height="{len(rows)}" role="img" '
        f'aria-label="{label}"></canvas>'
        f'<noscript><img alt="{label}" src="{data_uri(picture)}"></noscript></div>'
    )


def _numbers(matrix: Array, names: list[str]) -> str:
    heads = "".join(f'<th scope="col">{as_html(name)}</th>' for name in names)
    rows = []
    for name, line in zip(names, matrix, strict=True):
        cells = "".join(
            f'<td style="--v:{value:.3f}">{100 * value:.1f}</td>' for value in np.clip(line, 0, 1)
        )
        rows.append(f'<tr><th scope="row">{as_html(name)}</th>{cells}</tr>')
    return (
        f'<table class="numbers"><thead><tr><td class="corner">true ↓ given →</td>{heads}</tr>'
        f"</thead><tbody>{''.join(rows)}</tbody></table>"
    )


def _even(count: int, most: int) -> list[int]:
    """Return at most ``most`` places out of ``count``, evenly spaced, with both ends."""
    if count <= most:
        return list(range(count))
    return sorted({int(place) for place in np.linspace(0, count - 1, max(most, 1)).round()})
