"""What the docs say is so."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict

from edgemask import noise
from edgemask.errors import UserError

PAGE = Path(__file__).parents[2] / "docs" / "noise.md"
MODULES = [
    "edgemask.noise",
    *(f"edgemask.noise.{m.name}" for m in pkgutil.iter_modules(noise.__path__)),
]
ROWS = re.findall(
    r"^\| (cifar\d+) (\S+) \| (.*) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE
)

NUMBERS = r" \| ".join([r"(0\.\d\d)"] * 3)
ESTIMATES = re.findall(
    rf"^\| (\S+) \| {NUMBERS} \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE
)


def test_the_page():
    failed, tried = doctest.testfile(str(PAGE), module_relative=False, encoding="utf-8")
    assert tried > 20
    assert not failed


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name):
    assert not doctest.testmod(importlib.import_module(name)).failed


@pytest.mark.data
@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row[0]}-{row[1]}")
def test_measured_rates(row, data_root):
    dataset, spec, cells = row
    classes = int(dataset.removeprefix("cifar"))
    labels = np.load(data_root / "cifar-n.npz")[f"c{classes}_clean_label"]
    measured = []
    for protocol in noise.PROTOCOLS:
        seed = 0 if protocol == "nust" else 123
        try:
            made = noise.make(spec, labels, classes, dataset=dataset, protocol=protocol, seed=seed)
            measured.append(f"{100 * made.realised_rate:.2f}")
        except UserError:
            measured.append("–")
    assert cells.split(" | ") == measured


@pytest.mark.parametrize("row", ESTIMATES, ids=lambda row: row[0])
def test_measured_estimates(row):
    spec, *cells = row
    images, truth = load_digits(return_X_y=True)
    made = noise.make(spec, truth, 10, dataset="digits", seed=0)
    model = LogisticRegression(max_iter=300, C=0.01)
    chances = cross_val_predict(model, images / 16, made.noisy, cv=5, method="predict_proba")
    losses = -np.log(chances[np.arange(len(truth)), made.noisy] + 1e-12)
    measured = [
        made.realised_rate,
        noise.estimate_rate(losses),
        noise.confident_rate(chances, made.noisy),
    ]
    # other versions of scikit-learn may differ in the third digit
    assert measured == pytest.approx([float(cell) for cell in cells], abs=0.01)


def test_the_table_was_found():
    assert len(ROWS) == 12
    assert len(ESTIMATES) == 5
