"""The numbers of finished runs, each with its config, commit, noise and versions."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from edgemask._files import write_json
from edgemask.diagnostics import selection_quality
from edgemask.engine import Run, evaluate
from edgemask.engine.job import job_record
from edgemask.engine.metrics import chosen_epoch
from edgemask.errors import UserError
from edgemask.reproduce.experiments import Experiment
from edgemask.reproduce.plan import ExperimentPlan
from edgemask.runs.samples import read_samples

__all__ = ["CellResult", "collect", "recorded_results", "results_json"]


@dataclass(frozen=True)
class CellResult:
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
    the epoch that validation samples chose where the value is that epoch's; with them, how good
    the labels are that it selects at its end."""

    @property
    def place(self) -> tuple[str, str, int]:
        """Row, column and seed."""
        return self.row, self.column, self.seed


def collect(plan: ExperimentPlan, experiment: Experiment) -> list[CellResult]:
    """Read the results of an experiment's finished runs."""
    results = []
    for cell, run in plan.finished(experiment):
        row, column = cell.row, cell.column
        statistic, metric = row.statistic or column.statistic, row.metric or column.metric
        if row.inference is not None:
            value = _evaluated_with(run, row.inference).get(metric)
        else:
            value = run.summary.get(metric, {}).get(statistic)
        if value is not None:
            name, facts = run.path.name, _facts(run, statistic)
            results.append(CellResult(row.key, column.key, cell.seed, float(value), name, facts))
    return results


def recorded_results(plan: ExperimentPlan, experiment: Experiment, path: Path) -> list[CellResult]:
    """Read the results that a file of :func:`results_json` holds of runs that are not here.

    They were made on another machine, their folders were removed, or the plan leaves their cells
    out. A result of a cell of the plan counts as long as it would be trained with the same config.

    Args:
        plan: The cells as they are now.
        experiment: Whose results are read.
        path: The file; there may be none.
    """
    if not path.is_file():
        return []
    cells = {cell.place: cell for cell in plan.of(experiment)}
    fields = ("row", "column", "seed", "run", "value")
    results = []
    try:
        for record in json.loads(path.read_text(encoding="utf-8"))["results"]:
            facts = {key: value for key, value in record.items() if key not in fields}
            result = CellResult(**{key: record[key] for key in fields}, facts=facts)
            cell = cells.get(result.place)
            if cell is None or (cell.state != "done" and cell.name == result.run):
                results.append(result)
    except (ValueError, LookupError, TypeError) as error:
        raise UserError(
            f"{path} does not hold the results of an experiment; move it away, and the tables are "
            "made from the runs alone"
        ) from error
    return results


def _evaluated_with(run: Run, inference: str) -> dict[str, Any]:
    """Test a run with another inference, once; the numbers are kept in its folder."""
    path = run.path / f".evaluated-{inference}.json"
    summary = run.path / "summary.json"
    if path.is_file() and path.stat().st_mtime_ns >= summary.stat().st_mtime_ns:
        known: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return known
    limit = run.config.data.test_limit
    values = evaluate(run, inference=inference, test_limit=limit, top5=run.config.eval.top5)
    numbers = {key: value for key, value in values.items() if isinstance(value, float)}
    write_json(path, numbers)
    return numbers


def _facts(run: Run, statistic: str) -> dict[str, Any]:
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
    kept |= _selection(run)
    copied = ("epochs", "seconds", "versions", "noise", "noise_fingerprint", "test/accuracy")
    record = job_record(run.path)
    return {
        "config_hash": summary["config_hash"],
        "commit": record.get("commit"),
        "cpu_seconds_per_epoch": record.get("cpu_seconds_per_epoch"),
        **{key: summary[key] for key in copied},
        "last_epoch": kept,
    }


def _selection(run: Run) -> dict[str, float | None]:
    """Return how good the labels are that a run selects, where true ones are known."""
    samples = read_samples(run.path)
    if "clean" not in samples:
        return {}
    selected = samples.get("kept", samples["trust"] >= 0.5)
    return selection_quality(selected, samples["given"], samples["clean"])


def results_json(
    plan: ExperimentPlan, experiment: Experiment, results: Sequence[CellResult]
) -> dict[str, Any]:
    """Return everything that is known of an experiment as plain values."""
    known = {result.place for result in results}
    cells = []
    for result in results:
        fields = asdict(result)
        cells.append(fields | fields.pop("facts"))
    return {
        "experiment": experiment.name,
        "title": experiment.title,
        "preset": plan.preset.name,
        "results": cells,
        "paper": paper_json(experiment),
        "not_run": [
            {
                "row": cell.row.key,
                "column": cell.column.key,
                "seed": cell.seed,
                "state": cell.state,
                "reason": cell.reason,
            }
            for cell in plan.of(experiment)
            if cell.state != "done" and cell.place not in known
        ],
    }


def paper_json(experiment: Experiment) -> list[dict[str, Any]]:
    """Return the paper's numbers as plain values."""
    return [
        {"row": row, "column": column, "mean": number.mean, "std": number.std}
        for (row, column), number in experiment.paper.items()
    ]
