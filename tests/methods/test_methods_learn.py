"""Each method learns digits with 40 % wrong labels better than plain cross entropy does."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from edgemask.engine import load_run, resolve, train
from edgemask.engine.recipes import RECIPES

QUIET = {
    "train": {"record_every": 0},
    "eval": {"every": 5},
    "log": {"trackers": [], "thumbnails": 0},
}


@functools.cache
def plain_accuracy(folder, views):
    """The last epoch of plain cross entropy with the same network, budget and view."""
    layer = RECIPES["digits/josrc"].layer()
    layer["method"] = {"name": "supervised", "options": {"views": views}}
    return train(resolve(layer, QUIET), out=folder).history[-1]["test/accuracy"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("learn")


# The view of its plain rival; floors of accuracy, and of the precision and recall with which it
# trusts labels. Plain cross entropy ends at 0.63 (none) and 0.90 (weak).
FLOORS = {
    "coteaching": ("none", 0.90, 0.90, 0.94),
    "jocor": ("none", 0.93, 0.94, 0.93),
    "ca2c": ("weak", 0.94, 0.96, 0.93),
    "josrc": ("weak", 0.93, 0.96, 0.85),
    "josnc": ("weak", 0.93, 0.95, 0.90),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.long] if name in ("ca2c", "josnc") else [])
        for name in FLOORS
    ],
)
def test_better_than_plain_and_knows_the_wrong_labels(name, folder):
    views, accuracy, precision, recall = FLOORS[name]
    run = train(RECIPES[f"digits/{name}"].config(QUIET), out=folder / name)
    plain = plain_accuracy(folder / f"plain-{views}", views)
    last = run.history[-1]["test/accuracy"]
    samples = load_run(run.path).samples
    right = samples["clean"] == samples["given"]
    trusted = samples["trust"] > 0.5
    assert last > max(plain + 0.02, accuracy)
    assert np.mean(right[trusted]) > precision
    assert np.mean(trusted[right]) > recall
