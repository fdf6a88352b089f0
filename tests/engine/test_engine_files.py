"""Files and checkpoints: whole or absent."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch

from edgemask._files import atomic_write, write_arrays, write_json
from edgemask.engine.checkpoint import VERSION, Checkpoints
from edgemask.errors import EdgeMaskWarning, UserError


def test_arrays_are_what_was_given_and_never_objects(tmp_path):
    write_arrays(tmp_path / "x.npz", {"a": np.arange(3), "b": np.array("text")})
    with np.load(tmp_path / "x.npz", allow_pickle=False) as stored:
        assert sorted(stored) == ["a", "b"]
        assert stored["a"].tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="'a' holds objects"):
        write_arrays(tmp_path / "y.npz", {"a": np.array([{}])})
    assert not (tmp_path / "y.npz").exists()


def test_a_writer_that_fails_leaves_the_old_file(tmp_path):
    path = tmp_path / "x.json"
    write_json(path, {"a": 1})

    def fill_the_disk(file):
        file.write(b"half")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(UserError, match=r"x\.json: No space left on device.*untouched"):
        atomic_write(path, fill_the_disk)
    assert json.loads(path.read_text()) == {"a": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["x.json"]


def test_checkpoints_keep_the_last_two_and_load_the_newest(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    assert checkpoints.load() is None
    for step in (1, 5, 12):
        checkpoints.save({"x": torch.tensor(step), "names": ["a"], "n": None}, step)
    assert [path.name for path in checkpoints.paths()] == ["0000000005.pt", "0000000012.pt"]
    assert checkpoints.load()["x"] == 12


def test_a_broken_last_checkpoint_falls_back_to_the_one_before(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save({"x": 1}, 1)
    last = checkpoints.save({"x": 2}, 2)
    last.write_bytes(last.read_bytes()[:100])
    with pytest.warns(EdgeMaskWarning, match=r"damaged.*0000000002\.pt.*going on from.*1\.pt"):
        assert checkpoints.load()["x"] == 1
    checkpoints.paths()[0].write_bytes(b"")
    with pytest.raises(UserError, match="no checkpoint can be read"):
        checkpoints.load()


def test_any_flipped_bit_of_the_weights_in_a_checkpoint_is_noticed(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    weights = torch.randn(40, 50, generator=torch.Generator().manual_seed(0))
    checkpoints.save({"weights": weights, "old": True}, 1)
    last = checkpoints.save({"weights": weights, "old": False}, 2)
    content = last.read_bytes()
    start = content.index(weights.numpy().tobytes())
    for place in np.random.default_rng(0).integers(0, weights.numel() * 4, 10):
        flipped = bytearray(content)
        flipped[start + place] ^= 1 << int(place % 8)
        last.write_bytes(flipped)
        with pytest.warns(EdgeMaskWarning, match="its checksum does not fit"):
            assert checkpoints.load()["old"]
    last.write_bytes(content)
    assert not checkpoints.load()["old"]


def test_a_checkpoint_of_another_version_is_refused(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    path = checkpoints.save({"x": 1}, 1)
    torch.save({"version": VERSION + 1, "x": 1}, path)
    before = path.read_bytes()
    with pytest.raises(UserError, match=f"version {VERSION + 1}.*reads version {VERSION}"):
        checkpoints.load()
    assert path.read_bytes() == before


def test_checkpoints_run_no_code(tmp_path):
    class Trap:
        def __reduce__(self):
            return (os.system, (f"touch {tmp_path}/sprung",))

    torch.save({"version": VERSION, "x": Trap()}, tmp_path / "0000000001.pt")
    with pytest.raises(UserError, match="no checkpoint can be read"):
        Checkpoints(tmp_path).load()
    assert not (tmp_path / "sprung").exists()


def test_a_folder_that_cannot_be_written():
    with pytest.raises(UserError, match=r"cannot write .*/proc/self/x\.json"):
        write_json(Path("/proc/self/x.json"), {})
