"""How long runs will take, from a few steps of each kind, timed on this machine."""

from __future__ import annotations

import math
import tempfile
import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

from edgemask.engine.config import Config, to_dict
from edgemask.engine.observer import Observer
from edgemask.engine.record import record_interval
from edgemask.engine.resolve import resolve
from edgemask.engine.run_data import Objects, build_run_data
from edgemask.engine.train import train
from edgemask.errors import TrainingWarning, UserError

__all__ = ["estimate"]

_STEPS = 4
_TESTED = 256


class _StepTimer(Observer):
    """Times steps, and the evaluation after each epoch."""

    def __init__(self) -> None:
        self.steps: list[float] = []
        self.evaluations: list[float] = []
        self.last = 0.0

    def on_start(self, info: Any) -> None:
        self.last = time.perf_counter()

    def on_step(self, **facts: Any) -> None:
        now = time.perf_counter()
        self.steps.append(now - self.last)
        self.last = now

    def on_epoch(self, metrics: Mapping[str, Any]) -> None:
        now = time.perf_counter()
        self.evaluations.append(now - self.last)
        self.last = now


def estimate(runs: Mapping[str, Config], objects: Objects | None = None) -> dict[str, float | None]:
    """Return the seconds that each run should take on one core.

    Each kind of run is timed once, on a few batches and test images. None where the method cannot
    be cut that short.

    Args:
        runs: The configs by name.
        objects: Data, model or loss given as objects.
    """
    known: dict[str, float | None] = {}
    seconds = {}
    for run, config in runs.items():
        kind = _kind(config)
        if kind not in known:
            try:
                known[kind] = _seconds(config, objects or Objects())
            except UserError:
                known[kind] = None
        seconds[run] = known[kind]
    return seconds


def _kind(config: Config) -> str:
    """Return the settings on which a run's time depends, as one text."""
    parts = (
        config.data.spec,
        config.data.limit,
        config.model.name,
        config.model.width,
        config.head.name,
        config.method.name,
        config.loss.name,
        config.train.batch_size,
        config.train.epochs,
        config.log.record,
    )
    return " ".join(map(str, parts))


def _seconds(config: Config, objects: Objects) -> float:
    settings = to_dict(config)
    size = config.train.batch_size
    if "warmup" in config.method.options:
        settings["method"]["options"]["warmup"] = 1
    settings["optim"]["schedule"].update(name="constant", options={})
    small = resolve(
        settings,
        {
            "data": {"limit": _STEPS * size, "test_limit": _TESTED, "validation": 0.0},
            "train": {"epochs": 2, "record_every": 1, "select": "last", "rollback": False},
            "eval": {"every": 1},
        },
        objects=objects,
    )
    timer = _StepTimer()
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", TrainingWarning)  # a few steps learn nothing
        train(small, out=Path(folder) / "run", observers=[timer], objects=objects)
    data = build_run_data(config, objects)
    samples = len(data.train)
    tests = sum(len(split) for split in data.tests.values())
    epochs = config.train.epochs
    steps = epochs * math.ceil(samples / size)
    step = median(timer.steps[1:])
    evaluation = min(timer.evaluations) / (_TESTED * len(data.tests) + _STEPS * size)
    interval = record_interval(config, samples) or epochs
    evaluated = tests * epochs / config.eval.every + samples * epochs / interval
    return steps * step + evaluated * evaluation
