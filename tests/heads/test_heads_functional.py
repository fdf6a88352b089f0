"""The functional core against Algorithm 1 written out in plain loops."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from edgemask.errors import UserError
from edgemask.heads import CRITERIA, functional
from edgemask.heads.functional import (
    edge_mask,
    edge_scores,
    keep_probability,
    masked_linear,
    normalise_scores,
    smooth_scores,
)
from head_helpers import edge_activations, mask_of, normalised, raw_scores, smoothed


def problem(b: int = 5, c: int = 3, d: int = 4) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return (
        torch.randn(b, d, dtype=torch.float64),
        torch.randn(c, d, dtype=torch.float64),
        torch.randn(c, dtype=torch.float64),
    )


@pytest.mark.parametrize("criterion", ["rms", "second_moment", "mean_abs", "obd"])
def test_scores_equal_those_of_the_materialised_tensor(criterion: str) -> None:
    v, w, b = problem()
    expected = raw_scores(edge_activations(v, w), criterion, (v @ w.T + b).softmax(1))
    torch.testing.assert_close(
        edge_scores(v, w, b, criterion=criterion), expected, rtol=1e-12, atol=0
    )


def test_obd_score_is_half_the_hessian_diagonal_times_the_squared_weight() -> None:
    v, w, b = problem()
    target = torch.tensor([0, 1, 2, 1, 0])

    def loss(flat: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(F.linear(v, flat.view_as(w), b), target)

    hessian = torch.autograd.functional.hessian(loss, w.flatten())
    expected = 0.5 * hessian.diagonal().view_as(w) * w.square()
    torch.testing.assert_close(edge_scores(v, w, b, criterion="obd"), expected, rtol=1e-10, atol=0)


def test_controls_look_at_one_side_only() -> None:
    v, w, _ = problem()
    torch.testing.assert_close(edge_scores(v, w, criterion="weight"), w.abs())
    rms = v.square().mean(0).sqrt().expand_as(w)
    torch.testing.assert_close(edge_scores(v, w, criterion="input"), rms)
    assert set(CRITERIA) == {"rms", "second_moment", "mean_abs", "obd", "weight", "input"}
    assert all(rule.summary for rule in CRITERIA.values())


def test_unknown_criterion_is_named_with_its_neighbours() -> None:
    v, w, _ = problem()
    with pytest.raises(UserError, match=r"unknown criterion 'rsm'.*'rms'"):
        edge_scores(v, w, criterion="rsm")


@pytest.mark.parametrize("width", [1, 3])
def test_sizes_that_do_not_fit_are_named(width: int) -> None:
    v, w, _ = problem()
    with pytest.raises(UserError, match=rf"\(5, {width}\) and \(3, 4\)"):
        edge_scores(v[:, :width], w)


def test_leading_dimensions_are_samples() -> None:
    v, w, _ = problem(b=6)
    assert torch.equal(edge_scores(v.view(2, 3, 4), w), edge_scores(v, w))
    assert torch.equal(edge_scores(v[0], w), edge_scores(v[:1], w))


def test_normalisation_has_the_paper_s_eps() -> None:
    s = torch.tensor([[0.0, 1e-8], [0.5e-8, 0.25e-8]], dtype=torch.float64)
    # max - min = eps: the largest gets one half, not one
    torch.testing.assert_close(normalise_scores(s), s / 2e-8, rtol=1e-12, atol=0)
    torch.testing.assert_close(normalise_scores(s), normalised(s), rtol=1e-12, atol=0)
    assert functional.EPS == 1e-8


@given(st.lists(st.floats(0, 1e6), min_size=2, max_size=20))
def test_normalised_scores_lie_in_the_unit_interval_and_keep_the_order(values: list[float]) -> None:
    s = torch.tensor(values, dtype=torch.float64)
    n = normalise_scores(s)
    assert n.min() >= 0
    assert n.max() <= 1
    order = s.argsort()
    assert (n[order].diff() >= 0).all()


@pytest.mark.parametrize("value", [0.0, 1e-3, 7.0])
def test_equal_scores_keep_every_edge(value: float) -> None:
    n = normalise_scores(torch.full((2, 3), value))
    assert torch.equal(n, torch.ones(2, 3))
    assert edge_mask(n, 1.0).all()


def test_smoothing() -> None:
    old, new = torch.rand(3, 4).double(), torch.rand(3, 4).double()
    torch.testing.assert_close(smooth_scores(old, new, 0.9), 0.9 * old + 0.1 * new)
    assert torch.equal(smooth_scores(old, new, 0.0), new)


def test_a_run_equals_literal_algorithm_1() -> None:
    _, w, b = problem()
    rho, beta, state, reference = 0.4, 0.7, None, None
    kept = []
    for _ in range(6):
        v = torch.randn(5, 4, dtype=torch.float64)
        uniform = torch.rand(3, 4, dtype=torch.float64)
        new = normalise_scores(edge_scores(v, w))
        state = new if state is None else smooth_scores(state, new, beta)
        mask = edge_mask(state, rho, uniform=uniform)
        logits = masked_linear(v, w, mask, b)

        a = edge_activations(v, w)
        reference = smoothed(reference, normalised(raw_scores(a, "rms")), beta)
        expected = mask_of(reference, uniform, rho)
        torch.testing.assert_close(state, reference, rtol=1e-10, atol=1e-12)
        assert torch.equal(mask, expected)
        torch.testing.assert_close(logits, (a * expected).sum(2) + b, rtol=1e-10, atol=1e-12)
        kept.append(mask.mean().item())
    assert min(kept) < 1.0  # the comparison saw masked edges


def test_no_gradient_through_score_or_mask() -> None:
    v, w, b = problem()
    v.requires_grad_(), w.requires_grad_()
    scores = edge_scores(v, w, b, criterion="obd")
    smooth = smooth_scores(scores, normalise_scores(scores))
    for tensor in (scores, smooth, keep_probability(smooth), edge_mask(smooth)):
        assert not tensor.requires_grad


def test_gradients_pass_through_kept_edges_only() -> None:
    v, w, b = problem()
    mask = (torch.rand(3, 4) > 0.5).double()
    v.requires_grad_(), w.requires_grad_(), b.requires_grad_()
    out = torch.randn(5, 3, dtype=torch.float64)
    (masked_linear(v, w, mask, b) * out).sum().backward()
    torch.testing.assert_close(w.grad, (out.T @ v.detach()) * mask)
    assert (w.grad[mask == 0] == 0).all()
    torch.testing.assert_close(v.grad, out @ (w.detach() * mask))
    torch.testing.assert_close(b.grad, out.sum(0))


def test_masked_linear_passes_gradcheck_twice() -> None:
    v, w, b = (t.requires_grad_() for t in problem())
    mask = (torch.rand(3, 4) > 0.5).double()

    def layer(v: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return masked_linear(v, w, mask, b)

    assert torch.autograd.gradcheck(layer, (v, w, b))
    assert torch.autograd.gradgradcheck(layer, (v, w, b))


def test_drawn_numbers_come_from_torch_s_generator_by_default() -> None:
    scores = torch.rand(20, 20)
    torch.manual_seed(4)
    one = edge_mask(scores)
    torch.manual_seed(4)
    assert torch.equal(one, edge_mask(scores))
    assert not torch.equal(one, edge_mask(scores))


def test_given_numbers_are_not_overwritten() -> None:
    uniform = torch.rand(4, 4)
    before = uniform.clone()
    edge_mask(torch.rand(4, 4), 0.2, uniform=uniform)
    assert torch.equal(uniform, before)
