"""Results and states as tables: our numbers beside the paper's, and the claims below."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from edgemask._files import write_json, write_text
from edgemask.report import Table, TableCell, TableRow, spread
from edgemask.reproduce.compare import ClaimComparison, compare
from edgemask.reproduce.experiments import Experiment, ExperimentColumn, PaperNumber
from edgemask.reproduce.plan import OPEN_STATES, ExperimentPlan
from edgemask.reproduce.results import (
    CellResult,
    collect,
    recorded_results,
    results_json,
)

__all__ = [
    "comparison_table",
    "result_table",
    "result_tables",
    "status_json",
    "status_table",
    "write_results",
    "write_tables",
]

_STATES = ("done", "running", "partly", "failed", "to do", "waits", "skipped", "cited")
_STATES_IN_CELLS = {"done": "not measured", "to do": "not run", "partly": "begun"}


def result_tables(
    plan: ExperimentPlan, experiment: Experiment, results: Sequence[CellResult]
) -> list[Table]:
    """Return the table, or one for each column where a column has further figures beside it."""
    if not experiment.extras:
        return [result_table(plan, experiment, results)]
    shown = {cell.column.key for cell in plan.of(experiment)}
    columns = [column for column in experiment.columns if column.key in shown]
    parts = [result_table(plan, experiment, results, [column]) for column in columns]
    return [dataclasses.replace(part, notes=[]) for part in parts[:-1]] + parts[-1:]


def result_table(
    plan: ExperimentPlan,
    experiment: Experiment,
    results: Sequence[CellResult],
    columns: Sequence[ExperimentColumn] | None = None,
) -> Table:
    """Return the table: mean ± std (runs) of ours, and the paper's number beside it.

    Args:
        plan: The state of each cell.
        experiment: What it is a table of.
        results: The numbers of finished runs.
        columns: Columns to show; None means all.
    """
    shown = {(cell.row.key, cell.column.key) for cell in plan.of(experiment)}
    if columns is None:
        columns = [c for c in experiment.columns if any(key == c.key for _, key in shown)]
    printed = {column for _, column in experiment.paper}
    titles = list(experiment.row_titles)
    for column in columns:
        titles.append(f"{column.title}, ours")
        if column.key in printed:
            titles.append("paper")
        titles += experiment.extras.values()
        if experiment.cost is not None:
            titles.append(experiment.cost.title)
    lines: list[TableRow] = []
    for row in experiment.rows:
        if not any((row.key, column.key) in shown for column in columns):
            continue
        line: list[TableCell | str] = list(row.titles)
        for column in columns:
            mine = [r for r in results if (r.row, r.column) == (row.key, column.key)]
            line.append(_ours(plan, experiment, row.key, column.key, mine))
            if column.key in printed:
                line.append(_printed(experiment.paper.get((row.key, column.key))))
            line += [
                spread([r.facts["last_epoch"].get(key) for r in mine], digits=1)
                for key in experiment.extras
            ]
            if experiment.cost is not None:
                line.append(_cost(mine, results, experiment.cost.over))
        lines.append(line)
    return Table(
        titles,
        lines,
        caption=f"{experiment.title} (%)",
        notes=_notes(plan, experiment, results),
        text_columns=len(experiment.row_titles),
    )


def _ours(
    plan: ExperimentPlan, experiment: Experiment, row: str, column: str, mine: Sequence[CellResult]
) -> TableCell:
    if mine:
        return spread([result.value for result in mine])
    states = {
        cell.state
        for cell in plan.of(experiment)
        if (cell.row.key, cell.column.key) == (row, column)
    }
    return TableCell(text=", ".join(sorted(_STATES_IN_CELLS.get(state, state) for state in states)))


def _cost(mine: Sequence[CellResult], results: Sequence[CellResult], over: str) -> TableCell:
    """Return the mean processor time per epoch over that of a row's runs of the same seeds."""
    times = {(r.row, r.column, r.seed): r.facts.get("cpu_seconds_per_epoch") for r in results}
    ratios = []
    for result in mine:
        time, plain = (times.get((row, result.column, result.seed)) for row in (result.row, over))
        if time and plain:
            ratios.append(time / plain)
    return TableCell(text=f"{fmean(ratios):.1f}" if ratios else "")


def _printed(number: PaperNumber | None) -> TableCell:
    if number is None:
        return TableCell(text="")
    text = f"{number.mean:.2f}"
    if number.std is not None:
        text += f" ± {number.std:.2f}"
    return TableCell(text=text, value=number.mean / 100, std=None)


def _notes(
    plan: ExperimentPlan, experiment: Experiment, results: Sequence[CellResult]
) -> list[str]:
    seeds = sorted({result.seed for result in results})
    commits = sorted({str(result.facts["commit"] or "unknown") for result in results})
    notes = [f"Preset {plan.preset.name}: {plan.preset.summary}."]
    if plan.preset.warning:
        notes.append(plan.preset.warning)
    if results:
        notes.append(
            f"Ours: mean ± sample std (runs); seeds {', '.join(map(str, seeds))}; "
            f"commit {', '.join(commits)}."
        )
    times = {r.run: (r.facts.get("epochs"), r.facts.get("cpu_seconds_per_epoch")) for r in results}
    known = [epochs * seconds for epochs, seconds in times.values() if epochs and seconds]
    if known and len(known) == len(times):
        hours = f"{sum(known) / 3600:.1f}"
        notes.append(f"{len(known)} runs, {hours} hours of processor time without evaluations.")
    protocols = sorted({c.protocol for c in experiment.columns if c.noise != "none"})
    if protocols and plan.preset.name != "smoke":
        notes.append(f"Noise protocol: {', '.join(protocols)}.")
    reasons: dict[str, int] = {}
    numbers = {result.place for result in results}
    for cell in plan.of(experiment):
        if cell.state in ("skipped", "failed", "waits") and cell.place not in numbers:
            text = f"{cell.state}: {cell.reason}"
            reasons[text] = reasons.get(text, 0) + 1
    notes += [f"{text} ({count} cells)" for text, count in reasons.items()]
    return [*notes, *experiment.notes]


