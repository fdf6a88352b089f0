"""Files from others: read, or refused in one line; never a crash, a hang or endless memory.

``make test-long`` tries 10,000 damaged files instead of some hundreds.
"""

from __future__ import annotations

import io
import json
import os
import pickle
import random
import shutil
import tarfile
import zipfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from safetensors.torch import save

from edgemask.noise import NoisyLabels
from guarantees.cases import cases
from guarantees.mutations import mutate
from guarantees.reading import Reader
from report.auditdirs import write_audit

pytestmark = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux")

FILES = cases(400, 10_000)
RUN = Path(__file__).parents[1] / "fixtures" / "runs" / "v2"
AUDIT_FILES = ("audit.json", "samples.npz", "thumbnails.npz", "items.jsonl")
RUN_FILES = ("config.yaml", "summary.json", "metrics.jsonl", "samples.npz", "head.npz", "noise.npz",
             "thumbnails.npz", "model.safetensors", "checkpoints/0000000135.pt")  # fmt: skip


@pytest.fixture(scope="module")
def reader() -> Iterator[Reader]:
    with Reader() as process:
        yield process


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, str, bytes]]:
    """Sound small files: the reader, the name of the file and its content."""
    folder = tmp_path_factory.mktemp("sound")
    labels = np.arange(40) % 10
    weights = {"a.weight": torch.ones(3, 2), "a.bias": torch.zeros(3).half()}
    card = {
        "class_names": ["a", "b"], "input_shape": [2], "mean": [0.0], "std": [1.0],
        "views": "features", "dataset": "x",
    }  # fmt: skip
    np.savez(folder / "arrays.npz", x=np.random.rand(40, 3).astype("f4"), y=labels)
    np.savez_compressed(folder / "labels.npz", noisy=labels, clean=labels)
    np.save(folder / "labels.npy", labels)
    torch.save({"noisy_label": torch.as_tensor(labels), "more": [1, "x"]}, folder / "labels.pt")
    torch.save(
        {"labels": labels, "t": torch.as_tensor(labels)},
        folder / "old.pt",
        _use_new_zipfile_serialization=False,
    )
    torch.save({"state_dict": weights}, folder / "weights.pt")
    torch.save(weights, folder / "old_weights.pt", _use_new_zipfile_serialization=False)
    (folder / "w.safetensors").write_bytes(save(weights, {"edgemask": json.dumps(card)}))
    (folder / "batch.pkl").write_bytes(
        pickle.dumps({b"labels": [1, 2], b"data": labels.astype("u1")}, protocol=2)
    )
    NoisyLabels(clean=labels, noisy=labels, num_classes=10, kind="mine").save(folder / "m.npz")
    (folder / "labels.csv").write_text("index,label\n" + "".join(f"{i},{i}\n" for i in range(10)))
    (folder / "labels.txt").write_text("\n".join(map(str, labels)))
    rows = "".join(
        f"pictures/{i}.png,{'ab'[i % 2]},{'train' if i < 6 else 'test'}\n" for i in range(8)
    )
    (folder / "list.csv").write_text("path,label,split\n" + rows)
    picture = Image.fromarray(np.random.randint(0, 255, (9, 7, 3), dtype=np.uint8))
    for kind in ("png", "jpg", "gif", "bmp", "webp", "tif", "ppm"):
        picture.save(folder / f"image.{kind}")
    shares = np.random.dirichlet(np.ones(2), 40)
    np.save(folder / "shares.npy", shares)
    np.save(folder / "features.npy", shares)
    np.savez(folder / "shares.npz", shares=shares, ids=[f"s{n}" for n in range(40)])
    rows = "".join(f"s{n},{a},{b}\n" for n, (a, b) in enumerate(shares))
    (folder / "shares.csv").write_text("id,a,b\n" + rows)
    np.save(folder / "transition.npy", np.array([[0.9, 0.1], [0.2, 0.8]]))
    (folder / "transition.json").write_text("[[0.9, 0.1], [0.2, 0.8]]")
    (folder / "matrix.csv").write_text("0.9,0.1\n0.2,0.8\n")
    (folder / "corrections.csv").write_text("id,action,label\na,drop,\nb,relabel,cat\nc,keep,\n")
    table = pd.DataFrame({"x": labels / 2, "z": ["u", "v"] * 20, "label": ["cat", "dog"] * 20})
    table.to_csv(folder / "table.csv", index=False)
    table.to_parquet(folder / "table.parquet")
    (folder / "config.yaml").write_bytes((RUN / "config.yaml").read_bytes())
    with zipfile.ZipFile(folder / "photos.zip", "w") as archive:
        for name in ("a/1.png", "a/2.png", "b/1.png", "b/2.png"):
            archive.writestr(name, (folder / "image.png").read_bytes())
    with tarfile.open(folder / "photos.tar.gz", "w:gz") as archive:
        for name in ("a/1.png", "a/2.png", "b/1.png", "b/2.png"):
            archive.add(folder / "image.png", name)
    readers = {
        "arrays.npz": "npz", "labels.npz": "labels", "labels.npy": "labels", "labels.pt": "labels",
        "old.pt": "torch", "weights.pt": "pretrained", "old_weights.pt": "pretrained",
        "w.safetensors": "weights", "batch.pkl": "pickle", "m.npz": "manifest",
        "labels.csv": "labels", "labels.txt": "labels", "list.csv": "csv", "config.yaml": "config",
        "photos.zip": "folder", "photos.tar.gz": "folder", "shares.npy": "probabilities",
        "shares.npz": "probabilities", "shares.csv": "probabilities", "features.npy": "features",
        "transition.npy": "transition", "transition.json": "transition", "matrix.csv": "matrix",
        "corrections.csv": "corrections", "table.csv": "table", "table.parquet": "table",
        **{f"image.{kind}": "image" for kind in ("png", "jpg", "gif", "bmp", "webp", "tif", "ppm")},
    }  # fmt: skip
    files = [(reader, name, (folder / name).read_bytes()) for name, reader in readers.items()]
    audit = write_audit(folder / "audit", samples=40, pictures=8, items=[{"index": 1, "text": "x"}])
    files += [("audit", name, (audit / name).read_bytes()) for name in AUDIT_FILES]
    return files + [("run", name, (RUN / name).read_bytes()) for name in RUN_FILES]


