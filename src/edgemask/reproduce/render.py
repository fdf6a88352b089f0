"""Results as tables: ours beside the paper's, differences below."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from edgemask.engine.files import write_json, write_text
from edgemask.report import Cell as Entry
from edgemask.report import Table, spread
from edgemask.report.tables import Row as Line
from edgemask.reproduce.compare import Comparison, compare
from edgemask.reproduce.plan import Plan
from edgemask.reproduce.results import Result, collect, results_json
from edgemask.reproduce.spec import Column, Experiment, Number

__all__ = ["comparison_table", "result_table", "result_tables", "write_results"]

_SHORT = {
    "done": "not measured",
    "to do": "not run",
    "partly": "begun",
    "running": "running",
    "failed": "failed",
    "waits": "waits",
    "skipped": "skipped",
    "cited": "cited",
}


def result_tables(plan: Plan, experiment: Experiment, results: Sequence[Result]) -> list[Table]:
    """Return the table, or one for each column where a column has further figures beside it."""
    if not experiment.extras:
        return [result_table(plan, experiment, results)]
    shown = {cell.column.key for cell in plan.of(experiment)}
    columns = [column for column in experiment.columns if column.key in shown]
    parts = [result_table(plan, experiment, results, [column]) for column in columns]
    return [dataclasses.replace(part, notes=[]) for part in parts[:-1]] + parts[-1:]


def result_table(
    plan: Plan,
    experiment: Experiment,
    results: Sequence[Result],
    columns: Sequence[Column] | None = None,
) -> Table:
    """Return the table: mean ± std (runs) of ours, and the paper's number beside it.

    Args:
        plan: How each cell stands.
        experiment: What it is a table of.
        results: The numbers of finished runs.
        columns: Columns to show; None means all.
    """
    shown = {(cell.row.key, cell.column.key) for cell in plan.of(experiment)}
    if columns is None:
        columns = [c for c in experiment.columns if any(key == c.key for _, key in shown)]
    wanted = {column.key for column in columns}
    titles = list(experiment.row_titles)
    for column in columns:
        titles += [f"{column.title}, ours"]
        if any(key == column.key for _, key in experiment.paper):
            titles += ["paper"]
        titles += [title for _, title in experiment.extras]
    lines: list[Line] = []
    for row in experiment.rows:
        if not any(key == row.key and column in wanted for key, column in shown):
            continue
        line: list[Entry | str] = list(row.titles)
        for column in columns:
            mine = [r for r in results if (r.row, r.column) == (row.key, column.key)]
            line.append(_ours(plan, experiment, row.key, column.key, mine))
            if any(key == column.key for _, key in experiment.paper):
                line.append(_printed(experiment.paper.get((row.key, column.key))))
            for key, _ in experiment.extras:
                line.append(spread([r.facts["last_epoch"].get(key) for r in mine], digits=1))
        lines.append(line)
    return Table(
        titles,
        lines,
        caption=f"{experiment.title} (%)",
        notes=_notes(plan, experiment, results),
        text_columns=len(experiment.row_titles),
    )


def _ours(
    plan: Plan, experiment: Experiment, row: str, column: str, mine: Sequence[Result]
) -> Entry:
    if mine:
        return spread([result.value for result in mine])
    states = {
        cell.state
        for cell in plan.of(experiment)
        if (cell.row.key, cell.column.key) == (row, column)
    }
    return Entry(text=", ".join(sorted(_SHORT[state] for state in states)))


def _printed(number: Number | None) -> Entry:
    if number is None:
        return Entry(text="")
    text = f"{number.mean:.2f}"
    if number.std is not None:
        text += f" ± {number.std:.2f}"
    return Entry(text=text, value=number.mean / 100, std=None)


def _notes(plan: Plan, experiment: Experiment, results: Sequence[Result]) -> list[str]:
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
    protocols = sorted({c.protocol for c in experiment.columns if c.noise != "none"})
    if protocols and plan.preset.name != "smoke":
        notes.append(f"Noise protocol: {', '.join(protocols)}.")
    reasons: dict[str, int] = {}
    for cell in plan.of(experiment):
        if cell.state in ("skipped", "failed", "waits"):
            text = f"{cell.state}: {cell.reason}"
            reasons[text] = reasons.get(text, 0) + 1
    notes += [f"{text} ({count} cells)" for text, count in reasons.items()]
    return [*notes, *experiment.notes]


def comparison_table(comparisons: Sequence[Comparison], experiment: Experiment) -> Table:
    """Return the claims with our paired differences and the paper's."""
    lines: list[Line] = []
    for found in comparisons:
        ours, interval = "", ""
        if found.ours is not None:
            ours = f"{100 * found.ours.mean:+.2f} ({found.ours.count})"
            if found.ours.low is not None and found.ours.high is not None:
                interval = f"[{100 * found.ours.low:+.2f}, {100 * found.ours.high:+.2f}]"
        lines.append(
            [
                f"{found.better} > {found.worse}",
                experiment.column(found.column).title,
                ours,
                interval,
                "" if found.paper is None else f"{found.paper:+.2f}",
                found.verdict,
            ]
        )
    return Table(
        ["claim", "column", "ours (pairs)", "95 % interval", "paper", "verdict"],
        lines,
        caption=f"{experiment.title.split(':')[0]}: differences in percentage points, paired seeds",
        text_columns=2,
    )


def write_results(plan: Plan, experiment: Experiment, folder: str | Path) -> dict[str, Path]:
    """Write Markdown, LaTeX, CSV and JSON of an experiment, and its figure if it has one.

    Returns:
        The files by kind.
    """
    from edgemask.reproduce.pictures import draw

    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    results = collect(plan, experiment)
    tables = result_tables(plan, experiment, results)
    shown = {(cell.row.key, cell.column.key) for cell in plan.of(experiment)}
    comparisons = [
        found
        for found in compare(experiment, results)
        if {(found.better, found.column), (found.worse, found.column)} <= shown
        and (found.ours is not None or found.paper is not None)
    ]
    if comparisons:
        tables.append(comparison_table(comparisons, experiment))
    files = {
        kind: target / f"{experiment.name}.{kind}" for kind in ("txt", "md", "tex", "csv", "json")
    }
    write_text(files["txt"], "\n\n".join(table.to_text() for table in tables) + "\n")
    write_text(files["md"], "\n\n".join(table.to_markdown() for table in tables) + "\n")
    write_text(files["tex"], "\n\n".join(table.to_latex() for table in tables) + "\n")
    write_text(files["csv"], result_table(plan, experiment, results).to_csv())
    write_json(files["json"], results_json(plan, experiment, results))
    figure = draw(plan, experiment, results)
    if figure is not None:
        files["png"] = target / f"{experiment.name}.png"
        figure.savefig(files["png"], dpi=150)
    return files
