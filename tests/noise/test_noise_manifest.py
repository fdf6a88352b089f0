"""NoisyLabels: what it derives, that it cannot be changed, and that a file of it is trustworthy."""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import json
import pickle
import zipfile

import numpy as np
import pytest

from edgemask import noise
from edgemask.errors import DataError, UserError
from edgemask.noise import NoisyLabels
from sweeps import sweep


@pytest.fixture
def made() -> NoisyLabels:
    return noise.symmetric(np.arange(200) % 5, 0.4, 5, seed=3)


def test_derived_values_against_plain_loops():
    rng = np.random.RandomState(0)
    clean, noisy = rng.randint(0, 4, 300), rng.randint(0, 4, 300)
    labels = NoisyLabels(clean=clean, noisy=noisy, num_classes=5, kind="x")
    assert labels.realised_rate == sum(a != b for a, b in zip(clean, noisy, strict=True)) / 300
    for i in range(4):
        members = [b for a, b in zip(clean, noisy, strict=True) if a == i]
        for j in range(5):
            assert labels.transition[i, j] == pytest.approx(members.count(j) / len(members))
    assert labels.transition[4].tolist() == [0, 0, 0, 0, 1]  # a class without samples
    assert labels.wrong.tolist() == (clean != noisy).tolist()
    assert len(labels) == 300


def test_unknown_truth_stays_unknown():
    labels = noise.given([0, 1, 2], 3)
    assert labels.clean is None
    assert labels.realised_rate is None
    assert labels.transition is None
    assert labels.wrong is None
    assert labels.open_set is None


def test_foreign_samples_count_as_wrong_but_not_in_the_matrix():
    labels = NoisyLabels(clean=[0, 1, -1, -1], noisy=[0, 1, 1, 0], num_classes=2, kind="x")
    assert labels.realised_rate == 0.5
    assert labels.transition.tolist() == [[1, 0], [0, 1]]
    assert labels.open_set.tolist() == [False, False, True, True]


def test_it_cannot_be_changed(made):
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.rate = 0.1
    for array in (made.clean, made.noisy, made.transition):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


def test_it_does_not_share_memory_with_its_source():
    source = np.array([0, 1, 1])
    labels = noise.given(source, 2)
    source[:] = 0
    assert labels.noisy.tolist() == [0, 1, 1]


def test_fingerprint_tells_apart_what_matters(made):
    prints = {made.fingerprint}
    noisy = made.noisy.copy()
    noisy[0] = (noisy[0] + 1) % 5
    for change in (
        {"noisy": noisy},
        {"clean": None},
        {"num_classes": 6},
        {"seed": 4},
        {"protocol": "jal"},
        {"rate": 0.41},
        {"kind": "other"},
    ):
        fields = {
            "clean": made.clean,
            "noisy": made.noisy,
            "num_classes": 5,
            "kind": made.kind,
            "protocol": made.protocol,
            "rate": made.rate,
            "seed": made.seed,
        }
        prints.add(NoisyLabels(**(fields | change)).fingerprint)
    assert len(prints) == 8
    again = noise.symmetric(list(made.clean), 0.4, 5, seed=3)
    assert again.fingerprint == made.fingerprint
    assert len(made.fingerprint) == 64


def test_fingerprint_is_the_same_for_ever():
    # A run that was started with an older version has to find its labels again.
    record = (
        '{"format": "edgemask-noise-1", "kind": "given", "num_classes": 3, '
        '"protocol": null, "rate": null, "seed": null}'
    )
    body = b"\0noisy\x003\0" + np.array([2, 0, 1], dtype="<i8").tobytes()
    expected = hashlib.sha256(record.encode() + body).hexdigest()
    assert noise.given([2, 0, 1], 3).fingerprint == expected


@sweep(
    "labels",
    [
        noise.asymmetric(np.arange(100) % 10, 0.4, 10),
        noise.open_set(np.arange(100) % 10, 0.4, 10),
        noise.given([0, 1, 1], 2),
    ],
)
def test_save_and_load(labels, tmp_path):
    path = labels.save(tmp_path / "deep" / "noise.npz")
    loaded = NoisyLabels.load(path)
    assert loaded.fingerprint == labels.fingerprint
    assert loaded.details == labels.details
    assert loaded.summary() == labels.summary()
    np.testing.assert_array_equal(loaded.noisy, labels.noisy)
    assert [p.name for p in path.parent.iterdir()] == ["noise.npz"]  # nothing half-written is left


