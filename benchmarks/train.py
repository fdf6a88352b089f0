"""What a whole epoch costs, with default recording and test, against a loop written by hand.

    python benchmarks/train.py [--samples N] [--rounds R] [--width W] [--seconds S] [--threads T]

The 8-layer CNN learns a part of CIFAR-10 (EDGEMASK_DATA names its folder) or random images of the
same shape, with a fifth as many test images, as in CIFAR-10. EdgeMask trains with its defaults
(evaluation passes over the training set, tests, checkpoints, trackers) with the linear and the SEM
head; ``_loops.py`` makes the same steps and tests in plain torch, and nothing else. All take turns.
Timed are as many epochs as lie between two evaluation passes, so that exactly one is among
them: the ratios, of processor time and of time passed, are medians over rounds.

Fixed costs of an epoch (the checkpoint above all) do not grow with the images, so their share is
larger here than with all of CIFAR-10. Peak memory is that of tensors beyond the images.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch import Tensor

from _images import cifar_images
from _loops import HandWritten
from _measure import announce, arguments, peak_memory, table, verdict
from edgemask.data import DataBundle, from_arrays
from edgemask.engine import Objects, Observer, resolve, train
from edgemask.engine.record import record_interval

LIMIT, MEMORY_LIMIT = 1.15, 1.05
BY_HAND, HEADS = "by hand", ("linear", "sem")
WIDTHS = {0.25: 1.0, 1.0: 0.5}  # of the network, and the share of ``--samples`` that it learns
Times = tuple[float, float]


def now() -> Times:
    """Return seconds of the processor and seconds passed."""
    return time.process_time(), time.perf_counter()


def since(start: Times) -> Times:
    return now()[0] - start[0], now()[1] - start[1]


class Stopwatch(Observer):
    """Takes the time from the end of the first epoch over some more."""

    def __init__(self, epochs: int):
        self.epochs = epochs

    def on_epoch(self, metrics: Any) -> None:
        if metrics["epoch"] == 0:
            self.start = now()
        if metrics["epoch"] == self.epochs:
            self.times = since(self.start)


def bundle_of(data: tuple[Tensor, ...]) -> DataBundle:
    images, labels, test_images, test_labels = data
    return from_arrays(
        images, labels, x_test=test_images, y_test=test_labels, clean=True, recipe="cifar10"
    )


def with_edgemask(head: str, bundle: DataBundle, width: float, epochs: int) -> Times:
    """Train with the defaults; return the times of all epochs but the first and the last.

    The last epoch always has an evaluation pass, the first one starts things.
    """
    config = resolve(
        {
            "data": {"spec": "object:images"},
            "noise": {"spec": "sym:0.4"},
            "model": {"name": "cnn8", "width": width},
            "head": {"name": head},
            "train": {"epochs": epochs + 2, "record_every": epochs},
        }
    )
    watch = Stopwatch(epochs)
    with tempfile.TemporaryDirectory() as folder:
        objects = Objects(bundle=bundle)
        train(config, out=Path(folder) / "run", objects=objects, observers=[watch])
    return watch.times


def by_hand(data: tuple[Tensor, ...], width: float, epochs: int) -> Times:
    loop = HandWritten(*data, width)
    loop.epoch()
    start = now()
    for _ in range(epochs):
        loop.epoch()
    return since(start)


def compare(samples: int, width: float, epochs: int, rounds: int) -> None:
    """Print the ratios at one width."""
    data, source = cifar_images(samples)
    bundle = bundle_of(data)
    print(f"  {samples} images of {source}, {samples // 5} for the test")
    contestants: dict[str, Callable[[], Times]] = {
        BY_HAND: lambda: by_hand(data, width, epochs),
        **{head: lambda head=head: with_edgemask(head, bundle, width, epochs) for head in HEADS},
    }
    times = []
    for number in range(rounds):
        print(f"  width {width:g}: round {number + 1} of {rounds}", file=sys.stderr)
        times.append({name: run() for name, run in contestants.items()})
    ratios = {
        head: [
            statistics.median(each[head][kind] / each[BY_HAND][kind] for each in times)
            for kind in range(2)
        ]
        for head in HEADS
    }
    rows = [[head, f"{cpu:.3f}", f"{passed:.3f}"] for head, (cpu, passed) in ratios.items()]
    table([f"head, width {width:g}", "processor", "passed"], rows)
    for head, (cpu, _) in ratios.items():
        verdict(f"{head} at width {width:g}, epoch / by hand", cpu, LIMIT)


def memory(samples: int, width: float) -> float:
    """Return the peak memory of tensors with the linear head over that by hand."""
    data, _ = cifar_images(samples)
    bundle = bundle_of(data)
    by_edgemask = peak_memory(lambda: with_edgemask("linear", bundle, width, 1))
    return by_edgemask / peak_memory(lambda: by_hand(data, width, 1))


def main() -> None:
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=1280, help="at quarter width; half at full")
    parser.add_argument("--rounds", type=int, default=3, help="times that all take turns")
    parser.add_argument("--width", type=float, choices=WIDTHS, help="default: both")
    options = parser.parse_args()
    epochs = record_interval(resolve({}), options.samples)
    announce(
        f"Means of {epochs} epochs of the 8-layer CNN with recording and test", options.threads
    )
    for width in [options.width] if options.width else WIDTHS:
        compare(round(options.samples * WIDTHS[width]), width, epochs, options.rounds)
    ratio = memory(options.samples // 4, 0.25)
    verdict("linear at width 0.25, peak memory / by hand", ratio, MEMORY_LIMIT)


if __name__ == "__main__":
    main()
