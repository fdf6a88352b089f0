"""KAN and SKAN against plain loops over edges."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import edgemask as em
from edgemask.errors import UserError
from edgemask.heads.skan import function_moments
from edgemask.heads.splines import bspline_basis, fit_bspline
from head_helpers import (
    LargestTensor,
    cox_de_boor,
    kan_edges,
    mask_of,
    normalised,
    raw_scores,
    smoothed,
    uniform_knots,
    uniform_of_next_step,
)


@pytest.mark.parametrize("order", [1, 2, 3, 4])
@pytest.mark.parametrize(("grid", "low", "high"), [(5, -1.0, 1.0), (3, 0.0, 2.5), (1, -1.0, 1.0)])
def test_basis_equals_cox_de_boor(order: int, grid: int, low: float, high: float) -> None:
    margin = (high - low) * 1.5
    x = torch.linspace(low - margin, high + margin, 301, dtype=torch.float64) + 1e-4
    knots = uniform_knots(grid, order, low, high)
    expected = [[cox_de_boor(float(v), m, order, knots) for m in range(grid + order)] for v in x]
    basis = bspline_basis(x, grid_size=grid, order=order, low=low, high=high)
    torch.testing.assert_close(basis, torch.tensor(expected).double(), rtol=1e-6, atol=1e-7)


@given(st.floats(-1, 0.9999), st.integers(1, 5), st.integers(1, 9))
def test_partition_of_unity_inside_the_grid(x: float, order: int, grid: int) -> None:
    basis = bspline_basis(torch.tensor(x).double(), grid_size=grid, order=order)
    assert basis.sum() == pytest.approx(1.0, abs=1e-9)
    assert basis.min() >= -1e-12


def test_outside_of_the_extended_grid_value_and_slope_are_zero() -> None:
    x = torch.tensor([-2.3, 2.3, 50.0, 1.5], dtype=torch.float64, requires_grad=True)
    basis = bspline_basis(x)
    basis.sum().backward()
    assert not basis[:3].any()
    assert not x.grad[:3].any()
    assert 0 < basis[3].sum() < 1  # between grid and extended grid


@pytest.mark.parametrize("order", [2, 3])
def test_basis_passes_gradcheck(order: int) -> None:
    x = (torch.rand(10, dtype=torch.float64) * 4 - 2).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: bspline_basis(x, order=order), (x,))
    assert torch.autograd.gradgradcheck(lambda x: bspline_basis(x, order=order), (x,))
    # the first derivative is the same on the way to a second one
    (plain,) = torch.autograd.grad(bspline_basis(x, order=order).cos().sum(), x)
    (again,) = torch.autograd.grad(bspline_basis(x, order=order).cos().sum(), x, create_graph=True)
    torch.testing.assert_close(again, plain)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_fit_passes_through_the_values(order: int) -> None:
    values = torch.randn(2, 3, 6, dtype=torch.float64)
    coefficients = fit_bspline(values, order=order)
    points = torch.linspace(-1, 1, 6, dtype=torch.float64)
    points[-1] -= 1e-9
    basis = bspline_basis(points, order=order)
    torch.testing.assert_close(coefficients @ basis.T, values, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("order", "grid"), [(3, 5), (2, 4), (4, 3)])
def test_kan_equals_plain_loops(order: int, grid: int) -> None:
    layer = em.KANLinear(4, 3, grid_size=grid, spline_order=order, dtype=torch.float64)
    v = torch.randn(6, 4, dtype=torch.float64)
    expected = kan_edges(layer, v).sum(2)
    torch.testing.assert_close(layer(v), expected, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(layer(v.view(2, 3, 4)).view(6, 3), expected, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(layer(v[0]), expected[0], rtol=1e-10, atol=1e-12)


def test_fraction_outside_is_readable() -> None:
    layer = em.KANLinear(4, 3)
    assert math.isnan(layer.outside)
    layer(torch.tensor([[0.5, -0.5, 1.5, -3.0], [0.0, 1.0, -1.0, 1.0001]]))
    assert layer.outside == pytest.approx(3 / 8)
    wide = em.KANLinear(4, 3, grid_range=(0.0, 2.0))
    wide(torch.tensor([[0.5, -0.5, 1.5, 3.0]]))
    assert wide.outside == pytest.approx(0.5)


@pytest.mark.parametrize("kind", [em.KANLinear, em.SKANLinear])
def test_normalisation_brings_features_into_the_grid(kind: type) -> None:
    x = torch.randn(64, 8) * 30 + 100
    raw, batch = kind(8, 3, normalise="none"), kind(8, 3, normalise="batch", grid_range=(-3, 3))
    raw(x), batch(x)
    assert raw.outside > 0.95
    assert batch.outside < 0.02
    layer = kind(8, 3, normalise="layer", grid_range=(-3, 3))
    layer(x)
    assert layer.outside < 0.02
    assert not list(layer.norm.parameters())
    assert not list(batch.norm.parameters())


def test_skan_steps_equal_literal_algorithm_1_on_edge_functions() -> None:
    head = em.SKANLinear(4, 3, rho=0.4, beta=0.8, dtype=torch.float64, seed=5)
    reference, out = None, 0
    optimiser = torch.optim.SGD(head.parameters(), lr=0.5)
    for step in range(4):
        v = torch.randn(6, 4, dtype=torch.float64)
        a = kan_edges(head, v)
        uniform = uniform_of_next_step(head)
        reference = smoothed(reference, normalised(raw_scores(a, "rms")), 0.8)
        expected = mask_of(reference, uniform, 0.4)
        before = copy.deepcopy(head)
        logits = head(v)
        torch.testing.assert_close(head.scores, reference, rtol=1e-6, atol=1e-9)
        assert torch.equal(head.last_mask, expected)
        torch.testing.assert_close(logits, (a * expected).sum(2), rtol=1e-6, atol=1e-9)
        optimiser.zero_grad()
        logits.square().sum().backward()
        optimiser.step()
        gone = expected == 0
        # a masked edge loses base and spline together: none of its parameters moves
        for name in ("base_weight", "spline_scaler", "spline_weight"):
            assert torch.equal(getattr(head, name)[gone], getattr(before, name)[gone]), name
        assert int(head.steps) == step + 1
        out += int(gone.sum())
    assert out > 0


@pytest.mark.parametrize("criterion", ["rms", "second_moment"])
def test_gram_scores_equal_naive_ones(criterion: str) -> None:
    head = em.SKANLinear(5, 4, criterion=criterion, dtype=torch.float64)
    v = torch.randn(7, 5, dtype=torch.float64)
    expected = normalised(raw_scores(kan_edges(head, v), criterion))
    head(v)
    torch.testing.assert_close(head.scores, expected, rtol=1e-8, atol=1e-10)


def test_moments_are_never_negative() -> None:
    gram = torch.zeros(3, 9, 9)
    gram[:, 0, 0] = -1e-9  # what rounding can leave of a feature that is nearly always 0
    coefficients = (torch.randn(4, 3), torch.randn(4, 3), torch.randn(4, 3, 8))
    assert (function_moments(gram, *coefficients) >= 0).all()
    head = em.SKANLinear(6, 3)
    head(torch.randn(64, 6).relu() * (torch.rand(64, 6) > 0.98))
    assert head.scores.isfinite().all()


def test_skan_is_kan_at_inference_and_with_rho_zero() -> None:
    head = em.SKANLinear(5, 3, rho=0.0)
    plain = em.KANLinear(5, 3)
    plain.load_state_dict(dict(head.named_parameters()))
    x = torch.randn(4, 5)
    assert torch.equal(head(x), plain(x))
    head(x).sum().backward(), plain(x).sum().backward()
    for one, two in zip(head.parameters(), plain.parameters(), strict=True):
        assert torch.equal(one.grad, two.grad)
    masked = em.SKANLinear(5, 3)
    masked.load_state_dict(plain.state_dict(), strict=True)
    assert torch.equal(masked.eval()(x), plain(x))


def test_skan_expected_inference() -> None:
    head = em.SKANLinear(5, 3, inference="expected", dtype=torch.float64)
    for _ in range(3):
        head(torch.randn(6, 5, dtype=torch.float64))
    x = torch.randn(4, 5, dtype=torch.float64)
    factor = torch.where(head.scores >= 0.5, 1.0, head.scores)
    expected = (kan_edges(head, x) * factor).sum(2)
    torch.testing.assert_close(head.eval()(x), expected, rtol=1e-8, atol=1e-10)
    plain = head.to_plain()
    assert type(plain) is em.KANLinear
    torch.testing.assert_close(plain(x), expected, rtol=1e-8, atol=1e-10)


def test_skan_builds_no_tensor_of_edge_outputs() -> None:
    batch, classes, features = 64, 40, 48
    head = em.SKANLinear(features, classes)
    x = torch.randn(batch, features, requires_grad=True)
    with LargestTensor() as seen:
        head(x).square().sum().backward()
    assert seen.largest <= 9 * max(batch, classes) * features < batch * classes * features


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"grid_size": 0}, "grid_size=0: expected a number of at least 1"),
        ({"spline_order": 0}, "of at least 1"),
        ({"grid_range": (1.0, -1.0)}, "low < high"),
        ({"normalise": "instance"}, "normalise='instance': expected 'none' or"),
    ],
)
def test_wrong_options(options: dict, message: str) -> None:
    for kind in (em.KANLinear, em.SKANLinear):
        with pytest.raises(UserError, match=message):
            kind(4, 3, **options)
    with pytest.raises(UserError, match="criterion='obd': expected 'rms' or 'second_moment'"):
        em.SKANLinear(4, 3, criterion="obd")
