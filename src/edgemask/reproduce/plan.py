"""From experiments to runs: which there are, which are done, and why some cannot be."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgemask.engine import Config, Run, config_hash, merge, resolve
from edgemask.engine.job import JobResult, RunJob, job_state
from edgemask.engine.jobs import JobRunner
from edgemask.engine.rundir import default_name
from edgemask.errors import UserError
from edgemask.reproduce.experiments import EXPERIMENTS, Experiment, ExperimentColumn, ExperimentRow
from edgemask.reproduce.presets import PRESETS, ExperimentPreset, UnavailableError, with_seed

__all__ = [
    "OPEN_STATES",
    "ExperimentCell",
    "ExperimentPlan",
    "make_plan",
    "parse_seeds",
    "pick",
    "run_plan",
]

OPEN_STATES = ("to do", "partly", "failed")
"""States of runs that are left to do."""


@dataclass(frozen=True)
class ExperimentCell:
    """One cell of a table at one seed: a run and its state."""

    experiment: Experiment
    row: ExperimentRow
    column: ExperimentColumn
    seed: int
    state: str
    """``done``, ``running``, ``failed``, ``partly`` (started and stopped), ``to do``, ``waits``
    (for the run of another cell), ``skipped`` or ``cited``."""
    reason: str = ""
    config: Config | None = None
    """None where there is nothing to run."""

    @property
    def place(self) -> tuple[str, str, int]:
        """Row, column and seed."""
        return self.row.key, self.column.key, self.seed

    @property
    def name(self) -> str | None:
        """The folder of the run, below the root."""
        return None if self.config is None else default_name(self.config)


@dataclass(frozen=True)
class ExperimentPlan:
    """All cells of some experiments under one preset."""

    preset: ExperimentPreset
    root: Path
    cells: tuple[ExperimentCell, ...]

    def runs(self, *states: str) -> dict[str, Config]:
        """Return the runs in these states by name, each once, first seeds first."""
        runs: dict[str, Config] = {}
        for cell in sorted(self.cells, key=lambda cell: cell.seed):
            if cell.config is not None and cell.name is not None and cell.state in states:
                runs.setdefault(cell.name, cell.config)
        return runs

    def of(self, experiment: Experiment) -> list[ExperimentCell]:
        """Return the cells of one experiment."""
        return [cell for cell in self.cells if cell.experiment.name == experiment.name]

    def finished(self, experiment: Experiment) -> list[tuple[ExperimentCell, Run]]:
        """Return the cells of one experiment whose runs are done, with their runs."""
        return [
            (cell, Run(self.root / cell.name))
            for cell in self.of(experiment)
            if cell.state == "done" and cell.name is not None
        ]


def make_plan(
    experiments: Iterable[Experiment],
    *,
    preset: str,
    seeds: Sequence[int],
    root: str | Path,
    data_root: str | Path | None = None,
    only: Collection[str] = (),
    columns: Collection[str] = (),
) -> ExperimentPlan:
    """Work out the runs of some experiments and their states.

    Args:
        experiments: What is to be reproduced.
        preset: The name of a preset.
        seeds: Seeds, the same for all rows: runs are paired.
        root: The folder of the runs.
        data_root: Where the datasets are.
        only: Keys of rows; empty means all.
        columns: Keys of columns; empty means all.
    """
    planner = _Planner(PRESETS[preset], Path(root), data_root, _recorded_metrics(preset, seeds))
    cells = [
        planner.cell(experiment, row, column, seed)
        for experiment in experiments
        if experiment.measure is None
        for row, column in experiment.cells()
        if (not only or row.key in only) and (not columns or column.key in columns)
        for seed in seeds
    ]
    return ExperimentPlan(planner.preset, planner.root, tuple(cells))


class _WaitingError(Exception):
    """A run that needs another one's result first."""


