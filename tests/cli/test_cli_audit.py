"""The verb ``audit``."""

from __future__ import annotations

import csv

import numpy as np
import pytest

from edgemask import noise


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 3, 150)
    x = (4 * np.eye(3, 4)[truth] + rng.normal(0, 0.7, (150, 4))).astype(np.float32)
    made = noise.make("sym:0.2", truth, 3, seed=0)
    path = tmp_path_factory.mktemp("data") / "table.npz"
    names = np.array(["ant", "bee", "<cat>"])
    np.savez(path, x=x, y=made.noisy, x_test=x[:1], y_test=made.noisy[:1], class_names=names)
    return path


def test_it_says_what_it_does_and_finds(call, read, table, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ("audit", f"npz:{table}", "--folds", 2, "--epochs", 8, "--out", "here")
    text = call(*words).stdout
    assert "151 samples, 3 classes; 2 folds: mlp, 8 epochs each; about" in text
    assert "Cannot tell: the model disagrees with" in text
    assert "labels are worth checking, of 151; they may all be right." in text
    assert "How many to check?" in text
    assert "here/report.html" in text
    assert [path.name for path in tmp_path.iterdir()] == ["here"]
    with (tmp_path / "here" / "suspects.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["rank", "id", "given", "suggested", "trust", "reason"]
    assert "<cat>" not in (tmp_path / "here" / "report.html").read_text(encoding="utf-8")
    # Again: nothing is trained.
    facts = read(*words)
    assert facts["listed"] == len(rows) == len(facts["suspects"])
    assert facts["rate"]["kind"] == "cannot tell"
    # Before its end there is nothing to show but how far it is.
    (tmp_path / "here" / "audit.json").unlink()
    next((tmp_path / "here").glob("runs/*/summary.json")).unlink()
    text = call("report", "here", code=2).output
    assert "the audit in 'here' is not finished: 1 of 2 folds are trained; the same" in text


def test_without_a_folder_the_name_is_that_of_the_command(call, table, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save(tmp_path / "features.npy", np.load(table)["x"][[*range(150), 0]])
    words = ("audit", f"npz:{table}", "--features", "features.npy", "--quiet")
    first = call(*words).stdout
    again = call(*words).stdout
    (folder,) = (tmp_path / "audits").iterdir()
    assert folder.name.startswith("table-")
    assert f"audits/{folder.name}/report.html" in first
    assert first == again


def test_mistakes_are_one_line(call, table):
    text = call("audit", f"npz:{table}", "--fast", "--run", "nowhere", code=2).output
    assert "fast and run are two ways to judge labels; choose one" in text
    assert "no such file" in call("audit", "npz:nowhere.npz", code=2).output