def comparison_table(comparisons: Sequence[ClaimComparison], experiment: Experiment) -> Table:
    """Return the claims with our paired differences and the paper's."""
    lines: list[TableRow] = []
    for comparison in comparisons:
        ours, interval = "", ""
        if comparison.ours is not None:
            ours = f"{100 * comparison.ours.mean:+.2f} ({comparison.ours.count})"
            if comparison.ours.low is not None and comparison.ours.high is not None:
                interval = f"[{100 * comparison.ours.low:+.2f}, {100 * comparison.ours.high:+.2f}]"
        lines.append(
            [
                f"{comparison.better} > {comparison.worse}",
                experiment.column(comparison.column).title,
                ours,
                interval,
                "" if comparison.paper is None else f"{comparison.paper:+.2f}",
                comparison.verdict,
            ]
        )
    return Table(
        ["claim", "column", "ours (pairs)", "95 % interval", "paper", "verdict"],
        lines,
        caption=f"{experiment.title.split(':')[0]}: differences in percentage points, paired seeds",
        text_columns=2,
    )


def status_table(plan: ExperimentPlan, experiments: Sequence[Experiment]) -> Table:
    """Return the number of cells in each state, and why some cannot be run.

    Several cells may share one run.
    """
    lines: list[TableRow] = []
    for experiment in experiments:
        if experiment.measure is not None:
            lines.append([experiment.name, *[""] * len(_STATES), "measured on request"])
            continue
        cells = plan.of(experiment)
        counts = Counter(cell.state for cell in cells)
        reasons = dict.fromkeys(c.reason for c in cells if c.state in ("failed", "skipped"))
        numbers = [str(counts[state] or "") for state in _STATES]
        lines.append([experiment.name, *numbers, "; ".join(reasons)])
    seeds = sorted({cell.seed for cell in plan.cells})
    done, left = len(plan.runs("done")), len(plan.runs(*OPEN_STATES))
    return Table(
        ["experiment", *_STATES, "why not"],
        lines,
        caption=f"Cells by state: preset {plan.preset.name}, seeds {', '.join(map(str, seeds))}",
        notes=[f"{done} runs done, {left} to do."],
    )


def status_json(plan: ExperimentPlan, experiments: Sequence[Experiment]) -> list[dict[str, Any]]:
    """Return every cell with its state as plain values."""
    return [
        {
            "experiment": cell.experiment.name,
            "row": cell.row.key,
            "column": cell.column.key,
            "seed": cell.seed,
            "run": cell.name,
            "state": cell.state,
            "reason": cell.reason,
        }
        for experiment in experiments
        for cell in plan.of(experiment)
    ]


def write_tables(
    tables: Sequence[Table], folder: str | Path, name: str, kinds: Sequence[str]
) -> dict[str, Path]:
    """Write tables as ``NAME.txt``, ``.md`` and ``.tex``; return the files by kind."""
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    formats = {"txt": Table.to_text, "md": Table.to_markdown, "tex": Table.to_latex}
    files = {kind: target / f"{name}.{kind}" for kind in kinds}
    for kind, path in files.items():
        write_text(path, "\n\n".join(formats[kind](table) for table in tables) + "\n")
    return files


def write_results(
    plan: ExperimentPlan, experiment: Experiment, folder: str | Path
) -> dict[str, Path]:
    """Write Markdown, LaTeX, CSV and JSON of an experiment, and its figure if it has one.

    What the JSON file of an earlier call holds of runs that are not here is kept.

    Returns:
        The files by kind.
    """
    from edgemask.reproduce.figures import draw

    earlier = recorded_results(plan, experiment, Path(folder) / f"{experiment.name}.json")
    planned = {cell.place for cell in plan.of(experiment)}
    here = collect(plan, experiment)
    results = here + [result for result in earlier if result.place in planned]
    tables = result_tables(plan, experiment, results)
    shown = {(cell.row.key, cell.column.key) for cell in plan.of(experiment)}
    comparisons = [
        comparison
        for comparison in compare(experiment, results)
        if (comparison.better, comparison.column) in shown
        and (comparison.worse, comparison.column) in shown
        and (comparison.ours is not None or comparison.paper is not None)
    ]
    if comparisons:
        tables.append(comparison_table(comparisons, experiment))
    files = write_tables(tables, folder, experiment.name, ("txt", "md", "tex"))
    files |= {kind: files["txt"].with_suffix(f".{kind}") for kind in ("csv", "json")}
    write_text(files["csv"], result_table(plan, experiment, results).to_csv())
    write_json(files["json"], results_json(plan, experiment, here + earlier))
    figure = draw(plan, experiment, results)
    if figure is not None:
        files["png"] = files["txt"].with_suffix(".png")
        figure.savefig(files["png"], dpi=150)
    return files
