"""What the heads cost, against a plain linear layer and against Algorithm 1 to the letter.

    python benchmarks/heads.py [--threads N] [--seconds S] [--compile]

A training step is forward, cross-entropy, backward and the update by SGD with momentum and weight
decay, as the paper trains; "head alone" is forward and backward of the layer with a given gradient,
which leaves nothing to hide behind.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import edgemask as em
from _measure import announce, arguments, peak_memory, ratios, table, verdict

LARGE = (256, 1000, 2048)
SHAPES = [(128, 10, 256), (128, 100, 512), LARGE, (256, 21841, 2048)]


class LiteralSEM(nn.Linear):
    """Algorithm 1 as it is written: materialises the activation tensor A of (B, C, d)."""

    def __init__(self, in_features: int, out_features: int):
        super().__init__(in_features, out_features)
        self.rho, self.beta = 0.5, 0.9
        self.register_buffer("scores", None)

    def forward(self, input: Tensor) -> Tensor:
        """Score, normalise, smooth, mask."""
        if not self.training:
            return F.linear(input, self.weight, self.bias)
        with torch.no_grad():
            activation = input.unsqueeze(1) * self.weight.unsqueeze(0)
            score = activation.square().mean(dim=0).sqrt()
            score = (score - score.min()) / (score.max() - score.min() + 1e-8)
            if self.scores is not None:
                score = self.beta * self.scores + (1 - self.beta) * score
            self.scores = score
            mask = torch.where(score >= self.rho, torch.ones_like(score), torch.bernoulli(score))
        return F.linear(input, self.weight * mask, self.bias)


class CoxDeBoorKAN(em.KANLinear):
    """A KAN layer whose splines come from the general recursion over stored knots."""

    def basis(self, input: Tensor) -> tuple[Tensor, Tensor]:
        """Evaluate the splines by Cox-de Boor."""
        low, high = self.grid_range
        step = (high - low) / self.grid_size
        order = self.spline_order
        knots = torch.arange(-order, self.grid_size + order + 1, dtype=input.dtype) * step + low
        knots = knots.expand(self.in_features, -1).contiguous()
        x = input.unsqueeze(-1)
        splines = ((x >= knots[:, :-1]) & (x < knots[:, 1:])).to(x.dtype)
        for k in range(1, order + 1):
            left = (x - knots[:, : -k - 1]) / (knots[:, k:-1] - knots[:, : -k - 1])
            right = (knots[:, k + 1 :] - x) / (knots[:, k + 1 :] - knots[:, 1:-k])
            splines = left * splines[..., :-1] + right * splines[..., 1:]
        return F.silu(input).T, splines.permute(1, 2, 0).contiguous()


class LiteralSKAN(em.KANLinear):
    """SKAN that materialises the outputs of all edges, (B, C, d), to score them."""

    def __init__(self, in_features: int, out_features: int):
        super().__init__(in_features, out_features)
        self.register_buffer("scores", None)

    def forward(self, input: Tensor) -> Tensor:
        """Score, normalise, smooth, mask."""
        base, splines = self.basis(input)
        with torch.no_grad():
            coefficients = self.spline_weight * self.spline_scaler.unsqueeze(-1)
            edges = torch.einsum("kmb,jkm->bjk", splines, coefficients)
            edges += base.T.unsqueeze(1) * self.base_weight
            score = edges.square().mean(dim=0).sqrt()
            score = (score - score.min()) / (score.max() - score.min() + 1e-8)
            if self.scores is not None:
                score = 0.9 * self.scores + 0.1 * score
            self.scores = score
            mask = torch.where(score >= 0.5, torch.ones_like(score), torch.bernoulli(score))
        return self.combine(base, splines, mask)


def training_step(model: nn.Module, features: Tensor, labels: Tensor) -> Callable[[], None]:
    """Return one step: forward, cross-entropy, backward, SGD."""
    optimiser = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9, weight_decay=1e-4)

    def step() -> None:
        optimiser.zero_grad()
        features.grad = None
        F.cross_entropy(model(features), labels).backward()
        optimiser.step()

    return step


def head_alone(model: nn.Module, features: Tensor, gradient: Tensor) -> Callable[[], None]:
    """Return forward and backward of a layer."""

    def step() -> None:
        model.zero_grad()
        features.grad = None
        model(features).backward(gradient)

    return step


def inference(model: nn.Module, features: Tensor) -> Callable[[], None]:
    """Return a prediction."""
    model = copy.deepcopy(model).eval()

    def predict() -> None:
        with torch.inference_mode():
            model(features)

    return predict


def megabytes(size: float) -> str:
    return f"{size / 2**20:.2f}"


class Costs(NamedTuple):
    """What a head costs at one shape: times over those of a plain layer (nan: none), and bytes."""

    train: float
    alone: float
    inference: float
    memory: int

    def cells(self) -> list[str]:
        """Return them as people read them."""
        times = (self.train, self.alone, self.inference)
        return [*("" if math.isnan(x) else f"{x:.2f}" for x in times), megabytes(self.memory)]


def costs_at(shape: tuple[int, int, int], seconds: float) -> dict[str, Costs]:
    """Measure a plain layer, SEM and, where its tensors fit, Algorithm 1 to the letter."""
    batch, classes, width = shape
    pair = {"Linear": nn.Linear(width, classes), "SEMLinear": em.SEMLinear(width, classes)}
    features = torch.randn(batch, width).relu_().requires_grad_()
    labels = torch.randint(classes, (batch,))
    gradient = torch.randn(batch, classes) / batch

    def compare(act: Callable[[nn.Module], Callable[[], None]]) -> dict[str, float]:
        return ratios({k: act(v) for k, v in pair.items()}, to="Linear", seconds=seconds)

    def memory(head: nn.Module) -> int:
        # of a copy, so that memory which a head keeps from step to step counts, too
        return peak_memory(head_alone(copy.deepcopy(head), features, gradient))

    train = compare(lambda head: training_step(head, features, labels))
    alone = compare(lambda head: head_alone(head, features, gradient))
    predict = compare(lambda head: inference(head, features))
    costs = {k: Costs(train[k], alone[k], predict[k], memory(v)) for k, v in pair.items()}
    if classes < 10_000:
        # in a comparison of its own: its tensors would drive those of the others out of the cache
        literal = LiteralSEM(width, classes)
        steps = {
            "SEMLinear": training_step(pair["SEMLinear"], features, labels),
            "literal": training_step(literal, features, labels),
        }
        factor = ratios(steps, to="SEMLinear", seconds=seconds)["literal"]
        costs["literal"] = Costs(factor * train["SEMLinear"], math.nan, math.nan, memory(literal))
    return costs


def linear_heads(seconds: float, compiled: bool) -> None:
    found = {}
    rows = []
    for shape in SHAPES:
        found[shape] = costs_at(shape, seconds)
        rows += [[f"{shape} {name}", *costs.cells()] for name, costs in found[shape].items()]
        if compiled:
            ratio = f"{compiled_ratio(shape, seconds):.2f}"
            rows.append([f"{shape} SEMLinear, both compiled", ratio, "", "", ""])
    table(["(B, C, d) head", "training step", "head alone", "inference", "peak MB"], rows)

    for shape, limit in zip(SHAPES[1:], (1.9, 1.6, 2.0), strict=True):
        sem = found[shape]["SEMLinear"]
        verdict(f"SEMLinear / Linear, head alone at {shape}", sem.alone, limit)
        verdict(f"SEMLinear / Linear, training step at {shape}", sem.train, limit)
    plain, sem, literal = found[LARGE].values()
    factor = literal.train / sem.train
    verdict(f"literal / SEMLinear, time at {LARGE}", factor, 30, at_least=True)
    extra = sem.memory - plain.memory
    factor = (literal.memory - plain.memory) / extra
    verdict(f"literal / SEMLinear, extra memory at {LARGE}", factor, 50, at_least=True)
    for shape in SHAPES[:3]:
        sem = found[shape]["SEMLinear"]
        verdict(f"SEMLinear / Linear, inference at {shape}", sem.inference, 1.05)


def compiled_ratio(shape: tuple[int, int, int], seconds: float) -> float:
    """Return the time of a training step of SEM over that of a plain layer, both compiled."""
    batch, classes, width = shape
    heads = {"Linear": nn.Linear(width, classes), "SEMLinear": em.SEMLinear(width, classes)}
    features = torch.randn(batch, width).relu_().requires_grad_()
    labels = torch.randint(classes, (batch,))
    steps = {k: training_step(torch.compile(v), features, labels) for k, v in heads.items()}
    return ratios(steps, to="Linear", seconds=seconds)["SEMLinear"]


def kan_heads(seconds: float) -> None:
    rows = []
    for batch, classes, width in SHAPES[:2]:
        heads: dict[str, nn.Module] = {
            "KAN": em.KANLinear(width, classes),
            "SKAN": em.SKANLinear(width, classes),
            "literal SKAN": LiteralSKAN(width, classes),
            "Cox-de Boor KAN": CoxDeBoorKAN(width, classes),
        }
        features = torch.rand(batch, width).mul_(2).sub_(1).requires_grad_()
        labels = torch.randint(classes, (batch,))
        steps = {k: training_step(v, features, labels) for k, v in heads.items()}
        train = {"KAN": 1.0}
        for name in list(heads)[1:]:
            pair = {"KAN": steps["KAN"], name: steps[name]}
            train[name] = ratios(pair, to="KAN", seconds=seconds)[name]
        rows += [
            [f"{(batch, classes, width)} {k}", f"{train[k]:.2f}", megabytes(peak_memory(steps[k]))]
            for k in heads
        ]
    table(["(B, C, d) head", "training step / KAN", "peak MB"], rows)
    verdict("SKAN / KAN at (128, 100, 512)", train["SKAN"], 1.3)
    verdict("Cox-de Boor / KAN at (128, 100, 512)", train["Cox-de Boor KAN"], 2.0, at_least=True)


def whole_model(seconds: float) -> None:
    from edgemask import models

    plain = models.create("cnn8", 10)
    masked = em.attach(copy.deepcopy(plain), "sem", at="head")
    images, labels = torch.randn(128, 3, 32, 32), torch.randint(10, (128,))
    steps = {
        "linear": training_step(plain, images, labels),
        "sem": training_step(masked, images, labels),
    }
    ratio = ratios(steps, to="linear", seconds=max(seconds, 20.0))["sem"]
    verdict("8-layer CNN, training step with SEM / without, batch 128", ratio, 1.02)


def main() -> None:
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--compile", action="store_true", help="compare compiled layers, too")
    options = parser.parse_args()
    torch.manual_seed(0)
    announce("Linear heads", options.threads)
    linear_heads(options.seconds, options.compile)
    announce("KAN heads", options.threads)
    kan_heads(options.seconds)
    announce("A whole model", options.threads)
    whole_model(options.seconds)


if __name__ == "__main__":
    main()
