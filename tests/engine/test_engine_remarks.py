"""A run says when it has lost a class, learnt nothing, or is tested on noisy labels."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import edgemask as em
from edgemask.engine.remarks import run_remarks
from edgemask.errors import TrainingWarning


def two_blobs(count=200):
    rng = np.random.default_rng(0)
    y = np.arange(count) % 2
    return (6 * y[:, None] + rng.normal(0, 1, (count, 3))).astype(np.float32), y


def test_a_run_at_chance_says_so(tmp_path):
    x, y = two_blobs()
    with pytest.warns(TrainingWarning, match="stayed at chance|has lost it"):
        run = em.fit(0 * x, y, epochs=1, out=tmp_path / "run")
    assert any("stayed at chance" in text for text in run.summary["remarks"])
    assert any("labels are as noisy" in text for text in run.summary["remarks"])


def test_a_lost_class_is_named():
    names = ("ant", "bee", "cat", "dog")
    data = SimpleNamespace(
        bundle=SimpleNamespace(num_classes=4, class_names=names, clean_test=True)
    )
    given = np.repeat([0, 1, 2, 3], [300, 300, 200, 10])
    # Bees are predicted twice; dogs never, but there are only ten.
    predicted = np.where(given == 1, 0, np.where(given == 3, 2, given))
    predicted[[300, 301]] = 1
    (text,) = run_remarks(data, SimpleNamespace(labels=given, predicted=predicted))
    assert text.startswith("the class 'bee' is given to 300 training samples and predicted for 2")
    predicted[302:310] = 1
    assert run_remarks(data, SimpleNamespace(labels=given, predicted=predicted)) == []


def test_a_good_run_says_nothing(tmp_path, recwarn):
    x, y = two_blobs()
    run = em.fit(x, y, test=(x, y), epochs=15, lr=0.05, out=tmp_path / "run")
    assert run.summary["remarks"] == []
    assert not [w for w in recwarn if w.category is TrainingWarning]


def test_a_mask_that_keeps_few_edges_of_many_classes_is_named():
    names = tuple(f"class {i}" for i in range(100))
    data = SimpleNamespace(
        bundle=SimpleNamespace(num_classes=100, class_names=names, clean_test=True)
    )
    labels = np.repeat(np.arange(100), 5)
    train = SimpleNamespace(labels=labels, predicted=labels)
    (text,) = run_remarks(data, train, 0.03)
    assert text.startswith("the head kept 3.0 % of its edges in the last step")
    assert run_remarks(data, train, 0.25) == run_remarks(data, train) == []
    data.bundle.num_classes = 10
    assert run_remarks(data, SimpleNamespace(labels=labels % 10, predicted=labels % 10), 0.03) == []
