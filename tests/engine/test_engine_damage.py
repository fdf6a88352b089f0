"""Damaged weights and values that are no numbers: an error, never a prediction."""

from __future__ import annotations

import json
import math
import shutil

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

import edgemask as em
from edgemask.data import from_arrays
from edgemask.engine import evaluate, export, load_run, predict
from edgemask.engine.deploy import read_weights
from edgemask.errors import UserError

FEATURES = np.random.default_rng(0).normal(size=(90, 5)).astype(np.float32)
LABELS = np.arange(90) % 3


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "table"
    inputs = FEATURES + LABELS[:, None]
    return em.fit(inputs, LABELS, model="mlp", epochs=3, batch_size=30, out=path)


@pytest.fixture
def run(finished, tmp_path):
    shutil.copytree(finished.path, tmp_path / "run")
    return load_run(tmp_path / "run")


USES = {
    "predict": lambda run, folder: predict(run, FEATURES),
    "eval": lambda run, folder: evaluate(run, data=_bundle()),
    "export": lambda run, folder: export(run, folder / "model.safetensors"),
    "Run.model": lambda run, folder: run.model,
}


def _bundle():
    return from_arrays(FEATURES, LABELS, x_test=FEATURES, y_test=LABELS)


def _rewrite(run, change, *, checksum: bool) -> None:
    """Change the weights, and leave out the checksum or not."""
    path = run.folder / "model.safetensors"
    with safe_open(path, framework="pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        about = json.loads(file.metadata()["edgemask"])
    change(tensors)
    if not checksum:
        del about["sha256"]
    changed = path.with_suffix(".changed")  # the tensors may be views of the file itself
    save_file(tensors, changed, metadata={"edgemask": json.dumps(about)})
    changed.replace(path)


@pytest.mark.parametrize("use", USES)
def test_a_flipped_bit_in_the_weights_is_noticed(use, run, tmp_path):
    USES[use](run, tmp_path)
    path = run.folder / "model.safetensors"
    content = path.read_bytes()
    start = 8 + int.from_bytes(content[:8], "little")
    for place in np.random.default_rng(1).integers(start, len(content), 5):
        flipped = bytearray(content)
        flipped[place] ^= 1 << int(place % 8)
        path.write_bytes(flipped)
        with pytest.raises(UserError, match=r"model\.safetensors is damaged: its checksum"):
            USES[use](load_run(run.path), tmp_path)


@pytest.mark.parametrize("use", USES)
def test_weights_that_are_no_numbers_are_refused(use, run, tmp_path):
    def spoil(tensors):
        name = next(name for name in tensors if name.endswith("weight"))
        tensors[name][0] = math.nan

    _rewrite(run, spoil, checksum=False)
    with pytest.raises(
        UserError, match=r"model\.safetensors: the weights .*weight are not numbers"
    ):
        USES[use](load_run(run.path), tmp_path)


def test_weights_without_a_checksum_are_read(run):
    """Folders of earlier versions have none."""
    before, about = read_weights(run.folder / "model.safetensors")
    _rewrite(run, lambda tensors: None, checksum=False)
    after, same = read_weights(run.folder / "model.safetensors")
    assert same == about
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_a_model_whose_outputs_are_no_numbers_predicts_nothing(run, tmp_path):
    with torch.no_grad():
        next(run.model.parameters()).fill_(math.nan)
    for use, word in (("predict", "output for 0 is not a number"), ("eval", "90 of 90 samples")):
        with pytest.raises(UserError, match=word):
            USES[use](run, tmp_path)
    with pytest.raises(UserError, match="outputs are not finite"):
        USES["export"](run, tmp_path)
    assert not (tmp_path / "model.safetensors").exists()


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_inputs_that_are_no_numbers_are_refused(value, run):
    inputs = FEATURES.copy()
    inputs[7, 2] = inputs[30, 0] = value
    with pytest.raises(UserError, match=r"input 7 holds values that are not finite.*2 of 90"):
        predict(run, inputs)