def test_failed_save_leaves_the_old_file(made, tmp_path, monkeypatch):
    path = made.save(tmp_path / "noise.npz")
    before = path.read_bytes()

    def full_disk(*args, **kwargs):
        raise OSError("no space left on device")

    monkeypatch.setattr(np, "savez_compressed", full_disk)
    with pytest.raises(UserError, match=r"cannot write .*no space"):
        noise.given([0, 1], 2).save(path)
    assert path.read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("keep", [0, 1, 30, 0.5, 0.9, -1])
def test_truncated_file(made, tmp_path, keep):
    path = made.save(tmp_path / "noise.npz")
    content = path.read_bytes()
    path.write_bytes(content[: keep if isinstance(keep, int) else int(keep * len(content))])
    with pytest.raises(DataError, match=r"noise\.npz"):
        NoisyLabels.load(path)


def test_every_flipped_byte_is_noticed_or_harmless(made, tmp_path):
    path = made.save(tmp_path / "noise.npz")
    content = path.read_bytes()
    noticed = 0
    for position in range(0, len(content), 7):
        broken = bytearray(content)
        broken[position] ^= 0xFF
        path.write_bytes(bytes(broken))
        try:  # a byte of a time stamp or the like may change nothing that is read
            assert NoisyLabels.load(path).fingerprint == made.fingerprint
        except DataError:
            noticed += 1
    assert noticed > len(content) / 7 / 3


@pytest.mark.parametrize("field", ["noisy", "clean", "meta", "digest"])
def test_tampered_file(made, tmp_path, field):
    path = made.save(tmp_path / "noise.npz")
    with np.load(path) as archive:
        arrays = {name: archive[name].copy() for name in archive}
    if field in ("noisy", "clean"):
        arrays[field][0] = (arrays[field][0] + 1) % 5
    elif field == "meta":
        meta = json.loads(str(arrays["meta"]))
        arrays["meta"] = np.array(json.dumps(meta | {"rate": 0.1}, sort_keys=True))
    else:
        arrays["digest"] = np.array("0" * 64)
    np.savez(path, **arrays)
    with pytest.raises(DataError, match="changed"):
        NoisyLabels.load(path)


def test_files_that_are_something_else(tmp_path):
    with pytest.raises(DataError, match="there is no noise manifest"):
        NoisyLabels.load(tmp_path / "none.npz")
    other = tmp_path / "other.npz"
    np.savez(other, labels=[1, 2])
    with pytest.raises(DataError, match="not a whole noise manifest"):
        NoisyLabels.load(other)
    np.savez(other, noisy=np.array([print], dtype=object), meta="{}", digest="")
    with pytest.raises(DataError):  # holds a pickle, which is never read
        NoisyLabels.load(other)
    with zipfile.ZipFile(other, "w") as archive:
        archive.writestr("meta.npy", "text")
    with pytest.raises(DataError):
        NoisyLabels.load(other)


def test_take_keeps_the_record(made):
    rows = [5, 3, 100]
    part = made.take(rows)
    assert part.noisy.tolist() == made.noisy[rows].tolist()
    assert part.clean.tolist() == made.clean[rows].tolist()
    assert (part.kind, part.rate, part.seed) == (made.kind, made.rate, made.seed)
    assert part.fingerprint != made.fingerprint


def test_copies_and_pickles(made):
    for twin in (copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        assert twin.fingerprint == made.fingerprint
        np.testing.assert_array_equal(twin.noisy, made.noisy)


def test_summary_and_repr(made):
    assert made.summary() == "symmetric, protocol paper, nominal 0.4, realised 0.4"
    assert made.fingerprint[:12] in repr(made)
    assert "n=200" in repr(made)


def test_lengths_have_to_agree():
    with pytest.raises(UserError, match="clean has 2 labels and noisy 3"):
        NoisyLabels(clean=[0, 1], noisy=[0, 1, 1], num_classes=2, kind="x")
