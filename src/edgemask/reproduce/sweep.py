"""Grids of settings: every combination is a run, and a picture comes of it."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from edgemask.engine import Config, Run, assign, resolve
from edgemask.engine.config import to_dict
from edgemask.engine.files import write_json, write_text
from edgemask.engine.recipes import flatten
from edgemask.engine.rundir import default_name
from edgemask.engine.schema import parse_value
from edgemask.errors import MissingExtraError, UserError
from edgemask.report import Table, spread
from edgemask.report.tables import Row as Line
from edgemask.reproduce.ledger import Ledger

__all__ = ["Axis", "Point", "make_points", "parse_axis", "sweep_table", "write_sweep"]

_RANGE = re.compile(r"(-?[\d.]+?)\.\.(-?[\d.]+)")
_LIMIT = 10_000


@dataclass(frozen=True)
class Axis:
    """A setting and the values that it takes."""

    key: str
    """The dotted key."""
    values: tuple[Any, ...]


@dataclass(frozen=True)
class Point:
    """One run of a grid."""

    values: Mapping[str, Any]
    """Its place on the axes."""
    config: Config

    @property
    def name(self) -> str:
        """The run's folder, below the root."""
        return default_name(self.config)


def parse_axis(text: str, settings: Mapping[str, Any]) -> Axis:
    """Read ``key=values``: a list, with ranges such as ``0,0.1..0.9`` or ``0..4``.

    In a range the step is the distance from the value before it, or 1 for whole numbers. The key
    is dotted, or the last part of one that is unique: ``rho`` for ``head.options.rho``.

    Args:
        text: What a person types.
        settings: The settings that the grid is laid upon.

    Example:
        >>> parse_axis("rho=0,0.1..0.3", {"head": {"name": "sem"}})
        Axis(key='head.options.rho', values=(0, 0.1, 0.2, 0.3))
    """
    name, equals, listed = text.partition("=")
    if not equals or not listed.strip():
        raise UserError(f"--grid takes key=value,value,... such as rho=0.1..0.9, got {text!r}")
    values: list[Any] = []
    for part in listed.split(","):
        match = _RANGE.fullmatch(part.strip())
        if match is None:
            values.append(parse_value(part.strip()))
        else:
            values += _steps(text, match[1], match[2], values)
    return Axis(_full_key(name.strip(), settings), tuple(values))


def _steps(text: str, first: str, last: str, before: list[Any]) -> list[Any]:
    start, end = parse_value(first), parse_value(last)
    previous = before[-1] if before else None
    step: Any = 1
    if isinstance(previous, int | float) and not isinstance(previous, bool):
        step = start - previous
    elif isinstance(start, float) or isinstance(end, float):
        raise UserError(
            f"--grid {text}: a range of fractions needs a value before it, as in 0,0.1..0.9"
        )
    if step == 0 or (end - start) / step < 0 or (end - start) / step > _LIMIT:
        raise UserError(f"--grid {text}: no way from {first} to {last} in steps of {step:g}")
    count = int((end - start) / step + 1e-9) + 1
    return [start + i * step if isinstance(step, int) else round(start + i * step, 10)
            for i in range(count)]  # fmt: skip


def _full_key(name: str, settings: Mapping[str, Any]) -> str:
    known = flatten(to_dict(resolve(settings)))
    if "." in name:
        return name
    ends = [key for key in known if key.rpartition(".")[2] == name]
    if len(ends) == 1:
        return ends[0]
    if not ends:
        raise UserError(f"--grid {name}: no setting has this name; write the whole key (a.b=...)")
    raise UserError(f"--grid {name}: several settings have this name: {', '.join(ends)}")


def make_points(settings: Mapping[str, Any], axes: Sequence[Axis]) -> list[Point]:
    """Return the runs of all combinations, the first axis changing slowest."""
    points = []
    for values in itertools.product(*(axis.values for axis in axes)):
        place = dict(zip((axis.key for axis in axes), values, strict=True))
        lines = [f"{key}={_yaml(value)}" for key, value in place.items()]
        points.append(Point(place, resolve(assign(settings, lines))))
    return points


