"""Pickles of numbers: official forms are read, hostile ones run nothing and build nothing."""

from __future__ import annotations

import collections
import os
import pickle
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from edgemask._pickles import read_pickle, read_torch
from edgemask.errors import DataError
from sweeps import sweep


class Evil:
    """Would make a file when unpickled."""

    def __init__(self, marker: Path):
        self.marker = marker

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.marker),)


def test_a_pickle_that_would_run_code_is_refused(tmp_path: Path) -> None:
    marker = tmp_path / "executed"
    data = pickle.dumps({"labels": [1, Evil(marker)]}, protocol=2)
    pickle.loads(data)
    assert marker.exists()  # the trap works on an ordinary unpickler
    marker.rmdir()
    with pytest.raises(DataError, match=r"train: refused.*mkdir"):
        read_pickle(data, tmp_path / "train")
    assert not marker.exists()


@sweep(
    "data",
    [
        b"cbuiltins\neval\n(S'1+1'\ntR.",
        b"cos\nsystem\n(S'true'\ntR.",
        b"cnumpy\nload\n(S'x'\ntR.",
        b"cnumpy.testing._private.utils\nrunstring\n(S'1'\n}tR.",
        b"\x80\x04\x8c\x08builtins\x8c\x04exec\x93\x8c\x01a\x85R.",
        b"\x80\x02c__builtin__\ngetattr\n.",
        b"ios\nsystem\n.",
        b"",
        b"\x80\x02}q\x01(U\x04",
        b"not a pickle at all",
    ],
)
def test_hostile_and_broken_pickles_are_refused(data: bytes, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="refused"):
        read_pickle(data, tmp_path / "file")


@pytest.mark.parametrize("protocol", [3, 4])
def test_plain_pickles_are_read(protocol: int, tmp_path: Path) -> None:
    value = {"a": [1, 2.5, None, True], "b": ("x", {"y": np.arange(6).reshape(2, 3)})}
    found = read_pickle(pickle.dumps(value, protocol=protocol), tmp_path / "file")
    assert found["a"] == value["a"]
    assert found["b"][0] == "x"
    assert np.array_equal(found["b"][1]["y"], np.arange(6).reshape(2, 3))


NUMBERS = ("bool", "int8", "uint8", "int16", "int32", "int64", "float16", "float64", ">i4")


