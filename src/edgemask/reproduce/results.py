"""The numbers of finished runs, each with where it comes from."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgemask.engine import Run, evaluate
from edgemask.engine.files import write_text
from edgemask.engine.metrics import chosen_epoch
from edgemask.reproduce.ledger import Ledger
from edgemask.reproduce.plan import Cell, Plan
from edgemask.reproduce.spec import Experiment

__all__ = ["Result", "collect", "results_json"]


@dataclass(frozen=True)
class Result:
    """The number of one cell at one seed."""

    row: str
    column: str
    seed: int
    value: float
    """A fraction."""
    run: str
    """Name of the run."""
    facts: Mapping[str, Any]
    """Its config hash, commit, seconds, versions, noise, and the metrics of its last epoch, or of
    the epoch that validation samples chose where the value is that epoch's."""


def collect(plan: Plan, experiment: Experiment) -> list[Result]:
    """Read the results of an experiment's finished runs."""
    found = []
    for cell in plan.of(experiment):
        if cell.state != "done" or cell.name is None:
            continue
        run = Run(plan.root / cell.name)
        value = _value(cell, run)
        if value is not None:
            found.append(
                Result(
                    cell.row.key,
                    cell.column.key,
                    cell.seed,
                    value,
                    cell.name,
                    _facts(run, plan.root, _statistic(cell)),
                )
            )
    return found


def _value(cell: Cell, run: Run) -> float | None:
    if cell.row.inference is not None:
        value = _tested_again(run, cell.row.inference).get(cell.column.metric)
        return None if value is None else float(value)
    value = run.summary.get(cell.column.metric, {}).get(_statistic(cell))
    return None if value is None else float(value)


def _statistic(cell: Cell) -> str:
    return cell.row.statistic or cell.column.statistic


def _tested_again(run: Run, inference: str) -> dict[str, Any]:
    """Test a run in another way, once."""
    path = run.path.parent / "ledger" / f"{run.path.name}.{inference}.json"
    if path.is_file():
        known: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return known
    limit = run.config.data.test_limit
    values = evaluate(run, inference=inference, test_limit=limit, top5=run.config.eval.top5)
    numbers = {key: value for key, value in values.items() if isinstance(value, float)}
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, json.dumps(numbers) + "\n")
    return numbers


def _facts(run: Run, root: Path, statistic: str) -> dict[str, Any]:
    summary, history = run.summary, run.history
    if statistic == "at_validation":
        chosen = chosen_epoch(history)
        assert chosen is not None
        history = history[: chosen["epoch"] + 1]
    last: dict[str, Any] = {}
    for row in history:
        last |= {key: value for key, value in row.items() if value is not None}
    kept = {
        key: value
        for key, value in last.items()
        if key not in ("epoch", "step", "seconds", "lr") and not key.startswith("train/criteria")
    }
    return {
        "config_hash": summary["config_hash"],
        "commit": Ledger(root).read(run.path.name).get("commit"),
        "seconds": summary["seconds"],
        "versions": summary["versions"],
        "noise": summary["noise"],
        "noise_fingerprint": summary["noise_fingerprint"],
        "test/accuracy": summary["test/accuracy"],
        "last_epoch": kept,
    }


def results_json(plan: Plan, experiment: Experiment, results: list[Result]) -> dict[str, Any]:
    """Return everything that is known of an experiment as plain values."""
    return {
        "experiment": experiment.name,
        "title": experiment.title,
        "preset": plan.preset.name,
        "results": [
            {
                "row": result.row,
                "column": result.column,
                "seed": result.seed,
                "value": result.value,
                "run": result.run,
                **result.facts,
            }
            for result in results
        ],
        "paper": [
            {"row": row, "column": column, "mean": number.mean, "std": number.std}
            for (row, column), number in experiment.paper.items()
        ],
        "not_run": [
            {
                "row": cell.row.key,
                "column": cell.column.key,
                "seed": cell.seed,
                "state": cell.state,
                "reason": cell.reason,
            }
            for cell in plan.of(experiment)
            if cell.state != "done"
        ],
    }
