"""Confidence, memorisation, retention and trust against plain loops."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from edgemask.diagnostics import (
    confidence_split,
    memorisation,
    retention,
    score_snapshot,
    selection_quality,
    trust_from_losses,
)
from edgemask.heads import SEMLinear
from sweeps import sweep


def test_memorisation_against_a_plain_loop():
    rng = np.random.default_rng(0)
    predicted, given, clean = (rng.integers(0, 4, 500) for _ in range(3))
    clean[:20] = -1
    counts = {"memorised": [0, 0], "corrected": [0, 0], "fitted": [0, 0]}
    for p, g, c in zip(predicted, given, clean, strict=True):
        if g == c:
            counts["fitted"][0] += p == g
            counts["fitted"][1] += 1
            continue
        counts["memorised"][0] += p == g
        counts["memorised"][1] += 1
        if c >= 0:
            counts["corrected"][0] += p == c
            counts["corrected"][1] += 1
    expected = {name: hits / total for name, (hits, total) in counts.items()}
    assert memorisation(predicted, given, clean) == pytest.approx(expected)


def test_selection_against_a_plain_loop():
    rng = np.random.default_rng(0)
    given, clean = (rng.integers(0, 3, 200) for _ in range(2))
    clean[:20] = -1
    selected = rng.choice([0.0, 0.5, 1.0], 200)
    hits = sum(s for s, g, c in zip(selected, given, clean, strict=True) if g == c)
    found = selection_quality(selected, given, clean)
    assert found == pytest.approx({
        "selection/precision": hits / sum(selected),
        "selection/recall": hits / sum(given == clean),
    })  # fmt: skip
    nothing = {"selection/precision": None, "selection/recall": 0.0}
    assert selection_quality([False, False], [0, 1], [0, 0]) == nothing
    assert selection_quality([True], [0], [1])["selection/recall"] is None
    with pytest.raises(ValueError, match="selected has shape"):
        selection_quality([True], [0, 1], [0, 1])


def test_no_wrong_label_or_no_right_one():
    assert memorisation([0, 1], [0, 1], [0, 1]) == {
        "memorised": None,
        "corrected": None,
        "fitted": 1.0,
    }
    assert confidence_split([0.5], [0], [1]) == {"confidence/clean": None, "confidence/noisy": 0.5}


@sweep("bad", [[0.5, 1.0], [[0], [1]], [0]])
def test_labels_that_are_none(bad):
    with pytest.raises(ValueError, match="given"):
        memorisation([0, 1], bad, [0, 1])


def test_retention_and_scores_of_a_head():
    net = nn.Sequential(nn.Linear(4, 600), nn.ReLU(), SEMLinear(600, 3))
    assert score_snapshot(nn.Linear(2, 2)) is None
    net(torch.randn(16, 4))
    head = net[2]
    assert retention(net) == pytest.approx(float((head.last_mask != 0).float().mean()))
    snapshot = score_snapshot(net)
    assert snapshot is not None
    assert snapshot.scores.shape == (3, 256)
    assert snapshot.scores.dtype == torch.float16
    assert int(snapshot.histogram.sum()) == 1800
    kept = head.scores[:, snapshot.columns]
    assert torch.allclose(snapshot.scores.float(), kept, atol=1e-3)
    assert snapshot.columns.tolist() == sorted(set(snapshot.columns.tolist()))


def test_trust_tells_small_losses_from_large_and_never_rises_with_the_loss():
    rng = np.random.default_rng(0)
    losses = np.r_[rng.gamma(2.0, 0.1, 700), rng.normal(3.0, 0.5, 300)]
    trust = trust_from_losses(losses)
    assert trust.dtype == np.float32
    assert (trust[:700] > 0.5).mean() > 0.97
    assert (trust[700:] < 0.5).mean() > 0.97
    ordered = trust[np.argsort(losses)]
    assert (np.diff(ordered) <= 1e-6).all()


def test_trust_without_evidence():
    assert trust_from_losses(np.full(5, 0.3)).tolist() == [1.0] * 5
