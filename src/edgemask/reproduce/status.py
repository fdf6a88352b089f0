"""How everything stands, experiment by experiment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from edgemask.report import Table
from edgemask.report.tables import Row as Line
from edgemask.reproduce.plan import Plan
from edgemask.reproduce.spec import Experiment

__all__ = ["open_runs", "status_json", "status_table"]

_STATES = ("done", "running", "partly", "failed", "to do", "waits", "skipped", "cited")


def _counts(plan: Plan, experiment: Experiment) -> Counter[str]:
    """Count cells by state; several cells may share one run."""
    return Counter(cell.state for cell in plan.of(experiment))


def status_table(plan: Plan, experiments: Sequence[Experiment]) -> Table:
    """Return the number of cells in each state, and why some cannot be run."""
    lines: list[Line] = []
    for experiment in experiments:
        if experiment.measure is not None:
            lines.append([experiment.name, *[""] * len(_STATES), "measured when asked for"])
            continue
        counts = _counts(plan, experiment)
        reasons = dict.fromkeys(
            cell.reason for cell in plan.of(experiment) if cell.state in ("failed", "skipped")
        )
        numbers = [str(counts[state]) if counts[state] else "" for state in _STATES]
        lines.append([experiment.name, *numbers, "; ".join(reasons)])
    seeds = sorted({cell.seed for cell in plan.cells})
    return Table(
        ["experiment", *_STATES, "why not"],
        lines,
        caption=f"Cells by state: preset {plan.preset.name}, seeds {', '.join(map(str, seeds))}",
        notes=[f"{len(plan.runs('done'))} runs done, {len(open_runs(plan))} to do."],
    )


def open_runs(plan: Plan) -> list[str]:
    """Return the names of the runs that are left to do, in the order they would be done."""
    return list(plan.runs("to do", "partly", "failed"))


def status_json(plan: Plan, experiments: Sequence[Experiment]) -> list[dict[str, Any]]:
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
