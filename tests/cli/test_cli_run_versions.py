"""Run folders of every schema version open in report, eval and predict."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from edgemask.data import load

FOLDERS = Path(__file__).parent.parent / "fixtures" / "runs"
VERSIONS = sorted(path.name for path in FOLDERS.iterdir())


@pytest.fixture(params=VERSIONS)
def stored(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of a run folder that was written by the version of EdgeMask that it is named after."""
    return Path(shutil.copytree(FOLDERS / request.param, tmp_path / "run"))


def test_there_is_a_folder_of_the_first_version():
    assert "v1" in VERSIONS


def test_report_shows_the_numbers_of_the_run(call, stored):
    call("report", stored)
    summary = json.loads((stored / "summary.json").read_text())
    html = (stored / "report.html").read_text()
    assert f"{100 * summary['test/accuracy']['last']:.2f}" in html
    assert "What is missing" not in html


def test_eval_gives_the_accuracy_of_the_run(read, stored):
    summary = json.loads((stored / "summary.json").read_text())
    assert read("eval", stored)["test/accuracy"] == summary["test/accuracy"]["last"]


def test_predict_gives_the_predictions_of_the_run(call, stored, tmp_path):
    split = load("digits").train
    np.savez(tmp_path / "new.npz", x=split.raw(torch.arange(200)).numpy())
    rows = json.loads(call("predict", stored, "--npz", tmp_path / "new.npz").stdout)
    samples = dict(np.load(stored / "samples.npz"))
    predicted = samples["predicted"][np.argsort(samples["index"])][:200]
    assert [row["label"] for row in rows] == predicted.tolist()