@pytest.mark.parametrize("zipped", [True, False])
def test_arrays_of_every_number_type(zipped: bool, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    value = {kind: rng.integers(0, 2, (3, 4)).astype(kind) for kind in NUMBERS}
    value |= {"fortran": np.asfortranarray(value["int64"]), "empty": np.zeros((0, 3))}
    value |= {"scalar": np.int64(-7), "wide": np.float32(2.5)}
    torch.save(value, tmp_path / "x.pt", _use_new_zipfile_serialization=zipped)
    found = read_torch(tmp_path / "x.pt")
    for data in (found, read_pickle(pickle.dumps(value, protocol=2), tmp_path)):
        assert list(data) == list(value)
        for name, array in value.items():
            assert data[name].dtype == array.dtype
            assert np.array_equal(data[name], array)


@pytest.mark.parametrize("zipped", [True, False])
def test_tensors_are_read_as_torch_reads_them(zipped: bool, tmp_path: Path) -> None:
    whole = torch.arange(24).reshape(4, 6)
    value = {
        "whole": whole,
        "column": whole[:, 2],
        "block": whole[1:3, 1:6:2],
        "turned": whole.T,
        "number": torch.tensor(5),
        "none": torch.empty(0, 3, dtype=torch.int32),
        "bytes": torch.tensor([250, 3], dtype=torch.uint8),
        "list": [torch.tensor(-3, dtype=torch.int8), {"deep": torch.tensor([7]).short()}],
        "ordered": collections.OrderedDict(a=1),
    }
    torch.save(value, tmp_path / "x.pt", _use_new_zipfile_serialization=zipped)
    found = read_torch(tmp_path / "x.pt")
    for name in ("whole", "column", "block", "turned", "number", "none", "bytes"):
        assert found[name].dtype == value[name].numpy().dtype
        assert np.array_equal(found[name], value[name].numpy())
    assert found["list"][0] == -3
    assert found["list"][1]["deep"].tolist() == [7]
    assert found["ordered"] == {"a": 1}


def _array(
    dtype: bytes, state: bytes, raw: bytes, *, shape: bytes = b"(I6\nt", after: bytes = b""
) -> bytes:
    """Write the program of an array by hand: a data type and its state, a shape, raw bytes."""
    made = b"cnumpy\ndtype\n(S'" + dtype + b"'\nI0\nI1\ntRp1\n(" + state + b"tb"
    array = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(I0\ntS'b'\ntR"
    content = b"T" + len(raw).to_bytes(4, "little") + raw
    built = array + b"(I1\n" + shape + made + b"I00\n" + content + b"tb"
    return b"}S'labels'\n" + built + b"s" + after + b"."


PLAIN = b"I3\nS'|'\nNNNI-1\nI-1\nI0\n"
OBJECTS = PLAIN.replace(b"I0\n", b"I63\n")
RAW = b"A" * 48
FORGED = {
    # Objects whose flags say that they are none: the file's bytes become addresses, which are
    # used once the flags are set again.
    "objects": _array(b"O8", PLAIN, RAW, after=b"g1\n(" + OBJECTS + b"tb0"),
    "numbers with the flags of objects": _array(b"i8", OBJECTS, RAW),
    "flags set later": _array(b"i8", PLAIN, RAW, after=b"g1\n(" + OBJECTS + b"tb0"),
    "fields": _array(b"i8", PLAIN.replace(b"NNN", b"N(S'a'\nt}N"), RAW),
    "size": _array(b"i8", PLAIN.replace(b"I-1\n", b"I4096\n"), RAW),
    "void": _array(b"V8", PLAIN, RAW),
    "too few bytes": _array(b"i8", PLAIN, RAW[1:]),
    "negative shape": _array(b"i8", PLAIN, RAW, shape=b"(I-6\nI-1\nt"),
    "huge shape": _array(b"i8", PLAIN, RAW, shape=b"(L4611686018427387904L\nI4\nt"),
}


def test_the_hand_written_array_is_one(tmp_path: Path) -> None:
    data = _array(b"i8", PLAIN, np.arange(6).tobytes())
    assert read_pickle(data, tmp_path)[b"labels"].tolist() == list(range(6))


@sweep("name", FORGED)
def test_forged_arrays_corrupt_nothing(name: str, tmp_path: Path) -> None:
    """In a process of its own: a reader that believes the file dies by a segmentation fault."""
    data = FORGED[name]
    with zipfile.ZipFile(tmp_path / "labels.pt", "w") as archive:
        archive.writestr("labels/data.pkl", data)
        archive.writestr("labels/version", b"3\n")
    (tmp_path / "labels.pkl").write_bytes(data)
    script = f"""
import sys
from pathlib import Path
from edgemask import noise
from edgemask._pickles import read_pickle
from edgemask.errors import DataError
folder = Path({str(tmp_path)!r})
for read in (
    lambda: noise.from_file(None, folder / "labels.pt", 3),
    lambda: read_pickle((folder / "labels.pkl").read_bytes(), folder / "labels.pkl"),
):
    try:
        print("read", read())
    except DataError as error:
        print("done:", error)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("done:") == 2, done.stdout


def test_forged_tensors_are_refused(tmp_path: Path) -> None:
    from edgemask._pickles import _STORAGE_TYPES, _Builder, _Storage, _Tensor

    (long,) = [kind for kind, code in _STORAGE_TYPES.items() if code == "i8"]
    raw = np.arange(4).tobytes()

    def build(size: object, offset: object, shape: object, strides: object) -> object:
        storage = _Storage(("storage", long, "0", "cpu", size))
        return _Builder(lambda key: raw).build(_Tensor(storage, offset, shape, strides))

    assert np.array_equal(build(4, 1, (2,), (2,)), [1, 3])
    for size, offset, shape, strides in (
        (5, 0, (4,), (1,)),
        (4, 1, (4,), (1,)),
        (4, 0, (3,), (2,)),
        (4, 3, (2,), (-1,)),
        (4, -1, (2,), (1,)),
        (4, 0, (10**9,), (0,)),
        (4, 0, (2, 2), (1,)),
        (4, 0, (True,), (1,)),
    ):
        with pytest.raises(ValueError, match=r"fit|shape|storage|argument"):
            build(size, offset, shape, strides)


def test_a_tensor_from_outside_the_file_and_a_bomb_of_lists(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="outside of the file"):
        read_pickle(b"S'x'\nQ.", tmp_path / "x")
    layers = b"]q\x00" + b"".join(
        b"](h" + bytes([i]) + b"h" + bytes([i]) + b"eq" + bytes([i + 1]) for i in range(60)
    )
    nested = read_pickle(b"\x80\x02" + layers + b".", tmp_path / "x")
    assert nested[0] is nested[1]  # built once, not 2^60 times
    loop = b"\x80\x02]q\x00h\x00a."
    with pytest.raises(DataError, match="recursion"):
        read_pickle(loop, tmp_path / "x")
