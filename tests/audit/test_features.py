"""Neighbours against scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import StandardScaler

from edgemask import audit, noise
from edgemask.audit.features import _asked, neighbour_probabilities
from edgemask.errors import EdgeMaskWarning, UserError
from sweeps import sweep


@sweep("metric", ["euclidean", "cosine"])
def test_shares_are_those_of_scikit_learn(metric):
    rng = np.random.default_rng(0)
    features, given = rng.normal(1, 2, (120, 5)), rng.integers(0, 3, 120)
    found = neighbour_probabilities(features, given, 3, neighbours=7, metric=metric)
    scaled = StandardScaler().fit_transform(features) if metric == "euclidean" else features
    index = NearestNeighbors(n_neighbors=7, metric=metric, algorithm="brute").fit(scaled)
    nearest = index.kneighbors(return_distance=False)
    share = np.bincount(given, minlength=3) / 120
    counts = np.stack([(given[nearest] == k).sum(axis=1) for k in range(3)], axis=1)
    np.testing.assert_allclose(found, (counts + share) / 8, rtol=1e-5)


def test_chunks_do_not_change_the_result(monkeypatch):
    rng = np.random.default_rng(1)
    features, given = rng.normal(0, 1, (90, 4)), rng.integers(0, 2, 90)
    whole = neighbour_probabilities(features, given, 2)
    monkeypatch.setattr("edgemask.audit.features._CHUNK", 900)
    np.testing.assert_array_equal(neighbour_probabilities(features, given, 2), whole)


def test_many_samples_are_compared_with_some_at_random(monkeypatch):
    rng = np.random.default_rng(2)
    features, given = rng.normal(0, 1, (90, 4)), rng.integers(0, 3, 90)
    monkeypatch.setattr("edgemask.audit.features.MOST_KEYS", 40)
    monkeypatch.setattr("edgemask.audit.features._CHUNK", 400)
    with pytest.warns(EdgeMaskWarning, match="among 40 of them"):
        found = neighbour_probabilities(features, given, 3, neighbours=5)
    with pytest.warns(EdgeMaskWarning):
        drawn = _asked(90).tolist()
    assert len(set(drawn)) == 40
    scaled = StandardScaler().fit_transform(features)
    share = np.bincount(given, minlength=3) / 90
    for row in range(90):
        others = [place for place in drawn if place != row]
        distance = np.linalg.norm(scaled[others] - scaled[row], axis=1)
        nearest = [others[place] for place in np.argsort(distance)[:5]]
        counts = np.bincount(given[nearest], minlength=3)
        np.testing.assert_allclose(found[row], (counts + share) / 6, rtol=1e-5)


def test_wrong_labels_of_digits_are_found():
    pixels, truth = load_digits(return_X_y=True)
    made = noise.make("sym:0.2", truth, 10, seed=0)
    names = [f"digit {number}" for number in made.noisy]
    found = audit.from_features(names, pixels, metric="cosine")
    wrong = made.noisy != made.clean
    assert found.class_names[3] == "digit 3"
    assert wrong[found.order[:300]].mean() > 0.97
    assert found.rate.kind == "between"
    assert found.rate.lower < 0.2 < found.rate.upper
    assert found.source == "features"


@sweep(
    ("labels", "features", "options", "message"),
    [
        ([0, 1, 0], np.zeros((2, 3)), {}, "each of the 3 labels"),
        ([0, 1], [[np.nan], [0.0]], {}, "sample 0 are not finite"),
        ([0, 0], np.zeros((2, 1)), {}, "two different labels"),
        ([0, 1], np.zeros((2, 1)), {"metric": "taxi"}, "'taxi'"),
        ([0, 1], np.zeros((2, 1)), {"neighbours": 0}, "neighbours must be at least 1"),
    ],
)
def test_what_does_not_fit_is_refused(labels, features, options, message):
    with pytest.raises(UserError, match=message):
        audit.from_features(labels, features, **options)
