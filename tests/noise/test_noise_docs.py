"""What the docs say is so."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import numpy as np
import pytest

from edgemask import noise
from edgemask.errors import UserError

PAGE = Path(__file__).parents[2] / "docs" / "noise.md"
ROWS = re.findall(
    r"^\| (cifar\d+) (\S+) \| (.*) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE
)


def test_the_page():
    failed, tried = doctest.testfile(str(PAGE), module_relative=False, encoding="utf-8")
    assert tried >= 15
    assert not failed


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


def test_the_table_was_found():
    assert len(ROWS) == 12