@dataclass(frozen=True)
class _Planner:
    """Makes the cells of a plan."""

    preset: ExperimentPreset
    root: Path
    data_root: str | Path | None
    records: Mapping[str, set[str]]
    """Config hash -> what figures need recorded in that run."""

    def cell(
        self, experiment: Experiment, row: ExperimentRow, column: ExperimentColumn, seed: int
    ) -> ExperimentCell:
        place = (experiment, row, column, seed)
        if row.system is None:
            reason = row.source or "not built here"
            return ExperimentCell(*place, "cited", f"quoted by the paper; {reason}")
        try:
            settings = with_seed(self.preset.cell_settings(row.system, column), seed)
            _check_method(settings)
            settings = self._with_matched_rates(settings, *place)
        except UnavailableError as error:
            return ExperimentCell(*place, "skipped", str(error))
        except _WaitingError as error:
            return ExperimentCell(*place, "waits", str(error))
        where = None if self.data_root is None else str(self.data_root)
        settings = merge(settings, {"data": {"root": where}})
        config = resolve(settings)
        records = sorted(self.records.get(config_hash(config), ()))
        if records:
            config = resolve(merge(settings, {"log": {"record": records}}))
        state, reason = job_state(self.root / default_name(config))
        if state != "done":
            missing = _missing_data(
                config.data.spec, config.noise.spec, config.noise.protocol, where
            )
            if missing:
                state, reason = "skipped", missing
        return ExperimentCell(*place, state, reason, config)

    def _with_matched_rates(
        self,
        settings: dict[str, Any],
        experiment: Experiment,
        row: ExperimentRow,
        column: ExperimentColumn,
        seed: int,
    ) -> dict[str, Any]:
        """Replace drop rates that follow another row's run by the rate of that run."""
        rates = {}
        for name, value in settings["head"].get("options", {}).items():
            if not isinstance(value, Mapping):
                continue
            other = experiment.row(value["retention_of"])
            assert other.system is not None
            config = resolve(with_seed(self.preset.cell_settings(other.system, column), seed))
            path = self.root / default_name(config)
            if job_state(path)[0] != "done":
                raise _WaitingError(f"needs the run of {other.key}, seed {seed}")
            rates[name] = min(round(1.0 - Run(path).summary["head/retention"], 3), 0.999)
        head = settings["head"]
        if rates:
            head = {**head, "options": {**head["options"], **rates}}
        return {**settings, "head": head}


def _check_method(settings: Mapping[str, Any]) -> None:
    from edgemask.methods import METHODS

    name = settings["method"]["name"]
    if name not in METHODS:
        raise UnavailableError(f"the method {name} is not built yet")


@functools.cache
def _missing_data(dataset: str, noise: str, protocol: str, root: str | None) -> str:
    """Return why the data or labels of a cell are not available, or an empty text."""
    from edgemask.noise import make

    try:
        bundle = _load(dataset, root)
        if noise.startswith("human") or (noise.startswith("idn") and protocol == "jal"):
            make(
                noise,
                bundle.train.labels,
                bundle.num_classes,
                dataset=bundle.name,
                protocol=protocol,
                root=root or os.environ.get("EDGEMASK_DATA"),
            )
    except UserError as error:
        return str(error)
    return ""


@functools.lru_cache(maxsize=2)
def _load(dataset: str, root: str | None) -> Any:
    from edgemask.data import load

    return load(dataset, root=root)


def _recorded_metrics(preset: str, seeds: Sequence[int]) -> dict[str, set[str]]:
    """Return what figures need of each run, so that the run of a table serves them as well."""
    records: dict[str, set[str]] = {}
    for experiment in EXPERIMENTS.values():
        for row, column in experiment.cells() if experiment.records else ():
            if row.system is None:
                continue
            try:
                settings = PRESETS[preset].cell_settings(row.system, column)
            except UnavailableError:
                continue
            for seed in seeds:
                if seed < experiment.seeds:
                    run = config_hash(resolve(with_seed(settings, seed)))
                    records.setdefault(run, set()).update(experiment.records)
    return records


def run_plan(
    make: Callable[[], ExperimentPlan],
    runner: JobRunner,
    progress: Callable[[JobResult], None] | None = None,
) -> tuple[ExperimentPlan, list[JobResult]]:
    """Do all runs that a plan leaves to do, then those that waited for them.

    Args:
        make: Makes the plan anew; runs that waited for others become ready.
        runner: Where runs are done.
        progress: Called with the result of each run.

    Returns:
        The plan after all runs, and their results.
    """
    results: list[JobResult] = []
    tried: set[str] = set()
    while True:
        plan = make()
        runs = plan.runs(*OPEN_STATES, "running")
        jobs = [RunJob(runs[name], plan.root / name) for name in runs if name not in tried]
        if not jobs:
            return plan, results
        tried.update(runs)
        results += runner.run(jobs, progress)


def parse_seeds(text: str) -> list[int]:
    """Read a count of seeds, or a list of them.

    Example:
        >>> parse_seeds("3"), parse_seeds("0,4"), parse_seeds("2-4")
        ([0, 1, 2], [0, 4], [2, 3, 4])
    """
    try:
        if "," in text:
            return [int(part) for part in text.split(",") if part.strip()]
        if "-" in text:
            first, last = text.split("-")
            return list(range(int(first), int(last) + 1))
        count = int(text)
    except ValueError:
        count = 0
    if count < 1:
        raise UserError(f"--seeds takes a count (3), a range (0-4) or a list (0,4), got {text!r}")
    return list(range(count))


def pick(names: Sequence[str]) -> list[Experiment]:
    """Return experiments by name; ``all`` means every one."""
    if list(names) == ["all"]:
        return list(EXPERIMENTS.values())
    return [EXPERIMENTS[name] for name in names]
