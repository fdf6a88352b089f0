"""Divergences and loss terms against plain loops and scipy."""

from __future__ import annotations

import math

import pytest
import torch
from scipy.spatial.distance import jensenshannon
from scipy.stats import entropy

from edgemask.methods.parts.losses import (
    info_nce,
    js_divergence,
    kl_divergence,
    negative_entropy,
    negative_learning,
    neighbour_consistency,
    safe_mean,
    symmetric_kl,
)


def distributions(rows, classes):
    return torch.rand(rows, classes, dtype=torch.float64).softmax(dim=1)


@pytest.mark.parametrize("base", [2.0, math.e])
def test_kl_and_js_as_scipy_computes_them(base):
    p, q = distributions(6, 5), distributions(6, 5)
    for row, kl, js in zip(
        range(6),
        kl_divergence(p.log(), q.log(), base=base),
        js_divergence(p, q, base=base),
        strict=True,
    ):
        assert float(kl) == pytest.approx(entropy(p[row], q[row], base=base), abs=1e-12)
        assert float(js) == pytest.approx(jensenshannon(p[row], q[row], base) ** 2, abs=1e-12)


@pytest.mark.parametrize("base", [2.0, math.e])
def test_symmetric_kl_is_both_directions_and_moves_both_sides(base):
    first, second = torch.randn(4, 3, requires_grad=True), torch.randn(4, 3, requires_grad=True)
    p, q = first.softmax(dim=1).detach().numpy(), second.softmax(dim=1).detach().numpy()
    expected = [
        entropy(a, b, base=base) + entropy(b, a, base=base) for a, b in zip(p, q, strict=True)
    ]
    value = symmetric_kl(first, second, base=base)
    assert value.tolist() == pytest.approx(expected, rel=1e-4)
    value.sum().backward()
    assert first.grad.abs().sum() > 0
    assert second.grad.abs().sum() > 0


def test_js_of_certain_and_equal_predictions():
    certain = torch.eye(3)
    assert js_divergence(certain, certain).tolist() == [0, 0, 0]
    assert js_divergence(certain, certain.roll(1, 0)).tolist() == pytest.approx([1, 1, 1])
    # The largest value in base e is ln 2: a threshold of 0.7 can never be reached.
    natural = js_divergence(certain, certain.roll(1, 0), base=math.e)
    assert natural.tolist() == pytest.approx([math.log(2)] * 3)


def test_js_has_a_finite_gradient_at_zero():
    p = torch.tensor([[1.0, 0.0]], requires_grad=True)
    js_divergence(p, torch.tensor([[0.5, 0.5]])).sum().backward()
    assert p.grad.isfinite().all()


def test_negative_entropy_by_loops_and_with_rectified_logits():
    logits = torch.randn(5, 4)
    for rectified in (False, True):
        seen = logits.clamp(min=0) if rectified else logits
        rows = seen.softmax(dim=1).tolist()
        expected = [sum(p * math.log(p) for p in row) for row in rows]
        assert negative_entropy(logits, rectified=rectified).tolist() == pytest.approx(
            expected, rel=1e-5
        )
    below = torch.full((1, 3), -2.0, requires_grad=True)
    negative_entropy(below, rectified=True).sum().backward()
    assert below.grad.abs().sum() == 0


def test_negative_learning_by_loops_for_masks_and_single_classes():
    logits = torch.randn(4, 5)
    wrong = torch.rand(4, 5) > 0.5
    probabilities = logits.softmax(dim=1).tolist()
    expected = [
        -sum(math.log(1 - p) for p, w in zip(row, bad, strict=True) if w)
        for row, bad in zip(probabilities, wrong.tolist(), strict=True)
    ]
    assert negative_learning(logits, wrong).tolist() == pytest.approx(expected, rel=1e-4)
    single = torch.tensor([0, 4, 2, 1])
    expected = [
        -math.log(1 - row[c]) for row, c in zip(probabilities, single.tolist(), strict=True)
    ]
    assert negative_learning(logits, single).tolist() == pytest.approx(expected, rel=1e-4)


def test_negative_learning_of_a_sure_mistake_is_finite():
    logits = torch.tensor([[200.0, 0.0]], requires_grad=True)
    loss = negative_learning(logits, torch.tensor([0]))
    loss.sum().backward()
    assert float(loss.detach()) == pytest.approx(-math.log(1e-7), rel=0.05)
    assert logits.grad.isfinite().all()


def test_info_nce_by_loops():
    def unit(*shape):
        return torch.nn.functional.normalize(torch.randn(*shape), dim=1)

    query, positive, negatives = unit(3, 4), unit(3, 4), unit(7, 4)
    expected = []
    for q, k in zip(query, positive, strict=True):
        top = math.exp(float(q @ k) / 0.1)
        rest = sum(math.exp(float(q @ n) / 0.1) for n in negatives)
        expected.append(-math.log(top / (top + rest)))
    value = info_nce(query, positive, negatives, temperature=0.1)
    assert value.tolist() == pytest.approx(expected, rel=1e-4)
    alone = info_nce(query, positive, torch.empty(0, 4), temperature=0.1)
    assert alone.tolist() == [0, 0, 0]


def test_neighbour_consistency_by_loops():
    logits, target = torch.randn(4, 3), torch.rand(4, 3).softmax(dim=1)
    student = (logits / 2).softmax(dim=1)
    expected = [
        4 * entropy(p, q, base=2) for p, q in zip(student.tolist(), target.tolist(), strict=True)
    ]
    assert neighbour_consistency(logits, target).tolist() == pytest.approx(expected, rel=1e-4)


def test_safe_mean_over_some_all_and_none():
    values = torch.tensor([1.0, 2.0, 6.0], requires_grad=True)
    assert safe_mean(values).item() == 3
    assert safe_mean(values, torch.tensor([0, 2])).item() == 3.5
    nothing = safe_mean(values, torch.zeros(3, dtype=torch.bool))
    nothing.backward()
    assert float(nothing.detach()) == 0
    assert values.grad.tolist() == [0, 0, 0]
