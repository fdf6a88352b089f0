"""Deleting edges one by one, ranks, ranges, and the overlap with CDR."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from scipy.stats import spearmanr

from edgemask.diagnostics import (
    cdr_overlap,
    criteria_histograms,
    criteria_statistics,
    deletion_damage,
    dynamic_range,
    edge_picture,
    kept_edges,
    rank_correlation,
)
from edgemask.heads import CRITERIA, KANLinear


def _layer(classes=3, width=5, samples=40):
    generator = torch.Generator().manual_seed(0)
    v = torch.randn(samples, width, generator=generator, dtype=torch.float64).relu()
    w = torch.randn(classes, width, generator=generator, dtype=torch.float64)
    b = torch.randn(classes, generator=generator, dtype=torch.float64)
    y = torch.randint(0, classes, (samples,), generator=generator)
    return v, w, b, y


def test_damage_of_a_linear_head_is_the_loss_without_the_edge():
    v, w, b, y = _layer()
    damage = deletion_damage(F.linear(v, w, b), y, lambda j: w[j] * v)
    before = F.cross_entropy(F.linear(v, w, b), y)
    for j in range(3):
        for k in range(5):
            without = w.clone()
            without[j, k] = 0.0
            after = F.cross_entropy(F.linear(v, without, b), y)
            assert float(damage[j, k]) == pytest.approx(float(after - before), abs=1e-12)


def test_damage_of_a_kan_edge():
    torch.manual_seed(0)
    head = KANLinear(4, 3).double()
    v = torch.randn(20, 4, dtype=torch.float64)
    y = torch.randint(0, 3, (20,))

    def contribution(j):
        columns = []
        for k in range(4):
            only = torch.zeros(3, 4, dtype=torch.float64)
            only[j, k] = 1.0
            columns.append(head.combine(*head.basis(v), only)[:, j])
        return torch.stack(columns, 1)

    damage = deletion_damage(head(v), y, contribution)
    mask = torch.ones(3, 4, dtype=torch.float64)
    mask[2, 1] = 0.0
    with torch.no_grad():
        after = F.cross_entropy(head.combine(*head.basis(v), mask), y)
        expected = after - F.cross_entropy(head(v), y)
    assert float(damage[2, 1]) == pytest.approx(float(expected), abs=1e-12)


def test_a_certain_prediction_does_not_break_the_damage():
    logits = torch.tensor([[800.0, 0.0], [0.0, 800.0]])
    damage = deletion_damage(logits, torch.tensor([0, 0]), lambda j: torch.ones(2, 3))
    assert torch.isfinite(damage).all()


def test_rank_correlation_against_scipy():
    generator = torch.Generator().manual_seed(0)
    first = torch.randint(0, 6, (200,), generator=generator)
    second = first + torch.randint(0, 5, (200,), generator=generator)
    assert rank_correlation(first, second) == pytest.approx(spearmanr(first, second).statistic)
    assert rank_correlation([1, 1, 1], [1, 2, 3]) is None


def test_the_square_of_a_score_has_the_square_of_its_range():
    v, w, b, y = _layer()
    values = criteria_statistics(v, w, b, y)
    rms, square = (values[f"criteria/{name}/range"] for name in ("rms", "second_moment"))
    assert square == pytest.approx(rms**2, rel=1e-6)
    assert values["criteria/rms/damage"] == pytest.approx(values["criteria/second_moment/damage"])
    assert values["criteria/second_moment/mean"] < values["criteria/rms/mean"]
    assert dynamic_range(torch.tensor([0.0, 2.0, 8.0])) == 4.0
    assert dynamic_range(torch.zeros(3)) is None


def test_histograms_are_shares():
    v, w, b, _ = _layer()
    histograms = criteria_histograms(v, w, b, bins=10)
    assert set(histograms) == set(CRITERIA)
    assert all(float(h.sum()) == pytest.approx(1.0) for h in histograms.values())


def test_overlap_with_cdr_against_autograd():
    v, w, b, y = _layer()
    weight = w.clone().requires_grad_()
    F.cross_entropy(F.linear(v, weight, b), y).backward()
    importance = (weight.grad * w).abs().flatten().tolist()
    critical = set(sorted(range(15), key=lambda e: -importance[e])[:6])
    mask = torch.zeros(3, 5)
    mask.flatten()[[0, 3, 7, 11]] = 2.0
    found = cdr_overlap(v, w, b, y, mask, tau=0.6)
    both = len(critical & {0, 3, 7, 11})
    assert found == pytest.approx(
        {"cdr/critical_of_kept": both / 4, "cdr/kept_of_critical": both / 6, "cdr/critical": 0.4}
    )
    with pytest.raises(ValueError, match="tau"):
        cdr_overlap(v, w, b, y, mask, tau=1.5)


def test_edge_picture_shows_certain_edges_and_no_impossible_ones():
    keep = torch.zeros(3, 40)
    keep[1] = 1.0
    assert sorted(kept_edges(keep, features=8)) == [(k, 1) for k in range(8)]
    figure = edge_picture({"start": torch.ones(3, 40), "end": keep}, features=8)
    lines = [len(axis.lines) for axis in figure.axes]
    assert lines == [24, 8]
    assert "33 % kept" in figure.axes[1].get_title()
