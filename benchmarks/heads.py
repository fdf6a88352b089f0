"""What the heads cost, against a plain linear layer, a plain KAN layer, and formulas to the letter.

    python benchmarks/heads.py [--threads N] [--seconds S] [--compile]

One thread, and for SEM also N (by default two).

A training step is forward, cross-entropy, backward and the update by SGD with momentum and weight
decay, as the paper trains; "alone" is forward and backward of the layer with a given gradient,
which leaves nothing to hide behind. Pairs take turns; a ratio is that of their lower quartiles, in
CPU time on one thread and in time passed on several.
"""

from __future__ import annotations

import copy
import gc
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import edgemask as em
from _measure import arguments, peak_memory, table, verdict
from edgemask.heads import native

Shape = tuple[int, int, int]


class Target(NamedTuple):
    """The ratios to reach at a shape, on one thread with the native path."""

    train: float
    alone: float


LARGE = (256, 1000, 2048)
TARGETS = {
    (128, 10, 256): Target(1.35, 1.55),
    (128, 100, 512): Target(1.22, 1.32),
    LARGE: Target(1.13, 1.2),
    (256, 21841, 2048): Target(1.13, 1.2),
}
KAN_SHAPES = [(128, 10, 256), (128, 100, 512), (128, 1000, 512)]


class LiteralSEM(nn.Linear):
    """Algorithm 1 as it is written: materialises the activation tensor A of (B, C, d)."""

    def __init__(self, in_features: int, out_features: int):
        super().__init__(in_features, out_features)
        self.register_buffer("scores", None)

    def forward(self, input: Tensor) -> Tensor:
        """Score, normalise, smooth, mask."""
        with torch.no_grad():
            activation = input.unsqueeze(1) * self.weight.unsqueeze(0)
            score = activation.square().mean(dim=0).sqrt()
            score = (score - score.min()) / (score.max() - score.min() + 1e-8)
            if self.scores is not None:
                score = 0.9 * self.scores + 0.1 * score
            self.scores = score
            mask = torch.where(score >= 0.5, torch.ones_like(score), torch.bernoulli(score))
        return F.linear(input, self.weight * mask, self.bias)


class EfficientKAN(nn.Module):
    """The formula of efficient-kan: splines by Cox-de Boor over stored knots, two products."""

    def __init__(self, in_features: int, out_features: int, grid_size: int = 5, order: int = 3):
        super().__init__()
        knots = torch.arange(-order, grid_size + order + 1) * (2.0 / grid_size) - 1.0
        self.order = order
        self.register_buffer("knots", knots.expand(in_features, -1).contiguous())
        edges = (out_features, in_features)
        self.base_weight = nn.Parameter(torch.randn(edges) * 0.1)
        self.spline_scaler = nn.Parameter(torch.randn(edges) * 0.1)
        self.spline_weight = nn.Parameter(torch.randn(*edges, grid_size + order) * 0.1)

    def splines(self, input: Tensor) -> Tensor:
        """Evaluate the basis functions; (B, d, functions)."""
        x, knots = input.unsqueeze(-1), self.knots
        basis = ((x >= knots[:, :-1]) & (x < knots[:, 1:])).to(x.dtype)
        for k in range(1, self.order + 1):
            left = (x - knots[:, : -k - 1]) / (knots[:, k:-1] - knots[:, : -k - 1])
            right = (knots[:, k + 1 :] - x) / (knots[:, k + 1 :] - knots[:, 1:-k])
            basis = left * basis[..., :-1] + right * basis[..., 1:]
        return basis

    def forward(self, input: Tensor) -> Tensor:
        """Sum the edge functions."""
        weight = self.spline_weight * self.spline_scaler.unsqueeze(-1)
        splines = F.linear(self.splines(input).flatten(1), weight.flatten(1))
        return F.linear(F.silu(input), self.base_weight) + splines