def place(folder: Path, reader: str, name: str, content: bytes) -> Path:
    """Write a file where its reader looks for it; return the path to give to the reader."""
    folder.mkdir()
    if reader == "run":
        shutil.copytree(RUN, folder / "run")
        (folder / "run" / name).write_bytes(content)
        return folder / "run"
    if reader == "audit":
        write_audit(folder / "audit", samples=40, pictures=8, items=[{"index": 1, "text": "x"}])
        (folder / "audit" / name).write_bytes(content)
        return folder / "audit"
    if reader == "csv":
        (folder / "pictures").mkdir()
        for number in range(8):
            Image.new("RGB", (8, 8)).save(folder / "pictures" / f"{number}.png")
    (folder / name).write_bytes(content)
    return folder / name


def test_the_files_are_sound_before_they_are_damaged(sound, reader, tmp_path):
    for number, (kind, name, content) in enumerate(sound):
        answer = reader.read(kind, place(tmp_path / str(number), kind, name, content))
        assert answer == {"end": "read"}, (name, answer)


def test_damaged_files_are_read_or_refused(sound, reader, tmp_path):
    rng = random.Random(int(os.environ.get("EDGEMASK_FUZZ_SEED", "0")))
    contents = [content for _, _, content in sound]
    ends: Counter[str] = Counter()
    faults = []
    # A run folder takes longer than all other files together, so that it comes less often.
    weights = [0.3 if kind in ("run", "audit") else 1.0 for kind, _, _ in sound]
    for number in range(FILES):
        kind, name, content = rng.choices(sound, weights)[0]
        damaged = mutate(content, rng, contents)
        folder = tmp_path / str(number)
        answer = reader.read(kind, place(folder, kind, name, damaged))
        ends[answer["end"]] += 1
        if answer["end"] in ("read", "refused"):
            shutil.rmtree(folder)
        else:
            faults.append((kind, name, str(folder), answer))
    assert not faults, "\n".join(map(str, [len(faults), *faults[:20]]))
    assert ends["refused"] > FILES // 4
    assert ends["read"] > FILES // 50


def _deep(program: bytes, depth: int = 200_000) -> bytes:
    return b"\x80\x02" + program.replace(b"DEEP", b")" + b"\x85" * depth) + b"."


