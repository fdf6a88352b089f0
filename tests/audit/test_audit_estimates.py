"""The mixture against scikit-learn, confident learning against plain loops."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.mixture import GaussianMixture

from edgemask import audit, noise
from edgemask.errors import MissingExtraError, UserError
from sweeps import sweep


def two_heaps(low=700, high=300, seed=0):
    rng = np.random.RandomState(seed)
    return np.r_[rng.gamma(2.0, 0.1, low), rng.normal(2.5, 0.5, high)]


@sweep("seed", range(4))
@sweep("normalise", [True, False])
def test_mixture_is_that_of_scikit_learn(seed, normalise):
    values = two_heaps(seed=seed)
    fit = audit.fit_two_components(values, normalise=normalise, seed=seed)
    width = values.max() - values.min()
    scaled = (values - values.min()) / width if normalise else values
    model = GaussianMixture(2, max_iter=10, tol=1e-2, reg_covar=5e-4, random_state=seed)
    model.fit(scaled[:, None])
    low = model.means_.argmin()
    expected = model.predict_proba(scaled[:, None])[:, low]
    np.testing.assert_allclose(fit.posterior_low, expected, atol=1e-12)
    np.testing.assert_allclose(fit.weights, model.weights_[[low, 1 - low]])
    assert fit.iterations == model.n_iter_
    assert fit.converged == model.converged_
    assert not fit.degenerate


def test_means_and_variances_are_in_the_units_of_the_values():
    values = two_heaps() * 50 + 1000
    fit = audit.fit_two_components(values, max_iter=200, tol=1e-6)
    assert fit.means[0] == pytest.approx(np.mean(values[:700]), rel=0.01)
    assert fit.means[1] == pytest.approx(np.mean(values[700:]), rel=0.01)
    assert fit.variances[1] == pytest.approx(25.0**2, rel=0.3)


@given(
    values=st.lists(st.floats(-1e6, 1e6, width=32), min_size=0, max_size=30),
    broken=st.lists(st.sampled_from([np.nan, np.inf, -np.inf]), max_size=3),
)
def test_mixture_is_defined_for_all_inputs(values, broken):
    array = np.array(values + broken)
    fit = audit.fit_two_components(array)
    assert fit.posterior_low.shape == array.shape
    assert np.isfinite(fit.posterior_low).all()
    assert ((fit.posterior_low >= 0) & (fit.posterior_low <= 1)).all()
    assert (fit.posterior_low[len(values) :] == 0).all()
    assert fit.weights.sum() == pytest.approx(1.0)
    if len(set(values)) < 2:
        assert fit.degenerate
        assert (fit.posterior_low[: len(values)] == 1).all()
    if values:
        assert fit.means[0] <= fit.means[1]


def test_mixture_of_two_values_and_of_broken_ones():
    fit = audit.fit_two_components([0.0, 1.0, np.nan])
    assert fit.posterior_low.round(3).tolist() == [1.0, 0.0, 0.0]
    fit = audit.fit_two_components([np.nan, np.inf])
    assert fit.posterior_low.tolist() == [0.0, 0.0]
    assert np.isnan(fit.means).all()
    # differences of rounding are no evidence, nor are spans beyond what floats can hold
    assert audit.fit_two_components([1.0, 1.0 + 1e-15]).degenerate
    assert audit.fit_two_components([-1e308, 1e308]).degenerate
    with pytest.raises(ValueError, match="one dimension"):
        audit.fit_two_components([[1.0, 2.0]])


def test_mixture_does_not_touch_the_global_generator():
    np.random.seed(5)
    before = np.random.get_state()[1].copy()
    first = audit.fit_two_components(two_heaps())
    assert np.array_equal(before, np.random.get_state()[1])
    np.random.seed(6)
    again = audit.fit_two_components(two_heaps())
    np.testing.assert_array_equal(first.posterior_low, again.posterior_low)


def test_mixture_without_scikit_learn_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.mixture", None)
    with pytest.raises(MissingExtraError, match=r'pip install "edgemask\[app\]"'):
        audit.fit_two_components([0.0, 1.0, 2.0])
    assert audit.fit_two_components([1.0, 1.0]).degenerate  # nothing to fit needs nothing


@sweep("high", [100, 200, 400, 600])
def test_rate_from_losses(high):
    assert audit.estimate_rate(two_heaps(1000 - high, high)) == pytest.approx(high / 1000, abs=0.03)


def test_rate_from_a_history_of_losses():
    history = np.stack([two_heaps(seed=0), two_heaps(seed=1)])
    assert audit.estimate_rate(history) == audit.estimate_rate(history.mean(axis=0))
    assert audit.estimate_rate([0.5] * 10) == 0.0
    with pytest.raises(UserError, match="losses must be"):
        audit.estimate_rate([])


def plain_joint(chances, labels, calibrate):
    """Confident learning in plain loops."""
    count, classes = len(chances), len(chances[0])
    thresholds = []
    for j in range(classes):
        own = [chances[n][j] for n in range(count) if labels[n] == j]
        thresholds.append(sum(own) / len(own) if own else float("inf"))
    joint = [[0.0] * classes for _ in range(classes)]
    for n in range(count):
        reached = [j for j in range(classes) if chances[n][j] >= thresholds[j] - 1e-6]
        if reached:
            several = range(classes) if len(reached) > 1 else reached
            joint[labels[n]][max(several, key=lambda j: chances[n][j])] += 1
    for i in range(classes):
        joint[i][i] = max(joint[i][i], 1.0)
    if calibrate:
        for i in range(classes):
            members = sum(label == i for label in labels)
            total = sum(joint[i])
            joint[i] = [cell / total * members for cell in joint[i]]
    return joint


@given(
    classes=st.integers(2, 6),
    count=st.integers(1, 60),
    sharpness=st.floats(0.0, 8.0),
    seed=st.integers(0, 1000),
)
def test_confident_joint_against_plain_loops(classes, count, sharpness, seed):
    rng = np.random.RandomState(seed)
    labels = rng.randint(0, classes, count)
    scores = np.exp(sharpness * rng.rand(count, classes))
    chances = scores / scores.sum(axis=1, keepdims=True)
    for calibrate in (False, True):
        joint = audit.confident_joint(chances, labels, calibrate=calibrate)
        expected = plain_joint(chances.tolist(), labels.tolist(), calibrate)
        np.testing.assert_allclose(joint, expected, atol=1e-9)
    np.testing.assert_allclose(joint.sum(axis=1), np.bincount(labels, minlength=classes))
    transition = audit.estimate_transition(chances, labels)
    np.testing.assert_allclose(transition.sum(axis=1), 1.0)
    for true in range(classes):
        mass = joint[:, true].sum()
        row = joint[:, true] / mass if mass else np.eye(classes)[true]
        np.testing.assert_allclose(transition[true], row)
    assert 0 <= audit.confident_rate(chances, labels) <= 1


@pytest.mark.parametrize("kind", ["sym:0.4", "pair:0.3"])
def test_a_good_classifier_reveals_the_transition_matrix(kind):
    made = noise.make(kind, np.arange(5000) % 5, 5, seed=1)
    # a classifier that is right for 98 % of the samples, with varying confidence
    rng = np.random.RandomState(2)
    seen = np.where(rng.rand(5000) < 0.98, made.clean, rng.randint(0, 5, 5000))
    scores = 5 * np.eye(5)[seen] + rng.rand(5000, 5)
    chances = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    estimate = audit.estimate_transition(chances, made.noisy)
    assert abs(estimate - made.transition).max() < 0.04
    assert audit.confident_rate(chances, made.noisy) == pytest.approx(made.realised_rate, abs=0.03)


def test_equal_chances_reach_their_own_mean():
    chances = np.full((30, 3), 1 / 3)
    joint = audit.confident_joint(chances, np.arange(30) % 3, calibrate=False)
    assert joint[:, 0].sum() == 30


@sweep(
    ("chances", "labels", "message"),
    [
        ([[0.5, 0.6]], [0], r"pred_probs\[0\] is not a distribution"),
        ([[1.5, -0.5]], [0], "not logits"),
        ([[np.nan, 0.5]], [0], "not a distribution"),
        ([0.5, 0.5], [0], r"must be \(samples, classes\)"),
        ([[0.5, 0.5]], [0, 1], "1 rows, but there are 2 labels"),
        ([[0.5, 0.5]], [2], "outside 0..1"),
    ],
)
def test_predictions_are_checked(chances, labels, message):
    with pytest.raises(UserError, match=message):
        audit.confident_joint(chances, labels)


def test_limits_of_a_share_are_those_of_scipy():
    from scipy.stats import beta

    from edgemask.audit import clopper_pearson

    for count, total in ((1, 2), (8, 100), (0.5, 30), (99, 100), (3e3, 10**5), (17, 10**6)):
        for level in (0.5, 0.95, 0.975, 0.999):
            low, high = clopper_pearson(count, total, level)
            assert low == pytest.approx(beta.ppf(1 - level, count, total - count + 1), rel=1e-8)
            assert high == pytest.approx(beta.ppf(level, count + 1, total - count), rel=1e-8)
    assert clopper_pearson(0, 10, 0.95)[0] == 0.0
    assert clopper_pearson(10, 10, 0.95)[1] == 1.0
