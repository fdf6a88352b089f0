"""Line charts and histograms, as SVG paths and labels that the template ``chart`` lays out.

The browser stretches the drawing, which is 1000 units wide and high, while lines keep their width;
all text is HTML around it. Scripts only add the values under the pointer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from edgemask.report.escape import printable

__all__ = ["Chart", "FigureData", "Series", "curves", "histogram", "nice_ticks"]

_MAX_POINTS = 500
_COLOURS = 8
_DASHES = 3


@dataclass(frozen=True, kw_only=True)
class Series:
    """One line of a chart; ``low`` and ``high`` bound the band around it."""

    name: str
    x: Sequence[float]
    y: Sequence[float | None]
    low: Sequence[float | None] = ()
    high: Sequence[float | None] = ()


@dataclass(frozen=True, kw_only=True)
class Chart:
    """A drawn figure; paths and legend entries have a CSS class and the number of their series."""

    id: str
    title: str
    paths: Sequence[tuple[str, int | None, str]]
    legend: Sequence[tuple[str, int | None, str]]
    x_labels: Sequence[tuple[str, float]]
    """Texts and their places in percent."""
    y_labels: Sequence[tuple[str, float]]
    x_title: str
    description: str
    note: str = ""


class FigureData(dict[str, Any]):
    """What the scripts of one page need to know about its figures, by id."""

    def add(self, **data: Any) -> str:
        """Keep the data of a figure and return its id."""
        name = f"figure-{len(self)}"
        self[name] = data
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


def curves(
    figures: FigureData,
    title: str,
    series: Sequence[Series],
    *,
    percent: bool = True,
    note: str = "",
) -> Chart | None:
    """Return a line chart over epochs with a legend; ``None`` where there is no value."""
    # A line keeps its number, and so its colour, also where another one has no values.
    drawn = {
        number: _thinned(line)
        for number, line in enumerate(series)
        if any(value is not None for value in line.y)
    }
    if not drawn:
        return None
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
    frame = _Frame(left, right, ticks[0], ticks[-1])
    paths = frame.grid(ticks)
    for number, line in drawn.items():
        band = frame.band(line)
        if band:
            paths.append((f"band {_style(number)}", number, band))
        paths.append((f"line {_style(number)}", number, frame.line(line)))
    unit, scale = (" %", 100) if percent else ("", 1)
    ends = []
    for line in list(drawn.values())[:6]:
        end = next(value for value in reversed(line.y) if value is not None)
        ends.append(f"{line.name} ends at {scale * end:.4g}{unit}")
    return Chart(
        id=figures.add(
            kind="curves",
            percent=percent,
            range=[left, right, ticks[0], ticks[-1]],
            series=[
                {"name": printable(line.name), "place": number, "x": line.x, "y": _rounded(line.y)}
                for number, line in drawn.items()
            ],
        ),
        title=title,
        paths=paths,
        legend=[
            (_style(number), number, line.name) for number, line in drawn.items() if len(series) > 1
        ],
        y_labels=[(f"{scale * tick:g}{unit}", frame.y(tick) / 10) for tick in ticks],
        x_labels=[
            (f"{x:g}", frame.x(x) / 10)
            for x in nice_ticks(left, right, 6)
            if left <= x <= right and x == int(x)
        ],
        x_title="epoch",
        description="; ".join(ends),
        note=note,
    )


def histogram(
    figures: FigureData,
    title: str,
    edges: Sequence[float],
    layers: Sequence[tuple[str, Sequence[float]]],
    *,
    x_title: str,
    mark: tuple[float, str] | None = None,
    note: str = "",
    **data: Any,
) -> Chart:
    """Return a histogram of shares on a logarithmic axis.

    Args:
        figures: Gets the data for the scripts.
        title: The title.
        edges: Edges of the bins.
        layers: Name and share per bin of each layer.
        x_title: What is counted, by what.
        mark: Place and name of a vertical line.
        note: Text below.
        data: More data for the scripts.
    """
    least = min((share for _, shares in layers for share in shares if share > 0), default=0.01)
    power = max(-5, min(-2, math.floor(math.log10(least))))
    floor = 10.0**power
    left, right = edges[0], edges[-1]
    frame = _Frame(left, right, float(power), 0.0)
    paths = frame.grid(range(power, 1))
    for number, (_, shares) in enumerate(layers):
        paths.append((f"bars s{number}", number, frame.bars(edges, shares, floor)))
    legend: list[tuple[str, int | None, str]] = [
        (f"s{number}", None, name) for number, (name, _) in enumerate(layers)
    ]
    if mark is not None and left <= mark[0] <= right:
        paths.append(("mark", None, f"M{frame.x(mark[0])} 0V1000"))
        legend.append(("mark", None, mark[1]))
    return Chart(
        id=figures.add(
            kind="bars",
            floor=floor,
            edges=_rounded(edges),
            series=[{"name": printable(name), "y": _rounded(shares)} for name, shares in layers],
            **data,
        ),
        title=title,
        paths=paths,
        legend=legend,
        y_labels=[(f"{100 * 10.0**tick:g} %", frame.y(tick) / 10) for tick in range(power, 1)],
        x_labels=[(f"{x:g}", frame.x(x) / 10) for x in nice_ticks(left, right)],
        x_title=x_title,
        description=f"Share of {x_title} in {len(edges) - 1} bins, on a logarithmic axis",
        note=note,
    )


@dataclass(frozen=True)
class _Frame:
    """Maps values to the drawing."""

    left: float
    right: float
    bottom: float
    top: float

    def x(self, value: float) -> float:
        return round(1000 * (value - self.left) / (self.right - self.left), 1)

    def y(self, value: float) -> float:
        return round(1000 * (self.top - value) / (self.top - self.bottom), 1)

    def grid(self, ticks: Sequence[float]) -> list[tuple[str, int | None, str]]:
        return [("grid", None, f"M0 {self.y(tick)}H1000") for tick in ticks]

    def band(self, line: Series) -> str:
        bounds = [
            (self.x(x), self.y(low), self.y(high))
            for x, low, high in zip(line.x, line.low, line.high, strict=False)
            if low is not None and high is not None
        ]
        if len(bounds) < 2:
            return ""
        there = " ".join(f"{x} {high}" for x, _, high in bounds)
        back = " ".join(f"{x} {low}" for x, low, _ in reversed(bounds))
        return f"M{there} L{back}Z"

    def line(self, line: Series) -> str:
        points: list[str] = []
        pen = "M"
        for x, y in zip(line.x, line.y, strict=True):
            if y is None:
                pen = "M"
                continue
            points.append(f"{pen}{self.x(x)} {self.y(y)}")
            pen = "L"
        # A single point has no length; a round cap makes it a dot.
        return "".join(
            point + "h0" if point[0] == "M" and after[0] == "M" else point
            for point, after in zip(points, [*points[1:], "M"], strict=True)
        )

    def bars(self, edges: Sequence[float], shares: Sequence[float], floor: float) -> str:
        path = "M0 1000"
        for left, right, share in zip(edges, edges[1:], shares, strict=False):
            path += f"L{self.x(left)} {self.y(math.log10(max(share, floor)))}H{self.x(right)}"
        return path + "V1000Z"


def _style(number: int) -> str:
    """Return the CSS classes of a line: its colour, and its dashes where colours run out."""
    return f"s{number % _COLOURS} d{number // _COLOURS % _DASHES}"


def _thinned(line: Series) -> Series:
    """Keep every k-th point, and the last, of a line that no screen could show in full."""
    step = math.ceil(len(line.x) / _MAX_POINTS)
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
