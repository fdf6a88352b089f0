"""Features and weights that are not finite, batches of none or one, equal scores."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import edgemask as em

KINDS = [em.SEMLinear, em.SKANLinear]
BAD = [float("nan"), float("inf"), -float("inf")]


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize(
    ("kind", "features", "classes"),
    [(em.SEMLinear, 6, 4), (em.SEMLinear, 600, 230), (em.SKANLinear, 6, 4)],
)
def test_bad_features_leave_the_scores_alone(
    kind: type, features: int, classes: int, bad: float
) -> None:
    head = kind(features, classes)
    x = torch.randn(5, features)
    head(x)
    scores, steps = head.scores.clone(), int(head.steps)
    broken = x.clone()
    broken[2, 3] = bad
    head(broken)
    assert torch.equal(head.scores, scores)
    assert int(head.steps) == steps
    assert 0 < head.retention <= 1
    assert head(x).isfinite().all()
    assert int(head.steps) == steps + 1
    assert not torch.equal(head.scores, scores) or torch.isclose(head.scores, scores).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bad", BAD)
def test_a_bad_first_batch_keeps_every_edge_and_is_forgotten(kind: type, bad: float) -> None:
    head, fresh = kind(6, 4, seed=1), kind(6, 4, seed=1)
    fresh.load_state_dict(head.state_dict())
    head(torch.full((5, 6), bad))
    assert head.last_mask.all()
    assert head.scores.isfinite().all()
    assert int(head.steps) == 0
    assert torch.equal(head.keep_probability(), torch.ones(4, 6))
    x = torch.randn(5, 6)
    assert torch.equal(head(x), fresh(x))
    assert torch.equal(head.scores, fresh.scores)


@pytest.mark.parametrize("criterion", list(em.heads.CRITERIA))
def test_bad_weights_leave_the_scores_alone(criterion: str) -> None:
    head = em.SEMLinear(6, 4, criterion=criterion)
    x = torch.randn(5, 6)
    head(x)
    with torch.no_grad():
        good = head.weight[1, 2].clone()
        head.weight[1, 2] = float("nan")
    scores = head.scores.clone()
    head(x)
    assert head.scores.isfinite().all()
    if criterion != "input":  # which does not look at the weights
        assert torch.equal(head.scores, scores)
        assert int(head.steps) == 1
    with torch.no_grad():
        head.weight[1, 2] = good
    before = int(head.steps)
    head(x)
    assert int(head.steps) == before + 1


@pytest.mark.parametrize("criterion", list(em.heads.CRITERIA))
def test_an_empty_batch_is_no_step(criterion: str) -> None:
    head = em.SEMLinear(6, 4, criterion=criterion)
    assert head(torch.zeros(0, 6)).shape == (0, 4)
    assert int(head.steps) == 0
    assert head.last_mask.all()
    head(torch.randn(3, 6))
    scores = head.scores.clone()
    head(torch.zeros(0, 6))
    assert int(head.steps) == 1
    assert torch.equal(head.scores, scores)


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_of_one(kind: type) -> None:
    head = kind(6, 4)
    x = torch.randn(1, 6)
    head(x).sum().backward()
    assert int(head.steps) == 1
    assert 0 < head.retention < 1
    if kind is em.SEMLinear:
        s = (head.weight * x).abs()
        expected = (s - s.min()) / (s.max() - s.min())
        torch.testing.assert_close(head.scores, expected)


def test_a_classifier_that_starts_at_zero_learns() -> None:
    head = em.SEMLinear(6, 4)
    nn.init.zeros_(head.weight), nn.init.zeros_(head.bias)
    x, target = torch.randn(8, 6), torch.randint(4, (8,))
    F.cross_entropy(head(x), target).backward()
    assert head.last_mask.all()
    assert (head.scores == 1).all()
    assert (head.weight.grad != 0).all()


def test_dead_features_lose_their_edges() -> None:
    head = em.SEMLinear(6, 4, beta=0.0)
    x = torch.randn(8, 6)
    x[:, 2] = 0.0
    for _ in range(20):
        head(x)
        assert not head.last_mask[:, 2].any()


def test_a_single_edge_is_kept() -> None:
    head = em.SEMLinear(1, 1)
    head(torch.randn(4, 1))
    assert head.retention == 1.0


@pytest.mark.parametrize("features", [60, 600])
def test_nearly_equal_scores_stay_between_0_and_1(features: int) -> None:
    head = em.SEMLinear(features, 230)
    x = torch.ones(5, features, dtype=torch.float64)
    for spread in (1e-1, 1e-3, 1e-5):
        head.reset_state(seed=1)
        with torch.no_grad():
            head.weight.uniform_(1.0, 1.0 + spread)
        head(x.float())
        raw = head.weight.detach().double()
        expected = (raw - raw.min()) / (raw.max() - raw.min())
        assert head.scores.min() >= 0
        # eight units in the last place of the raw scores
        torch.testing.assert_close(head.scores.double(), expected, rtol=0.0, atol=1e-6 / spread)