ARRAY = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\n)K\x00\x87R(K\x01K\x01\x85"
PICKLES = {
    "a nested key": _deep(b"}DEEPK\x01s"),
    "nested keys": _deep(b"}(DEEPK\x01u"),
    "a nested key of the first protocol": _deep(b"(DEEPK\x01d"),
    "a nested pair": _deep(b"ccollections\nOrderedDict\n]DEEPK\x01\x86a\x85R"),
    "a nested data type": _deep(ARRAY + b"cnumpy\ndtype\nDEEP\x85R\x89C\x00tb"),
    "a nested set": _deep(b"\x8f(DEEP\x90"),
    "a nested list": _deep(b"DEEP"),
    "a place far away": b"\x80\x02Nr\xff\xff\xff\x7f0h\x00.",
    "a huge text": b"\x80\x04\x8d" + (1 << 62).to_bytes(8, "little") + b"x.",
    "a huge frame": b"\x80\x04\x95" + (1 << 62).to_bytes(8, "little") + b"x.",
    "a huge number": b"I" + b"9" * 1_000_000 + b"\n.",
}


def test_pickles_made_to_end_the_process(reader, tmp_path):
    for name, program in PICKLES.items():
        path = tmp_path / "x.pkl"
        path.write_bytes(program)
        assert reader.read("pickle", path)["end"] == "refused", name
        with zipfile.ZipFile(tmp_path / "x.pt", "w") as archive:
            archive.writestr("x/data.pkl", program)
            archive.writestr("x/version", "3\n")
            archive.writestr("x/byteorder", "little")
        for kind in ("torch", "pretrained") if "nested" not in name else ("pretrained",):
            answer = reader.read(kind, tmp_path / "x.pt")
            assert answer["end"] == "refused", (name, kind, answer)


def _npy(header: str) -> bytes:
    text = header.encode().ljust(118) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


def _yaml(first: str, line: str, count: int) -> bytes:
    """Return lines of which each holds the one before it twice."""
    lines = [line.format(i, i - 1) for i in range(1, count)]
    return "\n".join([first, *lines]).encode()


LABELS = io.BytesIO()
np.savez(LABELS, x=np.zeros((2, 3), "f4"), y=np.array([0, 10**9]))
# The reader, the file, and what would be too much.
HUGE = {
    "npy of 8 TB": (
        "labels",
        "x.npy",
        _npy("{'descr':'<i8','fortran_order':False,'shape':(1000000000000,)}"),
    ),
    "npy of objects": (
        "labels",
        "x.npy",
        _npy("{'descr':'|O','fortran_order':False,'shape':(3,)}"),
    ),
    "a label of 10^9": ("labels", "x.csv", b"label\n0\n1000000000\n"),
    "a class of 10^9": ("npz", "x.npz", LABELS.getvalue()),
    "yaml that doubles": (
        "config",
        "x.yaml",
        _yaml("a0: &a0 [1]", "a{0}: &a{0} [*a{1}, *a{1}]", 60),
    ),
    "yaml within itself": ("config", "x.yaml", b"train: &a\n  train: *a\n"),
    "yaml within its key": ("config", "x.yaml", b"? &a [*a]\n: 1\n"),
    "yaml merges that double": (
        "config",
        "x.yaml",
        _yaml("a0: &a0 {x: 1}", "a{0}: &a{0} {{<<: [*a{1}, *a{1}]}}", 40),
    ),
    "yaml of brackets": ("config", "x.yaml", b"[" * 200_000),
    "yaml of base 60": ("config", "x.yaml", b"train: " + b"1:" * 100_000 + b"1"),
    "JSON of brackets": ("run", "summary.json", b"[" * 200_000),
    "JSON that is a list": ("run", "summary.json", b"[1]"),
    "JSON with a long number": ("run", "summary.json", b'{"epochs": ' + b"9" * 10**6 + b"}"),
    "an image of 10^9 pixels": ("image", "x.ppm", b"P6 30000 30000 255 "),
    "a picture of 65535 x 65535": (
        "image",
        "x.gif",
        b"GIF89a" + b"\xff" * 4 + b"\0\0\0,\0\0\0\0" + b"\xff" * 4 + b"\0\x02",
    ),
}


def test_small_files_that_declare_huge_contents(reader, tmp_path):
    for number, (name, (kind, file, content)) in enumerate(HUGE.items()):
        answer = reader.read(kind, place(tmp_path / str(number), kind, file, content))
        # A run is reported on without what is damaged; only the classes that occur count.
        fine = {"refused"} | ({"read"} if kind in ("run", "npz") else set())
        assert answer["end"] in fine, (name, answer)


def test_archives_that_grow(reader, tmp_path):
    """Gigabytes of zeros take few bytes in an archive: the sizes that it declares are checked."""
    blob = io.BytesIO()
    with zipfile.ZipFile(blob, "w", zipfile.ZIP_DEFLATED) as archive:
        names = ["x", "y", "noisy", "meta", "digest", *map(str, range(1000))]
        for name in (f"{name}.npy" for name in names):
            archive.writestr(name, _npy("{'descr':'|u1','fortran_order':False,'shape':(9000000,)}"))
            archive.getinfo(name).file_size = (1 << 32) - 2
    for kind, name in (("npz", "x.npz"), ("labels", "x.npz"), ("manifest", "m.npz")):
        path = tmp_path / name
        path.write_bytes(blob.getvalue())
        answer = reader.read(kind, path)
        assert answer["end"] == "refused", (kind, answer)
        assert "GB" in answer["message"], (kind, answer)


def test_what_a_message_quotes_of_a_file_stays_one_short_line(reader, tmp_path):
    (tmp_path / "x.csv").write_text(f"index,labe{'[' * 5000},c\n0,1,2\n")
    answer = reader.read("labels", tmp_path / "x.csv")
    assert answer["end"] == "refused", answer
    # torch quotes the version that an archive names, with its end of line
    path = place(tmp_path / "run", "run", RUN_FILES[-1], b"")
    with zipfile.ZipFile(path / RUN_FILES[-1], "w") as archive:
        archive.writestr("x/data.pkl", b"\x80\x02}.")
        archive.writestr("x/version", "<<: *a\n")
    answer = reader.read("run", path)
    assert answer["end"] == "refused", answer
    assert "no checkpoint can be read" in answer["message"]
