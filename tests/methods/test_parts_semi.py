"""Parts of the semi-supervised methods against plain loops and scikit-learn."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.mixture import GaussianMixture

from edgemask.errors import UserError
from edgemask.methods.parts.losses import contrastive_loss, js_divergence, prior_penalty
from edgemask.methods.parts.mixing import draw_pairs, draw_share, mix, mix_rows
from edgemask.methods.parts.pseudo_labels import co_guess, refine_labels, sharpen
from edgemask.methods.parts.schedules import linear_ramp
from edgemask.methods.parts.selection import (
    divergence_cutoff,
    low_loss_posterior,
    min_max,
    uniform_selection,
)
from sweeps import sweep


def softmax(row):
    top = max(row)
    parts = [math.exp(v - top) for v in row]
    return [v / sum(parts) for v in parts]


def test_sharpening_against_its_formula():
    p = torch.tensor([[0.6, 0.3, 0.1], [1.0, 0.0, 0.0], [1 / 3, 1 / 3, 1 / 3]])
    for temperature in (0.5, 1.0, 2.0):
        expected = [
            [v ** (1 / temperature) / sum(u ** (1 / temperature) for u in row) for v in row]
            for row in p.tolist()
        ]
        torch.testing.assert_close(sharpen(p, temperature), torch.tensor(expected))


def test_sharpening_stays_finite_where_the_power_underflows():
    p = torch.full((1, 1000), 1e-3)
    sharp = sharpen(p, 0.01)  # 1e-300 is 0 in float32
    torch.testing.assert_close(sharp, p)


def test_guesses_are_means_of_probabilities():
    logits = [torch.randn(4, 3) for _ in range(4)]
    expected = torch.zeros(4, 3)
    for scores in logits:
        for i in range(4):
            for c, value in enumerate(softmax(scores[i].tolist())):
                expected[i, c] += value / 4
    torch.testing.assert_close(co_guess(logits), expected)


def test_labels_are_refined_as_far_as_they_are_doubted():
    guess = torch.randn(3, 4).softmax(1)
    labels, weights = torch.tensor([2, 0, 3]), torch.tensor([1.0, 0.0, 0.25])
    refined = refine_labels(labels, weights, guess)
    for i in range(3):
        for c in range(4):
            hit = float(labels[i] == c)
            want = weights[i] * hit + (1 - weights[i]) * guess[i, c]
            assert refined[i, c] == pytest.approx(float(want), abs=1e-7)


def test_mixed_rows_stay_closer_to_themselves_and_carry_their_labels():
    x, t = torch.randn(12, 2, 3), torch.eye(12)
    mixed, goal, share, pairs = mix_rows(
        x, t, alpha=0.75, generator=torch.Generator().manual_seed(3)
    )
    # Labels are one-hot by row, so the targets name share and partner.
    assert 0.5 <= share < 1
    assert share == pytest.approx(float(goal.diagonal().min()))
    for i in range(12):
        others = [j for j in range(12) if j != i and goal[i, j] > 0]
        partner = others[0] if others else i
        assert len(others) <= 1
        assert pairs[i] == partner
        torch.testing.assert_close(mixed[i], share * x[i] + (1 - share) * x[partner])
    assert sorted(int(row.argmax()) for row in goal) == list(range(12))


def test_a_cut_mix_is_the_head_of_the_whole_one():
    x, t = torch.randn(10, 4), torch.randn(10, 3).softmax(1)
    whole = mix_rows(x, t, alpha=4.0, generator=torch.Generator().manual_seed(0))
    cut = mix_rows(x, t, alpha=4.0, generator=torch.Generator().manual_seed(0), first=4)
    assert torch.equal(cut[0], whole[0][:4])
    assert torch.equal(cut[1], whole[1][:4])


@sweep("alpha", [0.5, 1.0, 4.0])
def test_shares_follow_the_beta_distribution(alpha):
    generator = torch.Generator().manual_seed(0)
    draws = np.array([draw_share(alpha, generator) for _ in range(4000)])
    variance = 1 / (4 * (2 * alpha + 1))
    # Five standard errors of a mean of 4000; the variance to 10 %.
    assert draws.mean() == pytest.approx(0.5, abs=5 * math.sqrt(variance / 4000))
    assert draws.var() == pytest.approx(variance, rel=0.1)


def test_nothing_is_mixed_at_alpha_zero():
    x, t = torch.randn(5, 2), torch.randn(5, 3).softmax(1)
    mixed, goal, *_ = mix_rows(x, t, alpha=0.0, generator=torch.Generator())
    assert torch.equal(mixed, x)
    assert torch.equal(goal, t)


def test_mixing_whole_numbers_is_refused():
    ids = torch.arange(6).view(3, 2)
    with pytest.raises(UserError, match="floating-point"):
        mix(ids, ids, 0.5)
    assert sorted(draw_pairs(6, torch.Generator()).tolist()) == list(range(6))


def test_the_posterior_is_that_of_scikit_learn():
    rng = np.random.default_rng(0)
    values = np.r_[rng.normal(0.2, 0.05, 300), rng.normal(0.7, 0.1, 200)].clip(0, 1)
    losses = min_max(torch.from_numpy(values))
    fit = GaussianMixture(2, max_iter=10, tol=1e-2, reg_covar=5e-4, random_state=0)
    column = losses.numpy().reshape(-1, 1)
    fit.fit(column)
    expected = fit.predict_proba(column)[:, fit.means_.argmin()]
    torch.testing.assert_close(low_loss_posterior(losses), torch.from_numpy(expected))


def test_losses_that_do_not_differ_are_all_trusted():
    losses = min_max(torch.full((9,), 1.7))
    assert torch.equal(losses, torch.zeros(9))
    assert torch.equal(low_loss_posterior(losses), torch.ones(9))


def test_a_broken_loss_is_not_trusted():
    losses = torch.cat([torch.linspace(0, 0.1, 20), torch.linspace(0.9, 1, 20)])
    posterior = low_loss_posterior(min_max(torch.cat([losses, torch.tensor([torch.nan])])))
    assert posterior[-1] == 0
    assert (posterior[:20] > 0.9).all()


def plain_uniform(divergence, labels, classes, cutoff):
    """The published selection: sort each class, take its quota."""
    below = sum(d < cutoff for d in divergence)
    quota = int(below / len(divergence) * len(divergence) / classes + 1e-9)
    chosen = set()
    for c in range(classes):
        members = [i for i in range(len(labels)) if labels[i] == c]
        members.sort(key=lambda i: (divergence[i], i))
        chosen |= set(members[:quota])
    return chosen


@given(
    seed=st.integers(0, 10_000),
    size=st.integers(1, 60),
    classes=st.integers(2, 6),
    ties=st.booleans(),
)
def test_uniform_selection_against_a_plain_loop(seed, size, classes, ties):
    generator = torch.Generator().manual_seed(seed)
    divergence = torch.rand(size, generator=generator, dtype=torch.float64) * math.log(2)
    if ties:
        divergence = (divergence * 5).round() / 5
    labels = torch.randint(classes, (size,), generator=generator)
    cutoff = float(divergence.mean())
    chosen = uniform_selection(divergence, labels, classes, cutoff=cutoff)
    expected = plain_uniform(divergence.tolist(), labels.tolist(), classes, cutoff)
    assert set(chosen.nonzero().flatten().tolist()) == expected


def test_a_small_class_gives_all_it_has_and_nobody_twice():
    labels = torch.tensor([0] * 90 + [1] * 10)
    divergence = torch.linspace(0, 0.6, 100)
    chosen = uniform_selection(divergence, labels, 2, cutoff=0.45)
    counts = torch.bincount(labels[chosen], minlength=2)
    # 74 below the cut-off: a quota of 37, of which class 1 can only fill 10.
    assert counts.tolist() == [int((divergence < 0.45).sum()) // 2, 10]


def test_the_cutoff_is_the_mean_and_falls_where_most_labels_are_doubted():
    low, high = torch.linspace(0.0, 0.4, 9), torch.linspace(0.4, 0.69, 9)
    assert divergence_cutoff(low, adjust_above=0.7, tau=5.0) == pytest.approx(float(low.mean()))
    mean, least = float(high.mean()), float(high.min())
    assert mean > 0.7 * math.log(2)
    adjusted = divergence_cutoff(high, adjust_above=0.7, tau=5.0)
    assert adjusted == pytest.approx(mean - (mean - least) / 5)
    assert divergence_cutoff(high, adjust_above=None, tau=5.0) == pytest.approx(mean)


def test_the_divergence_never_reaches_what_the_released_code_compares_with():
    p, q = torch.eye(4), torch.eye(4).roll(1, 0)
    assert float(js_divergence(p, q, base=math.e).max()) == pytest.approx(math.log(2))
    assert math.log(2) < 0.7


def test_prior_penalty_against_its_formula():
    logits = torch.randn(6, 4, dtype=torch.float64)
    mean = [sum(softmax(row)[c] for row in logits.tolist()) / 6 for c in range(4)]
    expected = sum(0.25 * math.log(0.25 / m) for m in mean)
    assert float(prior_penalty(logits)) == pytest.approx(expected, rel=1e-5)
    assert float(prior_penalty(torch.eye(4) * 50)) == pytest.approx(0, abs=1e-6)


def test_prior_penalty_of_a_collapsed_network_has_a_gradient():
    logits = torch.zeros(3, 4)
    logits[:, 0] = 300.0  # every other probability underflows
    logits.requires_grad_()
    penalty = prior_penalty(logits)
    penalty.backward()
    assert torch.isfinite(penalty)
    assert torch.isfinite(logits.grad).all()
    assert (logits.grad[:, 0] > 0).all()


def test_contrastive_loss_against_plain_loops():
    first = torch.nn.functional.normalize(torch.randn(4, 5, dtype=torch.float64), dim=1)
    second = torch.nn.functional.normalize(torch.randn(4, 5, dtype=torch.float64), dim=1)
    both = [*first.tolist(), *second.tolist()]

    def near(a, b):
        return math.exp(sum(x * y for x, y in zip(both[a], both[b], strict=True)) / 0.5)

    terms = []
    for i in range(8):
        j = (i + 4) % 8
        terms.append(-math.log(near(i, j) / sum(near(i, k) for k in range(8) if k != i)))
    loss = contrastive_loss(first, second, temperature=0.5)
    assert float(loss) == pytest.approx(sum(terms) / 8, rel=1e-5)


def test_ramp():
    values = [linear_ramp(t, start=10, length=16) for t in (0.0, 10.0, 18.0, 26.0, 100.0)]
    assert values == [0.0, 0.0, 0.5, 1.0, 1.0]
    assert [linear_ramp(t, start=2, length=0) for t in (1.9, 2.0)] == [0.0, 1.0]
