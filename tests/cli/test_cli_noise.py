"""Label files: making them, looking into them, training with them."""

from __future__ import annotations

import numpy as np
import pytest

from cli_helpers import SMALL
from edgemask.data import load
from edgemask.noise import NoisyLabels


@pytest.fixture(scope="module")
def labels(call, tmp_path_factory):
    path = tmp_path_factory.mktemp("labels") / "digits.npz"
    call("noise", "make", "--data", "digits", "--noise", "sym:0.4", "--seed", 5, "--out", path)
    return path


def test_the_file_holds_what_was_asked_for(labels):
    found = NoisyLabels.load(labels)
    assert (found.kind, found.rate, found.seed) == ("symmetric", 0.4, 5)
    assert (found.clean == load("digits").train.labels).all()
    assert found.realised_rate == pytest.approx(0.4, abs=0.01)


def test_show_prints_rates_and_matrix(call, labels):
    text = call("noise", "show", labels).stdout
    assert "realised rate" in text
    rows = [line.split() for line in text.splitlines()[-10:]]
    matrix = np.array([[float(cell) for cell in row[1:]] for row in rows])
    assert matrix.shape == (10, 10)
    assert matrix.sum(1) == pytest.approx(100, abs=0.6)


def test_show_reads_the_labels_of_a_run(read, trained):
    found = read("noise", "show", trained)
    assert found["kind"] == "symmetric"
    assert np.array(found["transition"]).sum(1) == pytest.approx(1)


def test_the_file_is_trained_with(read, labels):
    plan = read("train", "--data", "digits", "--noise", f"file:{labels}", "--dry-run")["plan"]
    assert "0.4" in plan["labels"]


def test_a_file_is_not_replaced_without_being_told(call, labels):
    again = ("noise", "make", "--data", "digits", "--noise", "sym:0.2", "--out", labels)
    before = labels.read_bytes()
    assert "--force" in call(*again, code=2).stderr
    assert labels.read_bytes() == before


def test_a_label_file_has_its_suffix(call, tmp_path):
    arguments = ("noise", "make", "--data", "digits", "--noise", "sym:0.2", "--out", tmp_path / "x")
    assert ".npz" in call(*arguments, code=2).stderr


def test_unknown_noise_is_explained(call, tmp_path):
    message = call(
        "noise", "make", "--data", "digits", "--noise", "syn:0.2", "--out", tmp_path / "x.npz",
        code=2,
    ).stderr  # fmt: skip
    assert "did you mean 'sym'" in message


def test_show_needs_a_manifest(call, tmp_path):
    assert "no noise manifest" in call("noise", "show", tmp_path / "no.npz", code=2).stderr


def test_another_rate_is_another_run(read):
    first = read("train", *SMALL, "--dry-run")["plan"]["config_hash"]
    second = read("train", *SMALL, "--noise", "sym:0.5", "--dry-run")["plan"]["config_hash"]
    assert first != second
