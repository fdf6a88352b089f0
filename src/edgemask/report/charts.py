"""Curves and histograms as SVG that follows the width of the page.

The drawing is stretched by the browser while its lines keep their width, and all text is HTML
around it: it reads the same on a phone and on paper, with or without scripts. Scripts only add
the values under the pointer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from edgemask.report.escape import as_html, plain

__all__ = ["Axis", "Book", "Series", "bars", "curves", "nice_ticks"]

_MOST_POINTS = 500
_COLOURS = 8


@dataclass(frozen=True, kw_only=True)
class Series:
    """One line of a chart; ``low`` and ``high`` bound the band around it."""

    name: str
    x: Sequence[float]
    y: Sequence[float | None]
    low: Sequence[float | None] = ()
    high: Sequence[float | None] = ()


@dataclass(frozen=True, kw_only=True)
class Axis:
    """What the vertical axis shows: a fraction as a percentage, or a plain number."""

    percent: bool = True

    def show(self, value: float) -> str:
        """Return a tick label."""
        return f"{100 * value:g} %" if self.percent else f"{value:g}"


@dataclass
class Book:
    """Collects what the scripts of one page need to know about its figures."""

    figures: dict[str, Any] = field(default_factory=dict)

    def add(self, figure: dict[str, Any]) -> str:
        """Keep the data of a figure and return its id."""
        name = f"figure-{len(self.figures)}"
        self.figures[name] = figure
        return name


def nice_ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Return round numbers that cover a range, about ``count`` of them.

    Example:
        >>> nice_ticks(0.03, 0.97)
        [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    """
    size = max(abs(low), abs(high))
    if high - low <= max(size * 1e-9, 1e-90):
        pad = size * 0.1 if size > 1e-90 else 1.0
        low, high = low - pad, high + pad
    rough = (high - low) / count
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [float(f"{place * step:.12g}") for place in range(first, last + 1)]


def curves(book: Book, title: str, series: Sequence[Series], axis: Axis, note: str = "") -> str:
    """Return a line chart over epochs with a legend, or nothing where there is no value."""
    # A line keeps its place, and so its colour, also where another one has no values.
    drawn = {
        place: _thinned(line)
        for place, line in enumerate(series)
        if any(value is not None for value in line.y)
    }
    if not drawn:
        return ""
    values = [
        value
        for line in drawn.values()
        for part in (line.y, line.low, line.high)
        for value in part
        if value is not None
    ]
    ticks = nice_ticks(min(values), max(values))
    xs = [x for line in drawn.values() for x in line.x]
    left, right = min(xs), max(xs)
    if left == right:
        left, right = left - 0.5, right + 0.5
    x_ticks = [x for x in nice_ticks(left, right, 6) if left <= x <= right and x == int(x)]
    frame = _Frame(left, right, ticks[0], ticks[-1])
    shapes = [f'<path class="grid" d="M0 {frame.y(tick)}H1000"/>' for tick in ticks]
    shapes += [frame.draw(line, place) for place, line in drawn.items()]
    name = book.add(
        {
            "kind": "curves",
            "percent": axis.percent,
            "range": [left, right, ticks[0], ticks[-1]],
            "series": [
                {"name": plain(line.name), "place": place, "x": line.x, "y": _rounded(line.y)}
                for place, line in drawn.items()
            ],
        }
    )
    legend = "".join(
        f'<button type="button" class="key s{place % _COLOURS} d{place // _COLOURS % 3}" '
        f'aria-pressed="true" data-series="{place}"><i></i>{as_html(line.name)}</button>'
        for place, line in drawn.items()
        if len(series) > 1
    )
    ends = "; ".join(
        f"{line.name} ends at {_last_shown(line, axis)}" for line in list(drawn.values())[:6]
    )
    return _figure(
        name,
        title,
        shapes="".join(shapes),
        y_labels=[(axis.show(tick), frame.y(tick) / 10) for tick in ticks],
        x_labels=[(f"{x:g}", frame.x(x) / 10) for x in x_ticks],
        x_title="epoch",
        legend=legend,
        description=ends,
        note=note,
    )


def bars(
    book: Book,
    title: str,
    edges: Sequence[float],
    layers: Sequence[tuple[str, Sequence[float]]],
    *,
    x_title: str,
    mark: tuple[float, str] | None = None,
    note: str = "",
) -> str:
    """Return a histogram of shares on a logarithmic axis, one layer of steps a name."""
    floor = bar_floor([value for _, values in layers for value in values])
    left, right = edges[0], edges[-1]
    frame = _Frame(left, right, math.log10(floor), 0.0)
    ticks = [10.0**power for power in range(round(math.log10(floor)), 1)]
    shapes = [f'<path class="grid" d="M0 {frame.y(math.log10(tick))}H1000"/>' for tick in ticks]
    for place, (_, values) in enumerate(layers):
        shapes.append(
            f'<path class="bars s{place}" data-series="{place}" '
            f'd="{_steps(frame, edges, values, floor)}"/>'
        )
    legend = "".join(
        f'<span class="key s{place}"><i></i>{as_html(name)}</span>'
        for place, (name, _) in enumerate(layers)
    )
    if mark is not None and left <= mark[0] <= right:
        shapes.append(f'<path class="mark" d="M{frame.x(mark[0])} 0V1000"/>')
        legend += f'<span class="key mark"><i></i>{as_html(mark[1])}</span>'
    name = book.add(
        {
            "kind": "bars",
            "floor": floor,
            "edges": _rounded(edges),
            "series": [{"name": plain(layer), "y": _rounded(values)} for layer, values in layers],
        }
    )
    return _figure(
        name,
        title,
        shapes="".join(shapes),
        y_labels=[(f"{100 * tick:g} %", frame.y(math.log10(tick)) / 10) for tick in ticks],
        x_labels=[(f"{x:g}", frame.x(x) / 10) for x in nice_ticks(left, right)],
        x_title=x_title,
        legend=legend,
        description=f"Share of {x_title} in {len(edges) - 1} bins, on a logarithmic axis",
        note=note,
    )


