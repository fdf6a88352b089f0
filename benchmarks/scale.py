"""How time and memory grow with samples, classes, features and networks.

    python benchmarks/scale.py [--out FILE] [--only PART ...] [--methods NAME ...] [--small]
                               [--threads T]

Each case runs in a process of its own that is forked from this one: seconds of the processor, and
the growth of resident memory at its peak. An exponent is the slope of a straight line through the
logarithms: 1 means in proportion. Those in the samples are fitted beyond 50,000 of them. Methods
train for two epochs, one of them warm-up where they have one, on a table of random numbers with a
small ``mlp``, so that what they do besides passes through networks weighs as much as it can.

Parts: ``methods``, ``samples``, ``classes``, ``features``, ``networks``, ``neighbours``,
``folder``. ``--small`` takes sizes that run in a minute or two and show nothing but that it works.
``--out`` stores the numbers as JSON, beside those that the file has of other parts and methods;
``results/scale.json`` is such a file.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

from _measure import announce, arguments, table, verdict
from edgemask.audit.features import neighbour_probabilities
from edgemask.data import from_arrays, load
from edgemask.engine import Objects, resolve, train
from edgemask.heads import HEADS
from edgemask.methods import METHODS
from edgemask.methods.parts.neighbours import nearest_samples
from methods import warm_up

LIMIT, BEYOND, MINUTE = 1.1, 50_000, 60.0
FEATURES, CLASSES, BATCH = 16, 10, 256
LARGE = (50_000, 100_000, 200_000)
LINKS = 20_000  # hard links of one file; file systems allow some ten thousand
Case = tuple[float, float]


def resident(key: str) -> float:
    """Return ``VmRSS`` or ``VmHWM`` of this process in megabytes."""
    lines = Path("/proc/self/status").read_text("utf-8").splitlines()
    return int(next(line for line in lines if line.startswith(key)).split()[1]) / 1024


def measured(run: Callable[[], object]) -> Case:
    """Return seconds of the processor and megabytes at the peak, in a forked process."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)

    def work() -> None:
        before, start = resident("VmRSS"), time.process_time()
        run()
        sender.send((time.process_time() - start, resident("VmHWM") - before))

    process = context.Process(target=work)
    process.start()
    sender.close()
    try:
        result: Case = receiver.recv()
    except EOFError:
        raise SystemExit("a case ended without a result; see above") from None
    process.join()
    return result


def exponent(sizes: Sequence[int], values: Sequence[float], least: int = 0) -> float | None:
    """Return the slope of log value against log size, from ``least`` on; None of fewer than two."""
    pairs = [(s, v) for s, v in zip(sizes, values, strict=True) if s >= least and v > 0]
    if len(pairs) < 2:
        return None
    x, y = np.log(np.array(pairs, dtype=float)).T
    return round(float(np.polyfit(x, y, 1)[0]), 2)


def train_on_table(
    samples: int, *, method: str = "supervised", classes: int = CLASSES, width: float = 0.125,
    features: int = FEATURES, head: str = "sem", epochs: int = 2,
) -> None:  # fmt: skip
    """Train a small network on random numbers that say something about their class."""
    draw = np.random.default_rng(0)
    labels = draw.integers(0, classes, samples)
    centres = draw.standard_normal((classes, features)).astype(np.float32)
    x = centres[labels] + draw.standard_normal((samples, features), dtype=np.float32)
    names = [str(number) for number in range(classes)]
    bundle = from_arrays(
        x, labels, x_test=x[:100], y_test=labels[:100], class_names=names, clean=True
    )
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        config = resolve(
            {
                "data": {"spec": "object:table"},
                "noise": {"spec": "sym:0.4"},
                "model": {"name": "mlp", "width": width},
                "head": {"name": head},
                "method": {"name": method, "options": method_options(method, x, centres, folder)},
                "train": {"epochs": epochs, "batch_size": BATCH},
                "log": {"trackers": [], "thumbnails": 0},
            }
        )
        train(config, out=Path(folder) / "run", objects=Objects(bundle=bundle))


def method_options(method: str, x: Any, centres: Any, folder: str) -> dict[str, Any]:
    """Return a short warm-up, and for CLIPCleaner features as if they came from elsewhere."""
    options: dict[str, Any] = warm_up(method)
    if method == "promix":
        options["fmix"] = False  # it joins images
    if METHODS[method].files:
        for name, values in (("features", x), ("text", centres)):
            np.save(Path(folder) / f"{name}.npy", values)
            options[name] = str(Path(folder) / f"{name}.npy")
    return options


def head_steps(classes: int, features: int, head: str = "sem", steps: int = 3) -> None:
    """Make some training steps of a head alone."""
    layer = HEADS[head](features, classes)
    optimiser = torch.optim.SGD(layer.parameters(), lr=0.01)
    x, y = torch.randn(64, features), torch.arange(64) % classes
    for _ in range(steps):
        F.cross_entropy(layer(x), y).backward()
        optimiser.step()
        optimiser.zero_grad()