def _yaml(value: Any) -> str:
    return (
        "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
    )


def _shown(axes: Sequence[Axis]) -> list[Axis]:
    """Seeds are repeats, not a setting: what stands at the same place is averaged."""
    return [axis for axis in axes if not axis.key.endswith(".seed")]


def sweep_table(points: Sequence[Point], axes: Sequence[Axis], root: str | Path) -> Table:
    """Return accuracy at every place of the grid, mean ± std over seeds."""
    shown = _shown(axes)
    places: dict[tuple[Any, ...], list[Point]] = {}
    for point in points:
        places.setdefault(tuple(point.values[axis.key] for axis in shown), []).append(point)
    lines: list[Line] = []
    for place, here in places.items():
        ends = [Run(Path(root) / p.name).summary for p in here if _finished(p, root)]
        accuracy = [end["test/accuracy"] for end in ends]
        lines.append(
            [
                *map(str, place),
                spread([a["last"] for a in accuracy]),
                spread([a["best"] for a in accuracy]),
                spread([end.get("memorised") for end in ends]),
                spread([end.get("head/retention") for end in ends]),
                f"{len(ends)} of {len(here)}",
            ]
        )
    titles = [axis.key for axis in shown]
    measures = ["last accuracy", "best (oracle)", "memorised", "edges kept"]
    return Table([*titles, *measures, "runs"], lines, "Sweep (%)", text_columns=len(shown))


def _finished(point: Point, root: str | Path) -> bool:
    return Ledger(root).state(point.name)[0] == "done"


def write_sweep(
    points: Sequence[Point], axes: Sequence[Axis], root: str | Path, folder: str | Path
) -> dict[str, Path]:
    """Write the table as Markdown, LaTeX, CSV and JSON, and the picture; return the files."""
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    table = sweep_table(points, axes, root)
    files = {kind: target / f"sweep.{kind}" for kind in ("md", "tex", "csv", "json")}
    write_text(files["md"], table.to_markdown() + "\n")
    write_text(files["tex"], table.to_latex() + "\n")
    write_text(files["csv"], table.to_csv())
    done = [point for point in points if _finished(point, root)]
    rows = [
        {
            "run": point.name,
            **point.values,
            "test/accuracy": Run(Path(root) / point.name).summary["test/accuracy"],
        }
        for point in done
    ]
    write_json(files["json"], rows)
    if rows and _shown(axes):
        files["png"] = target / "sweep.png"
        _picture(rows, _shown(axes)).savefig(files["png"], dpi=150)
    return files


def _picture(rows: Sequence[Mapping[str, Any]], axes: Sequence[Axis]) -> Any:
    """Accuracy over the first axis, a line for each combination of the others."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("matplotlib", "app", "to draw a sweep", error) from error
    figure = Figure(figsize=(5.0, 3.6), layout="constrained")
    panel = figure.subplots()
    first, others = axes[0], axes[1:]
    lines: dict[tuple[Any, ...], dict[Any, list[float]]] = {}
    for row in rows:
        line = lines.setdefault(tuple(row[axis.key] for axis in others), {})
        line.setdefault(row[first.key], []).append(100 * row["test/accuracy"]["last"])
    numeric = all(isinstance(v, int | float) and not isinstance(v, bool) for v in first.values)
    for place, line in lines.items():
        xs = [value for value in first.values if value in line]
        ys = [fmean(line[x]) for x in xs]
        bars = [stdev(line[x]) if len(line[x]) > 1 else 0.0 for x in xs]
        label = ", ".join(
            f"{a.key.rpartition('.')[2]} {v}" for a, v in zip(others, place, strict=True)
        )
        panel.errorbar(
            xs if numeric else [str(x) for x in xs], ys, bars, marker="o", label=label or None
        )
    panel.set_xlabel(first.key)
    panel.set_ylabel("last test accuracy (%)")
    if others:
        panel.legend(fontsize=7)
    return figure
