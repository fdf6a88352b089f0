"""Selectors and refiners against plain loops and scikit-learn."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import jensenshannon

from edgemask.methods.parts.neighbours import Neighbours
from edgemask.methods.parts.pseudo_labels import (
    count_labels,
    flattened,
    least_likely,
    neighbour_target,
    partial_labels,
    smoothed_labels,
    top_classes,
)
from edgemask.methods.parts.selection import (
    balanced_indices,
    cleanness,
    keep_count,
    small_loss,
)
from sweeps import sweep


@given(st.lists(st.floats(0, 10), min_size=1, max_size=30), st.floats(0, 1))
def test_small_loss_keeps_the_smallest(losses, drop):
    kept = small_loss(torch.tensor(losses), drop).tolist()
    count = math.floor((1 - drop) * len(losses) + 1e-9)
    by_loop = sorted(range(len(losses)), key=lambda i: (torch.tensor(losses[i]).item(), i))
    assert kept == by_loop[:count]


def test_full_and_empty_selections():
    losses = torch.tensor([2.0, 1.0, 3.0])
    assert sorted(small_loss(losses, 0.0).tolist()) == [0, 1, 2]
    assert small_loss(losses, 1.0).tolist() == []
    assert small_loss(losses[:1], 0.5).tolist() == []


def test_keep_count_survives_binary_fractions():
    assert [keep_count(10, tenth / 10) for tenth in range(11)] == list(range(10, -1, -1))


def test_cleanness_is_one_minus_js_in_base_two():
    p, q = torch.rand(5, 4).softmax(dim=1), torch.rand(5, 4).softmax(dim=1)
    expected = [1 - jensenshannon(a, b, 2) ** 2 for a, b in zip(p, q, strict=True)]
    assert cleanness(p, q).tolist() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("classes", "smoothing", "right", "uniform"), [(80, 0.6, 0.604, 0.800), (14, 0.7, 0.507, 0.934)]
)
def test_a_sure_and_right_prediction_is_less_clean_than_a_uniform_one(
    classes, smoothing, right, uniform
):
    label = smoothed_labels(torch.tensor([0]), classes, smoothing)
    sure = torch.nn.functional.one_hot(torch.tensor([0]), classes).float()
    assert float(cleanness(sure, label)) == pytest.approx(right, abs=1e-3)
    flat = torch.full((1, classes), 1 / classes)
    assert float(cleanness(flat, label)) == pytest.approx(uniform, abs=1e-3)
    assert float(cleanness(label, label)) == 1


@given(st.lists(st.integers(0, 4), max_size=40), st.integers(0, 5))
def test_every_class_is_repeated_to_the_size_of_the_largest(labels, seed):
    positions = torch.arange(len(labels)) + 100
    generator = torch.Generator().manual_seed(seed)
    drawn = balanced_indices(positions, torch.tensor(labels, dtype=torch.long), generator).tolist()
    size = max((labels.count(label) for label in labels), default=0)
    for label in set(labels):
        members = [int(positions[i]) for i, given in enumerate(labels) if given == label]
        counts = [drawn.count(member) for member in members]
        assert sum(counts) == size
        assert max(counts) - min(counts) <= 1
    assert len(drawn) == size * len(set(labels))


def test_neighbour_target_by_loops():
    logits = torch.randn(6, 3)
    similarity = torch.tensor([[0.9, 0.4, -0.2], [-0.1, -0.5, -torch.inf]])
    around = Neighbours(similarity, torch.tensor([[0, 3, 5], [1, 2, 4]]))
    target, found = neighbour_target(around, logits)
    weights = [max(s, 0) ** 0.3 for s in (0.9, 0.4, -0.2)]
    answers = (logits / 2).softmax(dim=1)
    expected = sum(w * answers[n] for w, n in zip(weights, (0, 3, 5), strict=True)) / sum(weights)
    assert target[0].tolist() == pytest.approx(expected.tolist(), rel=1e-5)
    assert found.tolist() == [True, False]


def test_smoothed_labels_sum_to_one():
    labels = torch.tensor([0, 3])
    target = smoothed_labels(labels, 4, 0.6)
    assert target.sum(dim=1).tolist() == pytest.approx([1, 1])
    assert target.argmax(dim=1).tolist() == [0, 3]
    assert target[0].tolist() == pytest.approx([0.4, 0.2, 0.2, 0.2])


def test_top_classes_and_more_than_there_are():
    logits = torch.tensor([[3.0, 1.0, 2.0], [0.0, 5.0, -1.0]])
    assert top_classes(logits, 2).tolist() == [[True, False, True], [True, True, False]]
    assert top_classes(logits, 9).all()


def test_count_labels_by_loops_and_without_votes():
    counts = torch.tensor([[1.0, 3.0, 0.0], [0.0, 0.0, 0.0]])
    hard, soft, confidence = count_labels(counts)
    assert hard[0] == 1
    assert soft[0].tolist() == [0.25, 0.75, 0]
    assert soft[1].tolist() == pytest.approx([1 / 3] * 3)
    assert confidence.tolist() == pytest.approx([0.75, 1 / 3])


def test_partial_labels_by_loops():
    teacher = torch.randn(4, 6).softmax(dim=1)
    target, weight = partial_labels(teacher, 3, 0.1)
    for row, t, w in zip(teacher.tolist(), target.tolist(), weight.tolist(), strict=True):
        top = sorted(range(6), key=lambda c: -row[c])[:3]
        u = [p / 0.1 if c in top else p for c, p in enumerate(row)]
        total = sum(math.exp(v) for v in u)
        assert t == pytest.approx([math.exp(v) / total for v in u], rel=1e-4)
        assert w == pytest.approx(math.sqrt(sum(row[c] for c in top)), rel=1e-5)


@sweep("count", [1, 6, 20])
def test_partial_labels_with_one_candidate_or_all(count):
    teacher = torch.randn(4, 6).softmax(dim=1)
    target, weight = partial_labels(teacher, count, 0.1)
    assert torch.equal(target, teacher)
    assert weight.tolist() == pytest.approx([math.sqrt(max(row)) for row in teacher.tolist()])


def test_partial_label_of_a_sure_teacher():
    # 0.9 on one class, the rest even over 99: the target is almost as sure, not surer.
    teacher = torch.full((1, 100), 0.1 / 99)
    teacher[0, 7] = 0.9
    target, _ = partial_labels(teacher, 5, 0.1)
    assert float(target[0, 7]) == pytest.approx(0.988, abs=0.003)


def test_least_likely_class_and_its_weight():
    label, weight = least_likely(torch.tensor([[0.7, 0.1, 0.2], [0.2, 0.3, 0.5]]))
    assert label.tolist() == [1, 0]
    assert weight.tolist() == pytest.approx([0.81, 0.64])


def test_flattened_is_nearly_uniform():
    teacher = torch.full((1, 80), 0.5 / 79)
    teacher[0, 3] = 0.5
    flat = flattened(teacher, 10.0)
    assert 0.0125 - 1e-4 < float(flat.min()) < float(flat.max()) < 0.0132