def image_folder(paths: int) -> tuple[Case, float]:
    """Return what opening a folder of so many images costs, and the seconds that passed.

    The images are hard links of a few files: a folder is listed, 32 images are looked at, and the
    others are read when they are needed.
    """
    from PIL import Image

    with tempfile.TemporaryDirectory() as name:
        root, classes = Path(name), max(2, paths // 1000)
        for number in range(classes):
            (root / "photos" / f"class{number:04}").mkdir(parents=True)
        for place in range(paths):
            source = root / f"{place // LINKS}.png"
            if place % LINKS == 0:
                Image.new("RGB", (128, 128)).save(source)
            os.link(source, root / "photos" / f"class{place % classes:04}" / f"{place:07}.png")
        passed = time.perf_counter()
        case = measured(lambda: load(f"imagefolder:{root / 'photos'}"))
        return case, time.perf_counter() - passed


class Report:
    """Runs cases, prints them and keeps the numbers."""

    def __init__(self, results: dict[str, Any], methods: Sequence[str]) -> None:
        self.results = results
        self.methods = methods

    def sweep(
        self,
        part: str,
        name: str,
        sizes: Sequence[int],
        run: Callable[[int], object],
        least: int = 0,
    ) -> dict[str, Any]:
        """Measure one line of a table and return it."""
        cases = [measured(lambda size=size: run(size)) for size in sizes]
        seconds, megabytes = [s for s, _ in cases], [m for _, m in cases]
        line = {
            "sizes": list(sizes),
            "seconds": [round(s, 2) for s in seconds],
            "megabytes": [round(m, 1) for m in megabytes],
            "exponent": exponent(sizes, seconds, least),
            "memory_exponent": exponent(sizes, megabytes, least),
        }
        self.results.setdefault(part, {})[name] = line
        table(
            [f"{part}: {name}", *(f"{size:,}" for size in sizes), "exponent"],
            [
                ["seconds", *(f"{s:.2f}" for s in seconds), line["exponent"]],
                ["megabytes", *(f"{m:.0f}" for m in megabytes), line["memory_exponent"]],
            ],
        )
        return line


def methods(report: Report, *, small: bool) -> None:
    sizes = (500, 1000) if small else LARGE
    worst = 0.0
    for name in report.methods:
        line = report.sweep(
            "methods", name, sizes, lambda n, name=name: train_on_table(n, method=name), BEYOND
        )
        worst = max(worst, line["exponent"] or 0.0)
    if not small:
        verdict(f"largest exponent of a method beyond {BEYOND:,} samples", worst, LIMIT)


def samples(report: Report, *, small: bool) -> None:
    sizes = (500, 1000) if small else (1000, 10_000, 100_000, 1_000_000)
    report.sweep("samples", "supervised", sizes, train_on_table, BEYOND)


def classes(report: Report, *, small: bool) -> None:
    sizes = (10, 100) if small else (10, 100, 1000, 10_000, 100_000)
    for head in ("linear", "sem"):
        report.sweep("classes", f"head {head}", sizes, lambda c, head=head: head_steps(c, 64, head))
    sizes = (10, 100) if small else (10, 1000, 100_000)
    report.sweep(
        "classes",
        "run of 10,240 samples",
        sizes,
        lambda c: train_on_table(1024 if small else 10_240, classes=c, epochs=1),
    )


def features(report: Report, *, small: bool) -> None:
    sizes = (16, 64) if small else (16, 64, 256, 1024, 4096)
    for head in ("linear", "sem"):
        report.sweep(
            "features", f"head {head}", sizes, lambda d, head=head: head_steps(1000, d, head)
        )
    report.sweep(
        "features",
        "run of 10,000 samples",
        sizes,
        lambda d: train_on_table(500 if small else 10_000, features=d, epochs=1),
    )


def networks(report: Report, *, small: bool) -> None:
    """The hidden layers of one network, in units of 32; and one network against two."""
    count = 500 if small else 20_000
    sizes = (1, 2) if small else (1, 2, 4, 8, 16)
    report.sweep(
        "networks",
        "width of one",
        sizes,
        lambda w: train_on_table(count, width=w / 8, epochs=1),
    )
    # Co-teaching without a sample to drop is two networks that learn side by side.
    report.sweep(
        "networks",
        "one, two",
        (1, 2),
        lambda n: train_on_table(count, method=("supervised", "co-teaching")[n - 1], epochs=1),
    )


def neighbours(report: Report, *, small: bool) -> None:
    sizes = (500, 1000) if small else LARGE

    def unit(count: int) -> torch.Tensor:
        return torch.randn(count, 64, generator=torch.Generator().manual_seed(0))

    def of_samples(count: int) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            nearest_samples(unit(count), 10)

    def of_audit(count: int) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            neighbour_probabilities(unit(count), np.arange(count) % CLASSES, CLASSES)

    lines = [
        report.sweep("neighbours", "of methods", sizes, of_samples, BEYOND),
        report.sweep("neighbours", "of an audit", sizes, of_audit, BEYOND),
    ]
    if not small:
        worst = max(line["exponent"] for line in lines)
        verdict(f"exponent of neighbours beyond {BEYOND:,} samples", worst, LIMIT)


def folder(report: Report, *, small: bool) -> None:
    count = 2000 if small else 1_000_000
    (seconds, megabytes), passed = image_folder(count)
    report.results["folder"] = {
        "paths": count,
        "seconds": round(seconds, 2),
        "passed": round(passed, 2),
        "megabytes": round(megabytes, 1),
    }
    print(f"  folder of {count:,} images: {seconds:.1f} s, {megabytes:.0f} MB")
    verdict(f"seconds to open a folder of {count:,} images", passed, MINUTE)


PARTS = {
    part.__name__: part
    for part in (methods, samples, classes, features, networks, neighbours, folder)
}


def main() -> None:
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=list(METHODS))
    parser.add_argument("--small", action="store_true", help="sizes that show only that it works")
    parser.add_argument("--out", type=Path, help="where to store the numbers as JSON")
    options = parser.parse_args()
    announce("Growth of time and memory", options.threads)
    train_on_table(500)  # imports and compiles what all cases need
    known = options.out is not None and options.out.exists()
    report = Report(json.loads(options.out.read_text("utf-8")) if known else {}, options.methods)
    for name in options.only:
        PARTS[name](report, small=options.small)
        if options.out is not None:
            options.out.write_text(json.dumps(report.results, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
