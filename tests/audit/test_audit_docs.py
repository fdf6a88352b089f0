"""What the page says is so."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict

from edgemask import audit, noise
from sweeps import sweep

PAGE = Path(__file__).parents[2] / "docs" / "audit.md"
NUMBERS = r" \| ".join([r"(0\.\d\d)"] * 3)
ESTIMATES = re.findall(
    rf"^\| (\S+) \| {NUMBERS} \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE
)


def test_the_page():
    failed, tried = doctest.testfile(str(PAGE), module_relative=False, encoding="utf-8")
    assert tried > 8
    assert not failed


@sweep("name", ["fit_two_components", "estimate_rate", "confident_rate"])
def test_names_that_moved_say_where(name):
    with pytest.raises(ImportError, match=f"edgemask.noise.{name} is now edgemask.audit.{name}"):
        getattr(noise, name)


def test_the_table_was_found():
    assert len(ESTIMATES) == 5


@sweep("row", ESTIMATES)
def test_measured_estimates(row):
    spec, *cells = row
    images, truth = load_digits(return_X_y=True)
    made = noise.make(spec, truth, 10, dataset="digits", seed=0)
    model = LogisticRegression(max_iter=300, C=0.01)
    probs = cross_val_predict(model, images / 16, made.noisy, cv=5, method="predict_proba")
    losses = -np.log(probs[np.arange(len(truth)), made.noisy] + 1e-12)
    measured = [
        made.realised_rate,
        audit.estimate_rate(losses),
        audit.confident_rate(probs, made.noisy),
    ]
    # other versions of scikit-learn may differ in the third digit
    assert measured == pytest.approx([float(cell) for cell in cells], abs=0.01)
