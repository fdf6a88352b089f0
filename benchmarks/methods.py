"""What an epoch of each method costs, against plain cross entropy, and what selection adds.

    python benchmarks/methods.py [--samples N] [--rounds R] [--width W] [--threads T]

Each method is trained for an epoch of warm-up and one of the method itself, on a part of CIFAR-10
(EDGEMASK_DATA names its folder) or on random images of the same shape, with the 8-layer CNN. Timed
is the second epoch: scoring, selection, loading and steps, without the test. Methods take turns;
the ratio is the median over rounds. On the CPU it is a ratio of processor time, which other work on
the machine does not distort as much. Beside it stands the ratio by passes: the images that went
through a network in that epoch, counted once for a forward pass and three times with its backward.
Where a method learns from several batches at once (sop, dividemix, unicon), a CPU needs more time
for each image than with one batch, and the measured ratio lies above that by passes.

The second table is the selection by itself, without any pass through a network, at the size of all
of CIFAR-10, against an epoch of plain cross entropy.
"""

from __future__ import annotations

import argparse
import inspect
import math
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch

from _images import CLASSES, cifar_or_random, epoch_options
from _measure import announce, clock, table, verdict
from edgemask.engine import Objects, Observer, resolve, train
from edgemask.methods import METHODS
from edgemask.methods.parts.losses import js_divergence
from edgemask.methods.parts.neighbours import nearest_neighbours
from edgemask.methods.parts.selection import (
    low_loss_posterior,
    min_max,
    uniform_selection,
)
from edgemask.models.convnets import CNN8

CIFAR, BATCH, QUEUE, FEATURES = 50_000, 128, 32_000, 256


class Passes:
    """Counts the images that go through a network: one for a forward pass, three with backward."""

    count = 0


def count_passes() -> None:
    encode = CNN8.encode

    def counted(self: CNN8, x: torch.Tensor) -> torch.Tensor:
        Passes.count += len(x) * (3 if torch.is_grad_enabled() else 1)
        return encode(self, x)

    CNN8.encode = counted  # type: ignore[method-assign]


class Stopwatch(Observer):
    """Takes time and passes from the end of one epoch to the last step of the next."""

    def __init__(self) -> None:
        self.start = self.now = (clock(), Passes.count)

    def on_step(self, **_: object) -> None:
        self.now = (clock(), Passes.count)

    def on_epoch(self, metrics: object) -> None:
        self.seconds, self.passes = (
            now - was for now, was in zip(self.now, self.start, strict=True)
        )
        self.start = (clock(), Passes.count)


def epoch_of(
    method: str, options: argparse.Namespace, spec: str, objects: Objects
) -> tuple[float, int]:
    """Train for two epochs; return the seconds and the passes of the second one."""
    config = resolve(
        {
            "data": {"spec": spec, "limit": options.samples, "test_limit": 10},
            "noise": {"spec": "sym:0.4"},
            "model": {"name": "cnn8", "width": options.width},
            "method": {"name": method, "options": warm_up(method)},
            "train": {"epochs": 2, "batch_size": BATCH, "record_every": 0},
            "log": {"trackers": [], "thumbnails": 0},
        }
    )
    watch = Stopwatch()
    with tempfile.TemporaryDirectory() as folder:
        train(config, out=Path(folder) / "run", objects=objects, observers=[watch])
    return watch.seconds, watch.passes


def warm_up(method: str) -> dict[str, int]:
    return {"warmup": 1} if "warmup" in inspect.signature(METHODS[method]).parameters else {}


def compare(options: argparse.Namespace, spec: str, objects: Objects) -> float:
    """Print the table of methods; return the seconds of plain cross entropy for each image."""
    # CLIPCleaner wants features from elsewhere.
    names = [name for name in METHODS if not METHODS[name].files]
    rounds = [
        {name: epoch_of(name, options, spec, objects) for name in names}
        for _ in range(options.rounds)
    ]
    rows = []
    for name in names:
        measured = statistics.median(r[name][0] / r["supervised"][0] for r in rounds)
        passes = rounds[-1][name][1] / rounds[-1]["supervised"][1]
        rows.append([name, f"{measured:.2f}", f"{passes:.2f}"])
    table(["an epoch of", "x plain CE", "x by passes"], rows)
    return statistics.median(r["supervised"][0] for r in rounds) / options.samples


def seconds_of(run: Callable[[], object]) -> float:
    run()
    times = []
    for _ in range(5):
        start = clock()
        run()
        times.append(clock() - start)
    return statistics.median(times)


def selection(epoch: float) -> None:
    """Print what selection costs at the size of CIFAR-10, in shares of an epoch of plain CE."""
    labels = torch.randint(CLASSES, (CIFAR,))
    losses = min_max(torch.cat([torch.rand(CIFAR // 2) * 0.4, 0.5 + torch.rand(CIFAR // 2) * 0.4]))
    probabilities = torch.randn(CIFAR, CLASSES).softmax(1)
    onehot = torch.nn.functional.one_hot(labels, CLASSES).float()
    queue = torch.nn.functional.normalize(torch.randn(QUEUE, FEATURES), dim=1)
    query = torch.nn.functional.normalize(torch.randn(BATCH, FEATURES), dim=1)

    def uniform() -> None:
        divergence = js_divergence(probabilities, onehot, base=math.e)
        uniform_selection(divergence, labels, CLASSES, cutoff=float(divergence.mean()))

    steps = math.ceil(CIFAR / BATCH)
    costs = {
        "GMM, both networks (DivideMix)": 2 * seconds_of(lambda: low_loss_posterior(losses)),
        "uniform JS, both networks (UNICON)": 2 * seconds_of(uniform),
        "JS in each batch (Jo-SRC)": steps
        * seconds_of(lambda: js_divergence(probabilities[:BATCH], onehot[:BATCH])),
        "kNN in each batch (Jo-SNC)": steps
        * seconds_of(lambda: nearest_neighbours(query, queue, 10)),
    }
    table(["selection", "% of an epoch"], [[k, f"{100 * v / epoch:.2f}"] for k, v in costs.items()])
    verdict("the dearest selection, % of an epoch", 100 * max(costs.values()) / epoch, 10)


def main() -> None:
    options = epoch_options(__doc__.splitlines()[0], samples=512, rounds=1, width=1.0)
    spec, objects, source = cifar_or_random(options.samples)
    announce(
        f"An epoch of {options.samples} of {source}, cnn8 of width {options.width:g}",
        options.threads,
    )
    count_passes()
    each = compare(options, spec, objects)
    announce("Selection at the size of CIFAR-10, without passes", options.threads)
    selection(each * CIFAR)


if __name__ == "__main__":
    main()
