"""What each method keeps of every sample and exchanges between processes, read off tiny runs."""

from __future__ import annotations

import importlib
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from torch import Tensor

from edgemask.audit import TrainingDynamics
from edgemask.data import from_arrays
from edgemask.engine import Objects, resolve, train
from edgemask.methods import METHODS, Task
from edgemask.methods.parts.joint import Joint
from edgemask.methods.parts.memory import RingQueue, SampleTable

SAMPLES, CLASSES, WIDTH, FEATURES, BATCH, EPOCHS = 101, 7, 0.05, 13, 32, 2
"""Small numbers of which none is a multiple of another: a dimension of 7 is the classes, one of 13
the features before the head."""

IMAGES, MANY_CLASSES, MANY_FEATURES = 100_000_000, 1000, 2048
train_module = importlib.import_module("edgemask.engine.train")  # its name is that of a function


@dataclass
class Bytes:
    """``fixed + by_class * C + by_feature * F`` bytes."""

    fixed: float = 0.0
    by_class: float = 0.0
    by_feature: float = 0.0

    def add(self, tensor: Tensor, rows: int, share: float = 1.0) -> None:
        """Add the bytes of a tensor per row."""
        size = share * tensor.numel() * tensor.element_size() / rows
        if CLASSES in tensor.shape[1:]:
            self.by_class += size / CLASSES
        elif FEATURES in tensor.shape[1:]:
            self.by_feature += size / FEATURES
        else:
            self.fixed += size

    def at_scale(self) -> float:
        """Return the bytes with many classes and features."""
        return self.fixed + MANY_CLASSES * self.by_class + MANY_FEATURES * self.by_feature

    def __str__(self) -> str:
        sizes = ((self.fixed, ""), (self.by_class, " C"), (self.by_feature, " F"))
        return " + ".join(f"{round(size)}{name}" for size, name in sizes if round(size)) or "0"


@dataclass
class Found:
    """What one method keeps and exchanges."""

    kept: Bytes = field(default_factory=Bytes)
    """Per sample, in each process."""
    synced: Bytes = field(default_factory=Bytes)
    """Per sample, after every phase: sums over the processes in double precision."""
    scored: Bytes = field(default_factory=Bytes)
    """Per sample and epoch: what evaluations of the whole set gather."""
    stepped: Bytes = field(default_factory=Bytes)
    """Per sample of a batch, in a step, besides gradients."""
    learnt: Bytes = field(default_factory=Bytes)
    """Per training sample, in a step: gradients of what the loss learns of each sample."""
    queue: Bytes = field(default_factory=Bytes)
    """Of a row of its queue, and how many rows."""
    rows: int = 0


def measure(name: str) -> Found:
    """Train a method on a tiny table and read off what it keeps and exchanges."""
    draw = np.random.default_rng(0)
    x = draw.standard_normal((SAMPLES, 5)).astype(np.float32)
    labels = np.arange(SAMPLES) % CLASSES
    found = Found()
    with tempfile.TemporaryDirectory() as folder, _counted(found), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        bundle = from_arrays(x, labels, x_test=x[:10], y_test=labels[:10], clean=True)
        method = METHODS[name](**_options(name, x, Path(folder)))
        config = resolve(
            {
                "data": {"spec": "object:x"},
                "noise": {"spec": "sym:0.4"},
                "model": {"name": "mlp", "width": WIDTH},
                "loss": {"name": method.loss or "ce"},
                "method": {"name": "object:method"},
                "train": {"epochs": EPOCHS, "batch_size": BATCH, "record_every": 0},
                "log": {"trackers": [], "thumbnails": 0, "checkpoint_epochs": 0},
            },
            objects=Objects(bundle=bundle, method=method),
        )
        train(config, out=Path(folder) / "run", objects=Objects(bundle=bundle, method=method))
    for memory in method._memories.values():
        if isinstance(memory, SampleTable):
            _add_table(found, memory.values)
            found.kept.fixed += memory._written.element_size()
        if isinstance(memory, RingQueue):
            found.rows = memory.size
            for rows in memory._rows.values():
                found.queue.add(rows, memory.size)
    criterion = method.task.criterion
    for values in criterion.buffers() if method.uses_criterion else ():
        if values.ndim and len(values) == SAMPLES:
            _add_table(found, values)
    for values in criterion.parameters() if method.uses_criterion else ():
        if values.ndim and len(values) == SAMPLES:
            found.kept.add(values.detach(), SAMPLES)
            found.learnt.add(values.detach(), SAMPLES)
    return found


def _add_table(found: Found, values: Tensor) -> None:
    found.kept.add(values, SAMPLES)
    found.synced.add(values.double(), SAMPLES)
    found.synced.fixed += 8  # how many processes wrote the row


def _options(name: str, x: Any, folder: Path) -> dict[str, Any]:
    method = METHODS[name]
    options: dict[str, Any] = {}
    if "warmup" in method.__init__.__annotations__ or hasattr(method, "warmup"):
        options["warmup"] = 1
    if hasattr(method, "fmix"):
        options["fmix"] = False  # it joins images
    if method.files:
        for key, values in (("features", x), ("text", x[:CLASSES])):
            np.save(folder / f"{key}.npy", values)
            options[key] = str(folder / f"{key}.npy")
    return options


@contextmanager
def _counted(found: Found) -> Iterator[None]:
    """Count what a method gathers in steps and in evaluations of the whole training set."""
    over_samples = train_module.over_samples

    class CountedJoint(Joint):
        def rows(self, values: Tensor) -> Tensor:
            # All steps of both epochs: the mean over their samples.
            found.stepped.add(values, 1, 1 / (EPOCHS * SAMPLES))
            return values

    def task(**parts: Any) -> Task:
        joint = CountedJoint()
        joint.total = joint.rows
        return Task(**parts | {"joint": joint})

    def counted_scores(*args: Any, **options: Any) -> Mapping[str, Tensor]:
        rows: Mapping[str, Tensor] = over_samples(*args, **options)
        for values in rows.values():
            found.scored.add(values, len(values) or 1, 1 / EPOCHS)
        return rows

    with (
        mock.patch.object(train_module, "Task", task),
        mock.patch.object(train_module, "over_samples", counted_scores),
    ):
        yield


def recorded() -> float:
    """Return the bytes that a run itself keeps of each sample: labels and training dynamics."""
    arrays = TrainingDynamics(SAMPLES, CLASSES, probabilities=False)._arrays.values()
    return 8 + sum(array.nbytes for array in arrays) / SAMPLES


def scale_table(table: Callable[..., str]) -> str:
    """Return the table of docs/scale.md."""
    rows = []
    for name in METHODS:
        found = measure(name)
        gigabytes = IMAGES / 1e9
        exchanged = found.synced.at_scale() + found.scored.at_scale()
        queue = f"; a queue of rows of {found.queue}" if found.rows else ""
        rows.append(
            [
                f"`{name}`",
                f"{found.kept}{queue}",
                f"{gigabytes * (found.kept.at_scale() + recorded()):,.0f}",
                str(found.synced),
                str(found.scored),
                f"{gigabytes * exchanged:,.0f}",
                str(found.stepped) + (f"; ({found.learnt}) N" if str(found.learnt) != "0" else ""),
            ]
        )
    header = [
        "method",
        "kept per sample",
        "GB in each process",
        "agreed on per sample and phase",
        "gathered per sample and epoch",
        "GB per epoch",
        "gathered per sample of a step",
    ]
    return table(header, rows)