def bar_floor(shares: Sequence[float]) -> float:
    """Return the power of ten at which the axis of a histogram begins."""
    least = min((share for share in shares if share > 0), default=0.01)
    return float(10.0 ** max(-5, min(-2, math.floor(math.log10(least)))))


@dataclass(frozen=True)
class _Frame:
    """Maps values to the drawing, which is 1000 units wide and high."""

    left: float
    right: float
    bottom: float
    top: float

    def x(self, value: float) -> float:
        return round(1000 * (value - self.left) / (self.right - self.left), 1)

    def y(self, value: float) -> float:
        return round(1000 * (self.top - value) / (self.top - self.bottom), 1)

    def draw(self, line: Series, place: int) -> str:
        style = f's{place % _COLOURS} d{place // _COLOURS % 3}" data-series="{place}'
        parts = []
        band = [
            (self.x(x), self.y(low), self.y(high))
            for x, low, high in zip(line.x, line.low, line.high, strict=False)
            if low is not None and high is not None
        ]
        if len(band) > 1:
            there = " ".join(f"{x} {high}" for x, _, high in band)
            back = " ".join(f"{x} {low}" for x, low, _ in reversed(band))
            parts.append(f'<path class="band {style}" d="M{there} L{back}Z"/>')
        points: list[str] = []
        pen = "M"
        for x, y in zip(line.x, line.y, strict=True):
            if y is None:
                pen = "M"
                continue
            points.append(f"{pen}{self.x(x)} {self.y(y)}")
            pen = "L"
        # A point that stands alone has no length; a round cap makes it a dot.
        points = [
            point + "h0" if point[0] == "M" and (after is None or after[0] == "M") else point
            for point, after in zip(points, [*points[1:], None], strict=True)
        ]
        parts.append(f'<path class="line {style}" d="{"".join(points)}"/>')
        return "".join(parts)


def _steps(frame: _Frame, edges: Sequence[float], values: Sequence[float], floor: float) -> str:
    path = "M0 1000"
    for left, right, value in zip(edges, edges[1:], values, strict=False):
        top = frame.y(math.log10(max(value, floor)))
        path += f"L{frame.x(left)} {top}H{frame.x(right)}"
    return path + "V1000Z"


def _figure(
    name: str,
    title: str,
    *,
    shapes: str,
    y_labels: Sequence[tuple[str, float]],
    x_labels: Sequence[tuple[str, float]],
    x_title: str,
    legend: str,
    description: str,
    note: str,
) -> str:
    rows = "".join(f'<span style="top:{place:g}%">{text}</span>' for text, place in y_labels)
    columns = "".join(f'<span style="left:{place:g}%">{text}</span>' for text, place in x_labels)
    below = f'<p class="note">{as_html(note)}</p>' if note else ""
    return (
        f'<figure class="chart" id="{name}"><figcaption>{as_html(title)}</figcaption>'
        f'<div class="legend">{legend}</div>'
        f'<div class="frame"><div class="ys" aria-hidden="true">{rows}</div>'
        f'<div class="plot" tabindex="0" role="group" aria-label="{as_html(title)}: values by '
        f'pointer or arrow keys"><svg viewBox="0 0 1000 1000" preserveAspectRatio="none" '
        f'role="img" aria-label="{as_html(title)}. {as_html(description)}">{shapes}</svg></div>'
        f'<div class="xs" aria-hidden="true">{columns}</div>'
        f'<div class="xt" aria-hidden="true">{as_html(x_title)}</div></div>{below}</figure>'
    )


def _thinned(line: Series) -> Series:
    """Keep every k-th point, and the last, of a line that no screen could show in full."""
    step = math.ceil(len(line.x) / _MOST_POINTS)
    if step <= 1:
        return line
    keep = [*range(0, len(line.x) - 1, step), len(line.x) - 1]

    def pick(values: Sequence[Any]) -> list[Any]:
        return [values[place] for place in keep] if values else []

    return Series(
        name=line.name, x=pick(line.x), y=pick(line.y), low=pick(line.low), high=pick(line.high)
    )


def _rounded(values: Sequence[float | None]) -> list[float | None]:
    return [None if value is None else float(f"{value:.5g}") for value in values]


def _last_shown(line: Series, axis: Axis) -> str:
    value = next(value for value in reversed(line.y) if value is not None)
    return f"{100 * value:.2f} %" if axis.percent else f"{value:.4g}"
