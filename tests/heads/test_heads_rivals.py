"""Dropout, DropConnect and Dynamic DropConnect."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import edgemask as em
from edgemask.errors import UserError
from edgemask.heads import DropConnectLinear, DropoutLinear, DynamicDropConnectLinear


def test_dropout_is_dropout_then_linear() -> None:
    head = DropoutLinear(8, 3, p=0.4)
    x = torch.randn(5, 8)
    torch.manual_seed(9)
    out = head(x)
    torch.manual_seed(9)
    assert torch.equal(out, F.linear(F.dropout(x, 0.4, training=True), head.weight, head.bias))
    assert torch.equal(head.eval()(x), F.linear(x, head.weight, head.bias))
    with torch.no_grad():
        assert torch.equal(head.train()(x), head.eval()(x))
    head.train()
    with em.predicting(head):
        assert torch.equal(head(x), F.linear(x, head.weight, head.bias))
    assert head.retention == 0.6


@pytest.mark.parametrize("scaling", ["inverted", "none"])
def test_dropconnect_masks_edges(scaling: str) -> None:
    head = DropConnectLinear(50, 40, p=0.3, scaling=scaling)
    x = torch.randn(5, 50)
    out = head(x)
    factor = 1 / 0.7 if scaling == "inverted" else 1.0
    mask = head.last_mask
    assert ((mask == 0) | torch.isclose(mask, torch.tensor(factor))).all()
    torch.testing.assert_close(out, F.linear(x, head.weight * mask, head.bias))
    # 2000 coins, four standard errors
    assert head.retention == pytest.approx(0.7, abs=4 * (0.21 / 2000) ** 0.5)
    out.sum().backward()
    assert (head.weight.grad[mask == 0] == 0).all()
    head.eval()
    inference = F.linear(x, head.weight * (1.0 if scaling == "inverted" else 0.7), head.bias)
    torch.testing.assert_close(head(x), inference)
    torch.testing.assert_close(head.to_plain()(x), inference)


def ensemble(head: DropConnectLinear, x: torch.Tensor, masks: int = 4000) -> torch.Tensor:
    """The mean softmax over masks drawn one by one: what moment matching approximates."""
    total = torch.zeros(len(x), head.out_features)
    q = 1 - head.p
    g = torch.Generator().manual_seed(2)
    for _ in range(masks):
        mask = (torch.rand(head.weight.shape, generator=g) < q).float()
        mask = mask / q if head.scaling == "inverted" else mask
        total += F.linear(x, head.weight * mask, head.bias).softmax(1)
    return total / masks


@pytest.mark.parametrize("scaling", ["inverted", "none"])
@pytest.mark.parametrize(("inference", "error"), [("moment", 0.012), ("probit", 0.015)])
def test_dropconnect_averages_over_masks(scaling: str, inference: str, error: float) -> None:
    torch.manual_seed(3)
    head = DropConnectLinear(
        256, 10, p=0.5, scaling=scaling, inference=inference, samples=2000, seed=1
    ).eval()
    with torch.no_grad():
        head.weight.mul_(4)
        x = torch.randn(8, 256).relu()
        reference = ensemble(head, x)
        p = head(x).softmax(1)
        head.inference = "scaled"
        scaled = head(x).softmax(1)
    assert (p - reference).abs().mean() < error
    assert (p - reference).abs().mean() < 0.6 * (scaled - reference).abs().mean()


def test_dropconnect_moment_inference_is_a_function_of_the_input() -> None:
    head = DropConnectLinear(20, 4, inference="moment").eval()
    x = torch.randn(3, 20)
    before = torch.get_rng_state()
    assert torch.equal(head(x), head(x))
    assert torch.equal(torch.get_rng_state(), before)
    torch.testing.assert_close(head(x).exp().sum(1), torch.ones(3))
    head.train()
    with torch.no_grad():
        predicted = head(x)
    assert torch.equal(predicted, head.eval()(x))


def test_dropconnect_without_dropping_is_linear() -> None:
    head = DropConnectLinear(6, 3, p=0.0, inference="moment", scaling="none")
    x = torch.randn(4, 6)
    for mode in (True, False):
        assert torch.equal(head.train(mode)(x), F.linear(x, head.weight, head.bias))


@pytest.mark.parametrize("drop", ["small", "large"])
def test_ddc_drop_probability_in_plain_loops(drop: str) -> None:
    head = DynamicDropConnectLinear(5, 4, drop=drop, dtype=torch.float64)
    gradient = torch.randn(4, 5, dtype=torch.float64)
    sizes = [abs(float(g)) for g in gradient.flatten()]
    mean = sum(sizes) / len(sizes)
    deviation = (sum((s - mean) ** 2 for s in sizes) / (len(sizes) - 1)) ** 0.5
    expected = []
    for s in sizes:
        sigma = 1 / (1 + 2.718281828459045 ** (-(s - mean) / (deviation + 1e-9)))
        candidate = 1 - sigma if drop == "small" else sigma
        expected.append(0.3 + 0.5 * (candidate if candidate > 0.5 else 0.0))
    torch.testing.assert_close(
        head.drop_probability(gradient).flatten(), torch.tensor(expected, dtype=torch.float64)
    )


def test_ddc_first_step_is_dense_and_later_ones_follow_the_gradient() -> None:
    head = DynamicDropConnectLinear(40, 30, seed=3)
    x = torch.randn(8, 40)
    assert torch.equal(head(x), F.linear(x, head.weight, head.bias))
    assert head.retention == 1.0
    head(x).square().sum().backward()
    gradient = head.gradient.clone()
    torch.testing.assert_close(gradient, head.weight.grad)
    head.zero_grad(set_to_none=True)
    assert torch.equal(head.gradient, gradient), "the gradient must outlive zero_grad"
    kept = torch.zeros_like(gradient)
    for _ in range(300):
        head(x)
        mask = head.last_mask
        share = (mask != 0).float().mean()
        torch.testing.assert_close(mask, (mask != 0) / (share + 1e-9))
        kept += mask != 0
        assert torch.equal(head.gradient, gradient)
    expected = 1 - head.drop_probability(gradient)
    # 1200 edges at once: 99.9 % (z = 5)
    assert ((kept / 300 - expected).abs() < 5 * (expected * (1 - expected) / 300).sqrt()).all()


def test_ddc_autograd_gradient_is_ste_gradient_times_mask() -> None:
    ste = DynamicDropConnectLinear(7, 4, mode="ste", dtype=torch.float64, seed=1)
    auto = DynamicDropConnectLinear(7, 4, mode="autograd", dtype=torch.float64, seed=1)
    auto.load_state_dict(ste.state_dict())
    x, y = (torch.randn(5, 7, dtype=torch.float64) for _ in range(2))
    for head in (ste, auto):
        head(x).square().sum().backward()
        head.zero_grad()
        head(y).square().sum().backward()
    assert torch.equal(ste.last_mask, auto.last_mask)
    assert (ste.last_mask == 0).any()
    torch.testing.assert_close(auto.weight.grad, ste.weight.grad * auto.last_mask)
    assert (ste.weight.grad[ste.last_mask == 0] != 0).any()
    # both remember the gradient at the effective weights
    torch.testing.assert_close(auto.gradient, ste.gradient)


def test_ddc_adds_the_passes_of_a_step() -> None:
    head = DynamicDropConnectLinear(7, 4, dtype=torch.float64)
    x, y = torch.randn(5, 7).double(), torch.randn(3, 7).double()
    with em.one_step(head):
        head(x).square().sum().backward()
        head(y).square().sum().backward()
    torch.testing.assert_close(head.gradient, head.weight.grad)
    before = head.weight.grad.clone()
    with em.one_step(head):
        head(x).square().sum().backward()
    torch.testing.assert_close(head.gradient, head.weight.grad - before)


def test_ddc_resumes_with_its_gradient() -> None:
    head = DynamicDropConnectLinear(7, 4)
    head(torch.randn(5, 7)).square().sum().backward()
    twin, copied = DynamicDropConnectLinear(7, 4), copy.deepcopy(head)
    twin.load_state_dict(head.state_dict())
    x = torch.randn(5, 7)
    assert torch.equal(head(x), twin(x))
    copied(x)
    assert torch.equal(head.last_mask, twin.last_mask)
    assert torch.equal(head.last_mask, copied.last_mask)


def test_ddc_recovers_from_a_gradient_that_is_not_finite() -> None:
    head = DynamicDropConnectLinear(7, 4)
    x = torch.randn(5, 7)
    (head(x).sum() * float("inf")).backward()
    assert not head.gradient.isfinite().all()
    assert torch.equal(head(x), F.linear(x, head.weight, head.bias))
    head(x).square().sum().backward()
    assert head(x).isfinite().all()
    assert head.gradient.isfinite().all()
    assert 0 < head.retention < 1


def test_ddc_survives_a_move() -> None:
    head = DynamicDropConnectLinear(7, 4)
    head(torch.randn(5, 7)).square().sum().backward()
    gradient = head.gradient.clone()
    head.double()
    torch.testing.assert_close(head.gradient, gradient.double())
    head(torch.randn(5, 7).double())
    assert 0 < head.retention < 1
    assert head.last_mask.dtype == torch.float64


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        (DropoutLinear, {"p": 1.0}, r"p=1.0: expected a number in \[0, 1\)"),
        (DropConnectLinear, {"p": -0.1}, r"p=-0.1: expected a number in \[0, 1\)"),
        (DropConnectLinear, {"scaling": "half"}, "scaling='half': expected 'inverted' or 'none'"),
        (DropConnectLinear, {"inference": "mean"}, "inference='mean': expected 'scaled' or"),
        (DropConnectLinear, {"samples": 0}, "samples=0: expected a number of at least 1"),
        (DynamicDropConnectLinear, {"p0": 0.6, "pg": 0.5}, "sum of p0 and pg must be below 1"),
        (DynamicDropConnectLinear, {"drop": "all"}, "drop='all': expected 'small' or"),
        (DynamicDropConnectLinear, {"mode": "hook"}, "mode='hook': expected 'ste' or"),
    ],
)
def test_wrong_options(kind: type[nn.Module], options: dict, message: str) -> None:
    with pytest.raises(UserError, match=message):
        kind(4, 3, **options)
