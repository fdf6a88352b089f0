"""The four equations against Algorithm 1 written out in plain loops."""

from __future__ import annotations

import sys
from types import FrameType

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from edgemask.errors import UserError
from edgemask.heads import CRITERIA, SEMLinear
from edgemask.heads.sem import draw_mask, edge_scores, normalise_scores, smooth_scores
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


@pytest.mark.parametrize("scale", [1.0, 1e-8, 1e-30])
def test_normalisation_does_not_depend_on_the_scale_of_the_scores(scale: float) -> None:
    s = torch.tensor([[0.0, 1.0], [0.5, 0.25]], dtype=torch.float64)
    torch.testing.assert_close(normalise_scores(s * scale), s, rtol=1e-12, atol=0)


def test_obd_scores_of_many_classes_and_small_features_reach_one() -> None:
    head = SEMLinear(64, 1000, criterion="obd")
    head(torch.randn(32, 64) * 0.01)
    assert head.scores.max() == 1.0
    assert head.scores.min() == 0.0
    assert (head.last_mask == 1)[head.scores >= 0.5].all()


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
    assert draw_mask(n, 1.0).all()


def test_smoothing() -> None:
    old, new = torch.rand(3, 4).double(), torch.rand(3, 4).double()
    torch.testing.assert_close(smooth_scores(old, new, 0.9), 0.9 * old + 0.1 * new)
    assert torch.equal(smooth_scores(old, new, 0.0), new)
    assert torch.equal(smooth_scores(old, new, 0.9, first=True), new)
    faded = smooth_scores(torch.full((3, 4), 1e-12), torch.zeros(3, 4), 0.9)
    assert not faded.any(), "scores that fade become 0, not denormal numbers"


def test_a_run_equals_literal_algorithm_1() -> None:
    _, w, b = problem()
    rho, beta, state, reference = 0.4, 0.7, None, None
    kept = []
    for _ in range(6):
        v = torch.randn(5, 4, dtype=torch.float64)
        uniform = torch.rand(3, 4, dtype=torch.float64)
        new = normalise_scores(edge_scores(v, w))
        state = new if state is None else smooth_scores(state, new, beta)
        mask = draw_mask(state, rho, numbers=lambda purpose, u=uniform: u)
        logits = F.linear(v, w * mask, b)

        a = edge_activations(v, w)
        reference = smoothed(reference, normalised(raw_scores(a, "rms")), beta)
        expected = mask_of(reference, uniform, rho)
        torch.testing.assert_close(state, reference, rtol=1e-10, atol=1e-12)
        assert torch.equal(mask.double(), expected)
        torch.testing.assert_close(logits, (a * expected).sum(2) + b, rtol=1e-10, atol=1e-12)
        kept.append(expected.mean().item())
    assert min(kept) < 1.0  # the comparison saw masked edges


def test_no_gradient_through_score_or_mask() -> None:
    v, w, b = problem()
    v.requires_grad_(), w.requires_grad_()
    scores = edge_scores(v, w, b, criterion="obd")
    smooth = smooth_scores(scores, normalise_scores(scores))
    for tensor in (scores, smooth, draw_mask(smooth)):
        assert not tensor.requires_grad


def test_drawn_numbers_come_from_torch_s_generator_by_default() -> None:
    scores = torch.rand(20, 20)
    torch.manual_seed(4)
    one = draw_mask(scores)
    torch.manual_seed(4)
    assert torch.equal(one, draw_mask(scores))
    assert not torch.equal(one, draw_mask(scores))


def test_given_numbers_are_not_overwritten() -> None:
    uniform = torch.rand(4, 4)
    before = uniform.clone()
    draw_mask(torch.rand(4, 4), 0.2, numbers=lambda purpose: uniform)
    assert torch.equal(uniform, before)


@pytest.mark.parametrize("use_native", [True, False])
def test_a_forward_pass_visits_few_files(use_native: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgemask.heads.native.enabled", use_native)
    head, x, files = SEMLinear(20, 10), torch.randn(8, 20), set()
    head(x)  # what is compiled or imported once

    def note(frame: FrameType, event: str, arg: object) -> None:
        if event == "call" and "edgemask" in frame.f_globals.get("__name__", ""):
            files.add(frame.f_code.co_filename)

    sys.setprofile(note)
    head(x)
    sys.setprofile(None)
    assert 3 <= len(files) <= 5