def ratio(run: Callable[[], None], to: Callable[[], None], seconds: float) -> float:
    """Return the time of one over that of another; both take turns, at least four times."""
    clock = time.thread_time if torch.get_num_threads() == 1 else time.perf_counter
    to(), run()
    times: list[tuple[float, float]] = []
    until = time.perf_counter() + seconds
    while len(times) < 4 or time.perf_counter() < until:
        start = clock()
        to()
        middle = clock()
        run()
        times.append((middle - start, clock() - middle))
    quartiles = [sorted(column)[len(times) // 4] for column in zip(*times, strict=True)]
    return quartiles[1] / quartiles[0]


def announce(title: str) -> None:
    """Say what is measured, and with what."""
    torch.set_num_threads(1)
    print(f"\n{title} (torch {torch.__version__}, Python {platform.python_version()}, one thread)")


def training_step(model: nn.Module, features: Tensor, labels: Tensor) -> Callable[[], None]:
    """Return one step: forward, cross-entropy, backward, SGD."""
    optimiser = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9, weight_decay=1e-4)

    def step() -> None:
        optimiser.zero_grad()
        features.grad = None
        F.cross_entropy(model(features), labels).backward()
        optimiser.step()

    return step


def alone(model: nn.Module, features: Tensor, gradient: Tensor) -> Callable[[], None]:
    """Return forward and backward of a layer."""

    def step() -> None:
        model.zero_grad()
        features.grad = None
        model(features).backward(gradient)

    return step


def prediction(model: nn.Module, features: Tensor) -> Callable[[], None]:
    model = copy.deepcopy(model).eval()

    def predict() -> None:
        with torch.inference_mode():
            model(features)

    return predict


class Pair:
    """A plain layer and a head of one shape with what they are run on."""

    def __init__(self, shape: Shape, head: type[nn.Module] = em.SEMLinear):
        batch, classes, width = shape
        self.plain, self.head = nn.Linear(width, classes), head(width, classes)
        self.features = torch.randn(batch, width).relu_().requires_grad_()
        self.labels = torch.randint(classes, (batch,))
        self.gradient = torch.randn(batch, classes) / batch

    def train(self, seconds: float) -> float:
        """Return the ratio of training steps."""
        heads = (self.head, self.plain)
        return ratio(*(training_step(h, self.features, self.labels) for h in heads), seconds)

    def alone(self, seconds: float) -> float:
        """Return the ratio of forward and backward."""
        heads = (self.head, self.plain)
        return ratio(*(alone(h, self.features, self.gradient) for h in heads), seconds)

    def predict(self, seconds: float) -> float:
        """Return the ratio of predictions."""
        return ratio(*(prediction(h, self.features) for h in (self.head, self.plain)), seconds)


def linear_heads(seconds: float, threads: int) -> None:
    """Measure SEM's native and plain path on one thread, and the native one on several."""
    rows = []
    verdicts: list[tuple[str, float, float]] = []
    for shape, target in TARGETS.items():
        pair = Pair(shape)
        train, layer = pair.train(seconds), pair.alone(seconds)
        predict = pair.predict(seconds)
        native.enabled = False
        plain = [pair.train(seconds), pair.alone(seconds)]
        native.enabled = True
        torch.set_num_threads(max(2, threads))
        several = pair.train(seconds), pair.alone(seconds)
        torch.set_num_threads(1)
        found = [train, layer, predict, *plain, *several]
        rows.append([str(shape), *(f"{x:.2f}" for x in found)])
        verdicts += [
            (f"training step at {shape}", train, target.train),
            (f"layer alone at {shape}", layer, target.alone),
            (f"prediction at {shape}", predict, 1.02),
            (
                f"training step on several threads, more than on one, at {shape}",
                several[0] - train,
                0.05,
            ),
            (
                f"layer alone on several threads, more than on one, at {shape}",
                several[1] - layer,
                0.05,
            ),
        ]
    on_several = f"{max(2, threads)} threads: step"
    columns = ["step", "alone", "prediction", "plain torch: step", "alone", on_several, "alone"]
    table(["SEMLinear / nn.Linear at (B, C, d)", *columns], rows)
    for what, value, limit in verdicts:
        verdict(what, value, limit)


def kept_between_steps(head: nn.Module, run: Callable[[], None]) -> float:
    """Return the memory that a step leaves behind, over that of the weights."""

    def tensors() -> dict[int, int]:
        gc.collect()
        found = (obj for obj in gc.get_objects() if type(obj) in (Tensor, nn.Parameter))
        storages = (t.untyped_storage() for t in found if t.device.type == "cpu")
        return {s._cdata: s.nbytes() for s in storages}

    plain = {p.untyped_storage()._cdata for p in head.parameters()}
    before = tensors()
    run()
    head.zero_grad()
    new = {k: v for k, v in tensors().items() if k not in before}
    new[head.scores.untyped_storage()._cdata] = head.scores.nbytes
    return sum(v for k, v in new.items() if k not in plain) / head.weight.nbytes


def memory_of_heads(seconds: float) -> None:
    """Measure memory and Algorithm 1 to the letter at the shape where they matter."""
    _, classes, width = LARGE
    pair, literal = Pair(LARGE), LiteralSEM(width, classes)
    for native.enabled, path in ((False, "plain torch"), (True, "native")):
        kept = kept_between_steps(pair.head, alone(pair.head, pair.features, pair.gradient))
        verdict(f"kept between steps, over the weights' size, {path}, at {LARGE}", kept, 1.01)
    peaks = {
        name: peak_memory(alone(copy.deepcopy(head), pair.features, pair.gradient))
        for name, head in {"Linear": pair.plain, "SEM": pair.head, "literal": literal}.items()
    }
    table(["head", "peak MB"], [[name, f"{peak / 2**20:.1f}"] for name, peak in peaks.items()])
    extra = (peaks["literal"] - peaks["Linear"]) / (peaks["SEM"] - peaks["Linear"])
    verdict(f"literal / SEMLinear, extra memory at {LARGE}", extra, 50, at_least=True)
    heads = (literal, pair.head)
    steps = (training_step(head, pair.features, pair.labels) for head in heads)
    verdict(f"literal / SEMLinear, time at {LARGE}", ratio(*steps, seconds), 30, at_least=True)


def kan_heads(seconds: float) -> None:
    rows = []
    found: dict[Shape, tuple[float, float]] = {}
    for shape in KAN_SHAPES:
        batch, classes, width = shape
        kinds = (em.SKANLinear, em.KANLinear, EfficientKAN)
        features = torch.rand(batch, width).mul_(2).sub_(1).requires_grad_()
        labels = torch.randint(classes, (batch,))
        skan, kan, formula = (training_step(k(width, classes), features, labels) for k in kinds)
        found[shape] = ratio(skan, kan, seconds), ratio(skan, formula, seconds)
        values = *found[shape], ratio(kan, formula, seconds)
        rows.append([str(shape), *(f"{x:.2f}" for x in values)])
    columns = ["SKAN / KAN", "SKAN / efficient-kan's formula", "KAN / it"]
    table(["training step at (B, C, d)", *columns], rows)
    for shape in KAN_SHAPES:
        verdict(f"SKAN / KAN at {shape}", found[shape][0], 1.2)
    verdict(f"SKAN / efficient-kan's formula at {KAN_SHAPES[-1]}", found[KAN_SHAPES[-1]][1], 1.0)


def first_call() -> None:
    """Say what the first step of a machine, and of a process, costs (CPU seconds)."""
    code = (
        "import time, torch, edgemask as em; head = em.SEMLinear(64, 10); x = torch.randn(8, 64)\n"
        "start = time.process_time(); head(x); print(time.process_time() - start)"
    )
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "NUMBA_CACHE_DIR": folder}
        for what in ("compiled", "from the cache"):
            command = [sys.executable, "-c", code]
            done = subprocess.run(  # noqa: S603
                command, env=environment, capture_output=True, check=True
            )
            print(f"  first step, {what}: {float(done.stdout):.1f} s, `import numba` included")


