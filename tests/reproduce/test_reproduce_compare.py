"""Paired differences against scipy, and what is said about claims."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import ttest_rel

from edgemask.reproduce import EXPERIMENTS, CellResult, compare, paired_difference
from sweeps import sweep


def _results(values):
    return [
        CellResult(row, "cifar10-sym-80", seed, value, "run", {})
        for row, many in values.items()
        for seed, value in many.items()
    ]


def test_the_interval_is_that_of_a_paired_t_test():
    rng = np.random.default_rng(0)
    first, second = rng.normal(0.4, 0.02, 5), rng.normal(0.38, 0.02, 5)
    expected = ttest_rel(first, second).confidence_interval(0.95)
    found = paired_difference(list(first), list(second))
    assert found.mean == pytest.approx(np.mean(first - second))
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))
    assert found.count == 5


def test_one_pair_has_no_interval_and_none_is_an_error():
    assert paired_difference([0.5], [0.4]).low is None
    with pytest.raises(ValueError, match="no pair"):
        paired_difference([], [])


def test_only_paired_seeds_count():
    found = compare(
        EXPERIMENTS["table8"],
        _results({"ce-sem": {0: 0.5, 1: 0.6, 2: 0.7}, "ce": {1: 0.3, 2: 0.4, 5: 0.9}}),
    )
    first = next(c for c in found if (c.worse, c.column) == ("ce", "cifar10-sym-80"))
    assert first.ours.count == 2
    assert first.ours.mean == pytest.approx(0.3)
    assert first.paper == pytest.approx(39.72 - 19.74)
    assert next(c for c in found if c.worse == "hard").verdict == "not run"


@sweep(
    ("gaps", "verdict"),
    [
        ([0.10, 0.11, 0.12], "holds"),
        ([-0.10, -0.11, -0.12], "reversed"),
        ([0.10, -0.05, 0.02], "points to it, not certain"),
        ([-0.10, 0.05, -0.02], "points against it, not certain"),
        ([0.1], "points to it, one seed"),
        ([0.0], "no difference, one seed"),
    ],
)
def test_verdicts(gaps, verdict):
    results = _results({"ce-sem": {i: 0.3 + g for i, g in enumerate(gaps)}})
    results += _results({"ce": dict.fromkeys(range(len(gaps)), 0.3)})
    found = compare(EXPERIMENTS["table8"], results)
    assert found[0].verdict == verdict
