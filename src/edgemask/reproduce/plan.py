"""From an experiment to runs: which there are, which are done, and why some cannot be."""

from __future__ import annotations

import functools
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgemask.engine import Config, Run, config_hash, merge, resolve
from edgemask.engine.rundir import default_name
from edgemask.errors import UserError
from edgemask.reproduce.ledger import Ledger
from edgemask.reproduce.paper import EXPERIMENTS
from edgemask.reproduce.presets import PRESETS, Preset, UnavailableError, seeded
from edgemask.reproduce.spec import AtRetentionOf, Column, Experiment, Row

__all__ = ["Cell", "Plan", "State", "make_plan", "parse_seeds", "pick"]

State = str
"""``done``, ``running``, ``failed``, ``partly`` (begun and stopped), ``to do``, ``waits``,
``skipped`` or ``cited``."""


@dataclass(frozen=True)
class Cell:
    """One run of one place of a table."""

    experiment: Experiment
    row: Row
    column: Column
    seed: int
    config: Config | None
    """None where there is nothing to run."""
    state: State
    reason: str = ""

    @property
    def name(self) -> str | None:
        """The folder of the run, below the root."""
        return None if self.config is None else default_name(self.config)


@dataclass(frozen=True)
class Plan:
    """All cells of some experiments under one preset."""

    preset: Preset
    root: Path
    cells: tuple[Cell, ...]

    def runs(self, *states: State) -> dict[str, Config]:
        """Return the runs in these states by name, each once, first seeds first."""
        found: dict[str, Config] = {}
        for cell in sorted(self.cells, key=lambda cell: cell.seed):
            if cell.config is not None and cell.name is not None and cell.state in states:
                found.setdefault(cell.name, cell.config)
        return found

    def of(self, experiment: Experiment) -> list[Cell]:
        """Return the cells of one experiment."""
        return [cell for cell in self.cells if cell.experiment.name == experiment.name]


def make_plan(
    experiments: Iterable[Experiment],
    *,
    preset: str,
    seeds: Sequence[int],
    root: str | Path,
    data_root: str | Path | None = None,
    only: Collection[str] = (),
    columns: Collection[str] = (),
) -> Plan:
    """Work out the runs of some experiments and how each stands.

    Args:
        experiments: What is to be reproduced.
        preset: The scale.
        seeds: Seeds, the same for all rows: runs are paired.
        root: The folder of the runs.
        data_root: Where the datasets are.
        only: Keys of rows; empty means all.
        columns: Keys of columns; empty means all.
    """
    scale = PRESETS[preset]
    folder = Path(root)
    where = None if data_root is None else str(data_root)
    records = _wanted_records(preset, seeds)
    cells = []
    for experiment in experiments:
        if experiment.measure is not None:
            continue
        for row, column in experiment.cells():
            if (only and row.key not in only) or (columns and column.key not in columns):
                continue
            cells += [
                _cell(experiment, row, column, seed, scale, folder, where, records)
                for seed in seeds
            ]
    return Plan(scale, folder, tuple(cells))


def _cell(
    experiment: Experiment,
    row: Row,
    column: Column,
    seed: int,
    preset: Preset,
    root: Path,
    data_root: str | None,
    records: Mapping[str, set[str]],
) -> Cell:
    def cell(state: State, reason: str = "", config: Config | None = None) -> Cell:
        return Cell(experiment, row, column, seed, config, state, reason)

    if row.system is None:
        return cell("cited", "quoted by the paper; not built here")
    try:
        settings = seeded(preset.settings(row.system, column), seed)
        settings = _matched(settings, experiment, column, seed, preset, root)
        _check_method(settings)
    except UnavailableError as error:
        return cell("skipped", str(error))
    except _WaitingError as waiting:
        return cell("waits", str(waiting))
    settings = merge(settings, {"data": {"root": data_root}})
    config = resolve(settings)
    wanted = sorted(records.get(config_hash(config), ()))
    if wanted:
        config = resolve(merge(settings, {"log": {"record": wanted}}))
    state, reason = Ledger(root).state(default_name(config))
    if state != "done":
        missing = _missing(config.data.spec, config.noise.spec, config.noise.protocol, data_root)
        if missing:
            return cell("skipped", missing, config)
    return cell(state, reason, config)


class _WaitingError(Exception):
    """A run that needs another one's result first."""


def _matched(
    settings: Mapping[str, Any],
    experiment: Experiment,
    column: Column,
    seed: int,
    preset: Preset,
    root: Path,
) -> dict[str, Any]:
    """Replace drop rates that depend on another run by that run's."""
    options = dict(settings.get("head", {}).get("options", {}))
    for name, value in options.items():
        if not isinstance(value, AtRetentionOf):
            continue
        other = experiment.row(value.row)
        assert other.system is not None
        config = resolve(seeded(preset.settings(other.system, column), seed))
        path = root / default_name(config)
        if Ledger(root).state(path.name)[0] != "done":
            raise _WaitingError(f"needs the run of {value.row}, seed {seed}")
        kept = Run(path).summary["head/retention"]
        options[name] = min(round(1.0 - kept, 3), 0.999)
    return merge(settings, {"head": {"options": options}}) if options else dict(settings)


def _check_method(settings: Mapping[str, Any]) -> None:
    from edgemask.methods import METHODS

    name = settings["method"]["name"]
    if name not in METHODS:
        raise UnavailableError(f"the method {name} is not built yet")


@functools.cache
def _missing(dataset: str, noise: str, protocol: str, root: str | None) -> str:
    """Return why the data or labels of a cell cannot be had, or nothing."""
    from edgemask.data import load
    from edgemask.noise import make

    try:
        bundle = _load(dataset, root) if dataset.startswith("cifar") else load(dataset, root=root)
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


def _wanted_records(preset: str, seeds: Sequence[int]) -> dict[str, set[str]]:
    """Return what the figures need of each run, so that a table's run serves them as well."""
    wanted: dict[str, set[str]] = {}
    for experiment in EXPERIMENTS.values():
        if not experiment.records:
            continue
        for config in _figure_configs(experiment, PRESETS[preset], seeds):
            wanted.setdefault(config_hash(config), set()).update(experiment.records)
    return wanted


def _figure_configs(
    experiment: Experiment, preset: Preset, seeds: Sequence[int]
) -> Iterator[Config]:
    for row, column in experiment.cells():
        if row.system is None:
            continue
        try:
            settings = preset.settings(row.system, column)
        except UnavailableError:
            continue
        for seed in [seed for seed in seeds if seed < experiment.seeds]:
            yield resolve(seeded(settings, seed))


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
