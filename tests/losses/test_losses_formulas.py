"""The formulas written out for one sample in plain Python."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from edgemask import losses
from sweeps import sweep

Formula = Callable[[list[float], int], float]


def clip(x: float, low: float, high: float = 1.0) -> float:
    return min(max(x, low), high)


def focal(p: float, gamma: float = 0.5) -> float:
    return -((1 - p) ** gamma) * math.log(p)


def nce(p: list[float], y: int) -> float:
    return math.log(p[y]) / sum(math.log(x) for x in p)


def nfl(p: list[float], y: int) -> float:
    return focal(p[y]) / sum(focal(x) for x in p)


def rce(p: list[float], y: int) -> float:
    return -sum(clip(x, 1e-7) * math.log(1.0 if k == y else 1e-4) for k, x in enumerate(p))


def ngce(p: list[float], y: int) -> float:
    terms = [1 - clip(x, 1e-7) ** 0.7 for x in p]
    return terms[y] / sum(terms)


def nnce(p: list[float], y: int, low: float = 1e-7, high: float = 1.0) -> float:
    terms = [-math.log(low) + math.log(clip(x, low, high)) for x in p]
    return 1 - terms[y] / sum(terms)


def nnfl(p: list[float], y: int) -> float:
    terms = [focal(1e-7) - focal(clip(x, 1e-7)) for x in p]
    return 1 - terms[y] / sum(terms)


def amse(p: list[float], y: int, a: float = 30.0, q: float = 2.0) -> float:
    return sum(abs(x - a * (k == y)) ** q for k, x in enumerate(p)) / len(p)


def anorm(p: list[float], y: int) -> float:
    total = sum(abs(1.5 * (k == y) - clip(x, 1e-5)) ** 2 for k, x in enumerate(p))
    return (total - 0.5**2) / 2


FORMULAS: dict[str, Formula] = {
    "ce": lambda p, y: -math.log(p[y]),
    "label-smoothing": lambda p, y: -0.9 * math.log(p[y]) - 0.1 * sum(map(math.log, p)) / len(p),
    "focal": lambda p, y: focal(p[y]),
    "mae": lambda p, y: 1 - p[y],
    "mse": lambda p, y: amse(p, y, 1.0),
    "gce": lambda p, y: (1 - clip(p[y], 1e-7) ** 0.7) / 0.7,
    "truncated-gce": lambda p, y: (1 - max(p[y], 0.5) ** 0.7) / 0.7,
    "rce": rce,
    "sce": lambda p, y: -0.1 * math.log(p[y]) + rce(p, y),
    "nce": nce,
    "nfl": nfl,
    "ngce": ngce,
    "nnce": nnce,
    "nnfl": nnfl,
    "agce": lambda p, y: (1.6**0.6 - (0.6 + p[y]) ** 0.6) / 0.6,
    "aul": lambda p, y: ((5.5 - p[y]) ** 3 - 4.5**3) / 3,
    "ael": lambda p, y: math.exp(-p[y] / 2.5),
    "amse": amse,
    "anorm": anorm,
    "nce+rce": lambda p, y: nce(p, y) + rce(p, y),
    "nce+mae": lambda p, y: nce(p, y) + 1 - p[y],
    "nfl+rce": lambda p, y: nfl(p, y) + rce(p, y),
    "nfl+mae": lambda p, y: nfl(p, y) + 1 - p[y],
    "ngce+rce": lambda p, y: ngce(p, y) + rce(p, y),
    "ngce+mae": lambda p, y: ngce(p, y) + 1 - p[y],
    "nce+agce": lambda p, y: nce(p, y) + 4 * (7**1.5 - (6 + p[y]) ** 1.5) / 1.5,
    "nce+aul": lambda p, y: nce(p, y) + 4 * ((6.3 - p[y]) ** 1.5 - 5.3**1.5) / 1.5,
    "nce+ael": lambda p, y: nce(p, y) + 4 * math.exp(-p[y] / 5),
    "anl-ce": lambda p, y: 5 * nce(p, y) + 5 * nnce(p, y),
    "anl-fl": lambda p, y: 5 * nfl(p, y) + 5 * nnfl(p, y),
    "jal-ce": lambda p, y: nce(p, y) + amse(p, y),
    "jal-fl": lambda p, y: nfl(p, y) + amse(p, y),
}


def softmax(z: list[float]) -> list[float]:
    top = max(z)
    exps = [math.exp(x - top) for x in z]
    return [x / sum(exps) for x in exps]


def test_every_loss_of_one_sample_has_its_formula_here() -> None:
    others = {"anl-ce-er", "ldr", "logit-clipping", "elr", "sop"}  # tested below, or with memory
    corrections = {"forward-correction", "backward-correction"}  # tested with their matrices
    assert set(FORMULAS) == set(losses.LOSSES) - others - corrections


@sweep("name", FORMULAS)
@given(data=st.data())
def test_formula(name: str, data: st.DataObject) -> None:
    numbers = st.floats(-15, 15, width=32)
    z = data.draw(st.lists(numbers, min_size=2, max_size=12))
    y = data.draw(st.integers(0, len(z) - 1))
    p = softmax(z)
    if max(p) > 1 - 1e-9:  # 1 − p loses its digits in the plain formula
        return
    value = losses.build(name)(torch.tensor([z], dtype=torch.float64), torch.tensor([y]))
    assert value.item() == pytest.approx(FORMULAS[name](p, y), rel=1e-6, abs=1e-9)


def test_anl_with_entropy_regularisation() -> None:
    z = [[0.5, -1.0, 2.0], [1.0, 1.5, -0.5]]
    y = [2, 0]
    p = [softmax(row) for row in z]
    mean = [(p[0][k] + p[1][k]) / 2 for k in range(3)]
    gap = math.log(3) + sum(m * math.log(m) for m in mean)
    parts = [
        5 * nce(row, k) + 5 * nnce(row, k, 1e-7, 1 - 1e-7) for row, k in zip(p, y, strict=True)
    ]
    value = losses.ANLCEERLoss(entropy=2.0)(torch.tensor(z, dtype=torch.float64), torch.tensor(y))
    assert value.item() == pytest.approx(sum(parts) / 2 + 2 * gap, rel=1e-9)


@sweep("q", [1.0, 1.5, 3.0])
def test_amse_with_other_exponents(q: float) -> None:
    z = [0.5, -1.0, 2.0, 0.0]
    value = losses.AMSELoss(2.0, q=q)(torch.tensor([z], dtype=torch.float64), torch.tensor([1]))
    assert value.item() == pytest.approx(amse(softmax(z), 1, 2.0, q), rel=1e-9)


@sweep("delta", [0.5, 2.5])
@sweep("size", [0.1, 1.0, 30.0])
def test_logit_clipping(delta: float, size: float) -> None:
    z = [size * x for x in (0.6, -0.8, 0.0)]
    z_clipped = [delta * x / size for x in z] if size > 1 / delta else z
    value = losses.LogitClipLoss(delta)(torch.tensor([z], dtype=torch.float64), torch.tensor([1]))
    assert value.item() == pytest.approx(-math.log(softmax(z_clipped)[1]), rel=1e-7)


def test_ldr() -> None:
    z, y = [0.5, -1.0, 2.0, -30.0], 1
    plus = [math.log1p(math.exp(x)) for x in z]
    s = [x / (sum(plus) / 4) for x in plus]
    total = sum(math.exp((0.1 * (k != y) + x - s[y]) / 10) for k, x in enumerate(s))
    value = losses.LDRLoss()(torch.tensor([z], dtype=torch.float64), torch.tensor([y]))
    assert value.item() == pytest.approx(10 * (math.log(total) - math.log(4)), rel=1e-9)


def frozen_focal(name: str, z: list[float], y: int, factor: list[float]) -> float:
    """The focal losses with their factors held fixed."""
    p = softmax(z)
    terms = [-f * math.log(x) for f, x in zip(factor, p, strict=True)]
    if name == "focal":
        return terms[y]
    if name == "nfl":
        return terms[y] / sum(terms)
    worst = focal(1e-7)
    return 1 - (worst - terms[y]) / sum(worst - term for term in terms)


@sweep("name", ["focal", "nfl", "nnfl"])
def test_gradient_leaves_the_focal_factor_out(name: str) -> None:
    z, y, step = [0.5, -1.0, 2.0, 0.1], 3, 1e-6
    logits = torch.tensor([z], dtype=torch.float64, requires_grad=True)
    losses.build(name)(logits, torch.tensor([y])).backward()
    factor = [(1 - x) ** 0.5 for x in softmax(z)]
    for k in range(4):
        up, down = ([x + sign * step * (j == k) for j, x in enumerate(z)] for sign in (1.0, -1.0))
        slope = (frozen_focal(name, up, y, factor) - frozen_focal(name, down, y, factor)) / 2 / step
        assert logits.grad is not None
        assert logits.grad[0, k].item() == pytest.approx(slope, rel=1e-6, abs=1e-9)


def test_clipped_probabilities_get_no_gradient() -> None:
    logits = torch.tensor([[0.0, 40.0]], dtype=torch.float64, requires_grad=True)
    losses.GCELoss()(logits, torch.tensor([0])).backward()
    assert logits.grad is not None
    assert logits.grad.abs().max() == 0
    logits.grad = None
    losses.GCELoss(min_prob=0.0)(logits, torch.tensor([0])).backward()
    assert logits.grad.abs().max() > 0


def test_gce_between_cross_entropy_and_mae() -> None:
    logits, target = torch.randn(6, 4, dtype=torch.float64), torch.tensor([0, 1, 2, 3, 0, 1])
    near_ce = losses.GCELoss(1e-7)(logits, target)
    torch.testing.assert_close(near_ce, losses.CELoss()(logits, target), rtol=1e-5, atol=0)
    torch.testing.assert_close(
        losses.GCELoss(1.0)(logits, target), losses.MAELoss()(logits, target)
    )


def test_scale_multiplies() -> None:
    logits, target = torch.randn(6, 4), torch.tensor([0, 1, 2, 3, 0, 1])
    for name in FORMULAS:
        double = losses.build(name, scale=2.0)(logits, target)
        torch.testing.assert_close(double, 2 * losses.build(name)(logits, target))
