"""The heads that the suite compares masking with do what their names say."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import edgemask as em

SUITE = Path(__file__).parents[2] / "benchmarks" / "suite"


@pytest.fixture
def controls(monkeypatch):
    monkeypatch.syspath_prepend(str(SUITE))
    import controls

    return controls


@pytest.mark.parametrize("weighted", [True, False])
def test_matched_keeps_edges_at_the_rate_of_the_cap(controls, weighted):
    torch.manual_seed(0)
    head = controls.MatchedLinear(300, 40, cap=0.3, weighted=weighted, seed=1)
    inputs = torch.rand(16, 300)
    kept = head.next_mask(inputs).float().mean().item()
    weights = head.weight.detach()
    activations = [
        [(w * inputs[:, k]).square().mean().sqrt().item() for k, w in enumerate(row)]
        for row in weights
    ]
    flat = [a for row in activations for a in row]
    low, high = min(flat), max(flat)
    chances = [min((a - low) / (high - low), 0.3) for a in flat]
    shares = [a * a if weighted else 1.0 for a in flat]
    rate = sum(c * s for c, s in zip(chances, shares, strict=True)) / sum(shares)
    # 12,000 edges: five standard deviations of the share kept
    assert kept == pytest.approx(rate, abs=5 * (rate * (1 - rate) / len(flat)) ** 0.5)


def test_the_matched_rates_differ_where_scores_do(controls):
    torch.manual_seed(0)
    inputs = torch.rand(16, 300)
    plain, weighted = (
        controls.MatchedLinear(300, 40, cap=0.3, weighted=flag, seed=1) for flag in (False, True)
    )
    weighted.load_state_dict(plain.state_dict())
    assert weighted.next_mask(inputs).float().mean() > plain.next_mask(inputs).float().mean()


def test_a_bounded_layer_has_rows_within_its_bound(controls):
    head = controls.BoundedLinear(50, 4, bound=0.3)
    head(torch.rand(2, 50))
    assert head.weight.norm(dim=1).max() <= 0.3 + 1e-6


def test_a_decayed_layer_adds_its_weights_to_the_gradient(controls):
    model = em.attach(torch.nn.Sequential(torch.nn.Linear(5, 3)), controls.DecayedLinear, decay=0.1)
    model(torch.zeros(2, 5)).sum().backward()
    torch.testing.assert_close(model[0].weight.grad, 0.1 * model[0].weight.detach())
    torch.testing.assert_close(model[0].bias.grad, 2.0 + 0.1 * model[0].bias.detach())