def compiled_layers(seconds: float) -> None:
    rows = []
    for shape in list(TARGETS)[:3]:
        pair = Pair(shape)
        pair.head, pair.plain = torch.compile(pair.head), torch.compile(pair.plain)
        rows.append([str(shape), f"{pair.train(seconds):.2f}"])
    table(["SEMLinear / nn.Linear, both compiled", "training step"], rows)


def whole_model(seconds: float) -> None:
    from edgemask import models

    plain = models.create("cnn8", 10)
    masked = em.attach(copy.deepcopy(plain), "sem", at="head")
    images, labels = torch.randn(128, 3, 32, 32), torch.randint(10, (128,))
    steps = (training_step(model, images, labels) for model in (masked, plain))
    found = ratio(*steps, max(seconds, 20.0))
    verdict("8-layer CNN, training step with SEM / without, batch 128", found, 1.02)


def small_table(seconds: float) -> None:
    """Compare steps on a small table, where a head's own operations weigh most."""
    samples, classes = 1257, 10
    rows, labels = torch.randn(samples, 64), torch.randint(classes, (samples,))
    plain = nn.Sequential(
        *(nn.Linear(64, 256), nn.BatchNorm1d(256), nn.ReLU()),
        *(nn.Linear(256, 256), nn.BatchNorm1d(256), nn.ReLU(), nn.Linear(256, classes)),
    )

    def epoch(model: nn.Module, *, observed: bool = False) -> Callable[[], None]:
        optimiser = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

        def run() -> None:
            for index in torch.randperm(samples).split(32):
                if observed:
                    em.observe(model, index, labels[index])
                loss = F.cross_entropy(model(rows[index]), labels[index])
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()

        return run

    for head in ("sem", "adaptive"):
        masked = em.attach(copy.deepcopy(plain), head)
        runs = epoch(masked, observed=head == "adaptive"), epoch(copy.deepcopy(plain))
        verdict(f"table of 64 features, batch 32, {head} / linear", ratio(*runs, seconds), 1.3)


def main() -> None:
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--compile", action="store_true", help="compare compiled layers, too")
    options = parser.parse_args()
    torch.manual_seed(0)
    announce("Linear heads")
    linear_heads(options.seconds, options.threads)
    memory_of_heads(options.seconds)
    first_call()
    if options.compile:
        compiled_layers(options.seconds)
    announce("KAN heads")
    kan_heads(options.seconds)
    announce("A whole model")
    whole_model(options.seconds)
    small_table(max(options.seconds, 10.0))


if __name__ == "__main__":
    main()
