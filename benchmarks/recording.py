"""What recording costs: evaluation passes over the training set, and each probe of ``--record``.

    python benchmarks/recording.py [--samples N] [--rounds R] [--width W] [--threads T]

A few epochs of CE with the SEM head on a part of CIFAR-10 (EDGEMASK_DATA names its folder) or on
random images, with the 8-layer CNN, with different recordings in turn. An
evaluation pass gives the loss and confidence of each sample and the share of wrong labels that were
memorised; the share of edges kept is recorded by the step itself. Printed is what each recording
adds to the time of an epoch, in percent: the median over rounds. Probes measure eight steps per
epoch, however many it has, so that their share falls with ``--samples``.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from _images import cifar_or_random, epoch_options
from _measure import announce, clock, table, verdict
from edgemask.engine import Objects, Observer, resolve, train
from edgemask.engine.record import record_interval

EPOCHS = record_interval(resolve({}), 50_000)
NOTHING = "nothing"
DEFAULT = f"evaluation pass, every {EPOCHS} epochs (the default)"
WAYS: dict[str, dict[str, Any]] = {
    NOTHING: {"train": {"record_every": 0}},
    DEFAULT: {"train": {"record_every": EPOCHS}},
    "evaluation pass, every epoch": {"train": {"record_every": 1}},
    **{
        f"--record {name}": {"train": {"record_every": 0}, "log": {"record": [name]}}
        for name in ("gradient_error", "bounds", "criteria", "overlap")
    },
}


class Stopwatch(Observer):
    """Takes the time of all epochs but the last one, which always has an evaluation pass."""

    def on_start(self, info: Any) -> None:
        self.start = clock()

    def on_epoch(self, metrics: Any) -> None:
        if metrics["epoch"] == EPOCHS - 1:
            self.seconds = clock() - self.start


def seconds_of(
    way: dict[str, Any], options: argparse.Namespace, spec: str, objects: Objects
) -> float:
    config = resolve(
        {
            "data": {"spec": spec, "limit": options.samples, "test_limit": 10},
            "noise": {"spec": "sym:0.4"},
            "model": {"name": "cnn8", "width": options.width},
            "head": {"name": "sem"},
            "train": {"epochs": EPOCHS + 1},
            "eval": {"every": EPOCHS + 1},
            "log": {"trackers": [], "thumbnails": 0},
        },
        way,
    )
    watch = Stopwatch()
    with tempfile.TemporaryDirectory() as folder:
        train(config, out=Path(folder) / "run", objects=objects, observers=[watch])
    return watch.seconds


def main() -> None:
    options = epoch_options(__doc__.splitlines()[0], samples=2048, rounds=3, width=0.25)
    spec, objects, source = cifar_or_random(options.samples)
    announce(
        f"Watching an epoch of {options.samples} of {source}, cnn8 of width {options.width:g}",
        options.threads,
    )
    seconds_of({}, options, spec, objects)
    rounds = []
    for number in range(options.rounds):
        print(f"  round {number + 1} of {options.rounds}", file=sys.stderr)
        rounds.append({name: seconds_of(way, options, spec, objects) for name, way in WAYS.items()})
    added = {
        name: statistics.median(100 * (r[name] / r[NOTHING] - 1) for r in rounds)
        for name in WAYS
        if name != NOTHING
    }
    table(["watched", "% of an epoch"], [[name, f"{cost:.1f}"] for name, cost in added.items()])
    verdict("confidence and retention, % of an epoch", added[DEFAULT], 10)


if __name__ == "__main__":
    main()
