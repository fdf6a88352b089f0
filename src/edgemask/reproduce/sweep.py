"""Grids of settings: one run per combination, a table and a figure of the results."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgemask._files import write_json, write_text
from edgemask.engine import Config, Run, resolve
from edgemask.engine.compose import join, settings_of
from edgemask.engine.config import to_dict
from edgemask.engine.config_file import parse_value
from edgemask.engine.default import choose_training, says_nothing
from edgemask.engine.job import job_state
from edgemask.engine.recipes import flatten
from edgemask.engine.run_data import Objects
from edgemask.engine.rundir import default_name
from edgemask.errors import UserError
from edgemask.report import Table, TableRow, spread
from edgemask.reproduce.figures import draw_grid
from edgemask.reproduce.tables import write_tables

__all__ = ["GridAxis", "GridPoint", "make_points", "parse_axis", "sweep_table", "write_sweep"]

_RANGE = re.compile(r"(-?[\d.]+?)\.\.(-?[\d.]+)")
_LIMIT = 10_000


@dataclass(frozen=True)
class GridAxis:
    """A setting and the values that it takes."""

    key: str
    """The dotted key."""
    values: tuple[Any, ...]


@dataclass(frozen=True)
class GridPoint:
    """One run of a grid."""

    values: Mapping[str, Any]
    """Its value on each axis."""
    config: Config

    @property
    def name(self) -> str:
        """The run's folder, below the root."""
        return default_name(self.config)


def parse_axis(text: str, settings: Mapping[str, Any]) -> GridAxis:
    """Read ``key=values``: a list, with ranges such as ``0,0.1..0.9`` or ``0..4``.

    In a range the step is the distance from the value before it, or 1 for whole numbers. The key
    is dotted, or the last part of one that is unique: ``rho`` for ``head.options.rho``.

    Args:
        text: What the user types.
        settings: The settings that all runs share.

    Example:
        >>> parse_axis("rho=0,0.1..0.3", {"head": {"name": "sem"}})
        GridAxis(key='head.options.rho', values=(0, 0.1, 0.2, 0.3))
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
    return GridAxis(_full_key(name.strip(), settings), tuple(values))


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


def make_points(
    settings: Mapping[str, Any], axes: Sequence[GridAxis], recipe: str | None = None
) -> list[GridPoint]:
    """Return the runs of all combinations, the first axis changing slowest.

    Under another head, loss, method, model or dataset the options of the former one are left out,
    as with ``--set``.

    Args:
        settings: Settings that all runs share.
        axes: The settings that differ.
        recipe: The recipe that all of them override, if any.
    """
    points = []
    data, objects = None, Objects()
    for combination in itertools.product(*(axis.values for axis in axes)):
        values = dict(zip((axis.key for axis in axes), combination, strict=True))
        joined = join(recipe, settings, settings_of(values))
        config = resolve(joined)
        if says_nothing(recipe, joined):
            if config.data != data:
                data, objects = config.data, Objects()
            config, objects = choose_training(config, objects)
        points.append(GridPoint(values, config))
    return points


def _shown(axes: Sequence[GridAxis]) -> list[GridAxis]:
    """Return the axes other than seeds, over which results are averaged."""
    return [axis for axis in axes if not axis.key.endswith(".seed")]


def _finished(points: Sequence[GridPoint], root: str | Path) -> list[tuple[GridPoint, Run]]:
    folders = [(point, Path(root) / point.name) for point in points]
    return [(point, Run(folder)) for point, folder in folders if job_state(folder)[0] == "done"]


def sweep_table(points: Sequence[GridPoint], axes: Sequence[GridAxis], root: str | Path) -> Table:
    """Return accuracy at every combination of the grid, mean ± std over seeds."""
    shown = _shown(axes)
    groups: dict[tuple[Any, ...], list[GridPoint]] = {}
    for point in points:
        groups.setdefault(tuple(point.values[axis.key] for axis in shown), []).append(point)
    lines: list[TableRow] = []
    for values, group in groups.items():
        summaries = [run.summary for _, run in _finished(group, root)]
        accuracy = [summary["test/accuracy"] for summary in summaries]
        lines.append(
            [
                *map(str, values),
                spread([a["last"] for a in accuracy]),
                spread([a["best"] for a in accuracy]),
                spread([summary.get("memorised") for summary in summaries]),
                spread([summary.get("head/retention") for summary in summaries]),
                f"{len(summaries)} of {len(group)}",
            ]
        )
    titles = [axis.key for axis in shown]
    measures = ["last accuracy", "best (oracle)", "memorised", "edges kept"]
    return Table([*titles, *measures, "runs"], lines, "Sweep (%)", text_columns=len(shown))


def write_sweep(
    points: Sequence[GridPoint], axes: Sequence[GridAxis], root: str | Path, folder: str | Path
) -> dict[str, Path]:
    """Write the table as Markdown, LaTeX, CSV and JSON, and the figure; return the files."""
    table = sweep_table(points, axes, root)
    files = write_tables([table], folder, "sweep", ("md", "tex"))
    files |= {kind: Path(folder) / f"sweep.{kind}" for kind in ("csv", "json")}
    write_text(files["csv"], table.to_csv())
    rows = [
        {"run": point.name, **point.values, "test/accuracy": run.summary["test/accuracy"]}
        for point, run in _finished(points, root)
    ]
    write_json(files["json"], rows)
    if rows and _shown(axes):
        files["png"] = Path(folder) / "sweep.png"
        _figure(rows, _shown(axes)).savefig(files["png"], dpi=150)
    return files


def _figure(rows: Sequence[Mapping[str, Any]], axes: Sequence[GridAxis]) -> Any:
    """Draw accuracy over the first axis, one line per combination of the others."""
    first, others = axes[0], axes[1:]
    numeric = all(isinstance(v, int | float) and not isinstance(v, bool) for v in first.values)
    lines: dict[str, dict[Any, list[float]]] = {}
    for row in rows:
        label = ", ".join(f"{axis.key.rpartition('.')[2]} {row[axis.key]}" for axis in others)
        places: dict[Any, list[float]] = {
            value if numeric else str(value): [] for value in first.values
        }
        line = lines.setdefault(label, places)
        place = row[first.key] if numeric else str(row[first.key])
        line[place].append(100 * row["test/accuracy"]["last"])
    return draw_grid(first.key, lines, "last test accuracy (%)")
