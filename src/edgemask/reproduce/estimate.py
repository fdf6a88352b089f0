"""How long runs will take: a few steps of each kind, timed on this machine."""

from __future__ import annotations

import dataclasses
import math
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

from edgemask.data import load
from edgemask.engine import Config, Observer, train
from edgemask.engine.record import looks_every
from edgemask.errors import UserError

__all__ = ["estimate", "kind"]

_STEPS = 4
_TESTED = 256


class _Watch(Observer):
    """Takes the time of steps, and of the looks at samples that follow them."""

    def __init__(self) -> None:
        self.steps: list[float] = []
        self.looks: list[float] = []
        self.last = 0.0

    def on_start(self, info: Any) -> None:
        self.last = time.perf_counter()

    def on_step(self, **facts: Any) -> None:
        now = time.perf_counter()
        self.steps.append(now - self.last)
        self.last = now

    def on_epoch(self, metrics: Mapping[str, Any]) -> None:
        now = time.perf_counter()
        self.looks.append(now - self.last)
        self.last = now


def estimate(runs: Mapping[str, Config]) -> dict[str, float | None]:
    """Return the seconds that each run should take, on one core if only one is used.

    Each kind is timed once, on a few batches; what an epoch tests counts as well. None where the
    method cannot be cut that short.
    """
    known: dict[str, float | None] = {}
    result = {}
    for run, config in runs.items():
        name = kind(config)
        if name not in known:
            try:
                known[name] = _seconds(config)
            except UserError:
                known[name] = None
        result[run] = known[name]
    return result


def kind(config: Config) -> str:
    """Return what a run's time depends on, as one text."""
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


def _seconds(config: Config) -> float:
    size = config.train.batch_size
    data = dataclasses.replace(config.data, limit=_STEPS * size, test_limit=_TESTED, validation=0.0)
    loop = dataclasses.replace(
        config.train, epochs=2, record_every=1, select="last", rollback=False
    )
    flat = dataclasses.replace(config.optim.schedule, name="constant", options={})
    options = dict(config.method.options)
    if "warmup" in options:
        options["warmup"] = 1
    small = dataclasses.replace(
        config,
        data=data,
        method=dataclasses.replace(config.method, options=options),
        train=loop,
        optim=dataclasses.replace(config.optim, schedule=flat),
        eval=dataclasses.replace(config.eval, every=1),
    )
    watch = _Watch()
    with tempfile.TemporaryDirectory() as folder:
        train(small, out=Path(folder) / "run", observers=[watch])
    bundle = load(config.data.spec, root=config.data.root, **config.data.options)
    samples = min(config.data.limit or len(bundle.train), len(bundle.train))
    tests = sum(
        min(config.data.test_limit or math.inf, len(split)) for split in bundle.tests.values()
    )
    epochs = config.train.epochs
    steps = epochs * math.ceil(samples / size)
    step = median(watch.steps[1:])
    look = min(watch.looks) / (_TESTED * len(bundle.tests) + _STEPS * size)
    record = looks_every(config.train.record_every, samples) or epochs
    looked = tests * epochs / config.eval.every + samples * epochs / record
    return steps * step + looked * look
