"""Files of ours: weights, arrays and checkpoints carry checksums that every read compares.

A flipped bit or a file that was cut short is refused, or harmless: nothing that is read differs.
"""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

from edgemask.engine.checkpoint import _read
from edgemask.engine.deploy import read_weights
from edgemask.errors import UserError
from edgemask.noise import NoisyLabels
from edgemask.runs import read_arrays, read_samples
from guarantees.cases import cases

FLIPS = cases(150, 20_000)


def _plain(value):
    """Everything in nested containers as bytes or plain values, so that it can be compared."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "numpy"):
        value = value.detach().numpy()
    return (value.dtype.str, value.shape, value.tobytes()) if hasattr(value, "dtype") else value


def _manifest(path):
    labels = NoisyLabels.load(path)
    return labels.noisy, labels.clean, labels.fingerprint, dict(labels.details)


READERS = {
    "samples.npz": lambda path: read_samples(path.parent),
    "head.npz": read_arrays,
    "thumbnails.npz": read_arrays,
    "noise.npz": _manifest,
    "model.safetensors": read_weights,
    "checkpoints/0000000135.pt": _read,
}
# Whatever a damaged checkpoint raises, the one before it is taken.
REFUSED = {name: Exception if name.endswith(".pt") else UserError for name in READERS}


@pytest.mark.parametrize("name", READERS)
def test_a_flipped_bit_is_refused_or_changes_nothing(name, tmp_path, trained_run):
    shutil.copytree(trained_run, tmp_path / "run")
    path = tmp_path / "run" / name
    path = path if path.is_file() else max(path.parent.glob("*.pt"))
    sound, whole = _plain(READERS[name](path)), path.read_bytes()
    rng = np.random.default_rng(0)
    refused = 0
    for place in rng.integers(0, len(whole), FLIPS // len(READERS)):
        flipped = bytearray(whole)
        flipped[place] ^= 1 << rng.integers(8)
        path.write_bytes(flipped)
        try:
            found = READERS[name](path)
        except REFUSED[name]:
            refused += 1
        else:
            assert _plain(found) == sound, f"bit of byte {place} of {len(whole)}"
    assert refused > FLIPS // len(READERS) // 2
    for length in (0, 1, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        try:
            found = READERS[name](path)
        except REFUSED[name]:
            refused += 1
        else:
            assert _plain(found) == sound, length  # the checksum alone was cut


@pytest.fixture(scope="module")
def trained_run(tmp_path_factory):
    """A small run of this version."""
    from edgemask.engine import resolve, train

    path = tmp_path_factory.mktemp("own") / "run"
    settings = {
        "data": {"spec": "digits", "limit": 200, "test_limit": 100},
        "noise": {"spec": "sym:0.4"},
        "model": {"name": "small-cnn", "width": 0.25},
        "head": {"name": "sem"},
        "train": {"epochs": 1, "batch_size": 32},
        "log": {"trackers": []},
    }
    return train(resolve(settings), out=path).path


def test_no_json_holds_a_number_that_json_has_not(trained_run):
    """NaN and Infinity are no JSON: strict readers refuse the whole file."""

    def strict(text):
        return json.loads(text, parse_constant=pytest.fail)

    strict((trained_run / "summary.json").read_text())
    for line in (trained_run / "metrics.jsonl").read_text().splitlines():
        strict(line)


def test_what_cannot_be_a_number_in_json_is_refused_when_it_is_written(tmp_path):
    from edgemask._files import write_json

    with pytest.raises(ValueError, match="JSON"):
        write_json(tmp_path / "x.json", {"a": float("nan")})
    assert not list(tmp_path.iterdir())
