"""Corrected copies of data: what is written, and that the original stays."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import edgemask as em
from edgemask.engine.correct import write_corrected
from edgemask.errors import UserError


def _tree(root: Path) -> dict[str, str]:
    """Return each file below a folder with the hash of its bytes."""
    return {
        path.relative_to(root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


def _photos(root: Path, below: str = "") -> Path:
    for name in ("cat", "dog"):
        for number in range(3):
            file = root / below / name / "deep" / f"{number}.png"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(f"{name} {number}".encode())
    return root


def _decisions(*rows: str) -> list[dict[str, str]]:
    return [
        dict(zip(("id", "action", "label"), f"{row},,".split(","), strict=False)) for row in rows
    ]


@pytest.mark.parametrize("copy", [False, True])
def test_an_image_folder(copy: bool, tmp_path: Path) -> None:
    photos = _photos(tmp_path / "photos")
    (photos / "cat" / "notes.txt").write_text("not an image")
    before = _tree(photos)
    rows = _decisions("cat/deep/0.png,relabel,dog", "cat/deep/1.png,drop", "dog/deep/2.png,keep")
    written = write_corrected(photos, rows, tmp_path / "fixed", copy=copy)
    after = _tree(tmp_path / "fixed")
    assert after == {
        "cat/deep/2.png": before["cat/deep/2.png"],
        "dog/deep/0-cat.png": before["cat/deep/0.png"],
        **{f"dog/deep/{n}.png": before[f"dog/deep/{n}.png"] for n in range(3)},
    }
    assert _tree(photos) == before
    assert (tmp_path / "fixed/cat/deep/2.png").is_symlink() is not copy
    assert (written.samples, written.kept, written.relabelled, written.dropped) == (5, 1, 1, 1)
    assert [path.name for path in tmp_path.iterdir()].count("fixed") == 1
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_a_folder_with_train_and_test_and_a_class_that_ends_empty(tmp_path: Path) -> None:
    photos = _photos(_photos(tmp_path / "photos", "train"), "test")
    rows = _decisions(*(f"train/cat/deep/{n}.png,relabel,dog" for n in range(3)))
    rows += _decisions(*(f"test/cat/deep/{n}.png,drop" for n in range(3)))
    written = write_corrected(f"imagefolder:{photos}", rows, tmp_path / "fixed")
    assert written.empty_classes == ("cat",)
    assert sorted(_tree(tmp_path / "fixed")) == sorted(
        [f"{part}/dog/deep/{n}.png" for part in ("train", "test") for n in range(3)]
        + [f"train/dog/deep/{n}-cat.png" for n in range(3)]
    )


def test_a_table(tmp_path: Path) -> None:
    source = tmp_path / "table.csv"
    source.write_bytes(
        '\ufeffkey;text;label\r\nk1;"a;b";no\r\nk2;=1+1; yes\r\nk3;ü;no\r\n'.encode()
    )
    before = source.read_bytes()
    rows = _decisions("0,relabel,yes", "2,drop", "1,keep")
    written = write_corrected(f"csv:{source}", rows, tmp_path / "fixed.csv")
    assert (tmp_path / "fixed.csv").read_bytes().decode() == (
        '\ufeffkey;text;label\r\nk1;"a;b";yes\r\nk2;=1+1; yes\r\n'
    )
    assert (written.kept, written.relabelled, written.dropped) == (1, 1, 1)
    rows = _decisions("k1,relabel,yes", "k3,drop", "k2,keep")
    write_corrected(source, rows, tmp_path / "again.csv", id="key")
    assert (tmp_path / "again.csv").read_bytes() == (tmp_path / "fixed.csv").read_bytes()
    assert source.read_bytes() == before


def test_ids_and_labels_of_a_table_are_those_of_training(tmp_path: Path) -> None:
    source = tmp_path / "table.csv"
    lines = [f"{n},{n % 2}.0" for n in range(30)]
    source.write_text("\n\n".join(["x,label", *lines]) + "\n")  # empty lines are no rows
    bundle = em.data.load(f"csv:{source}")
    place = 7
    name, given = bundle.train.names[place], bundle.class_names[bundle.train.labels[place]]
    other = next(label for label in bundle.class_names if label != given)
    write_corrected(source, _decisions(f"{name},relabel,{other}"), tmp_path / "fixed.csv")
    again = em.data.load(f"csv:{tmp_path / 'fixed.csv'}")
    assert again.class_names == bundle.class_names
    changed = [
        row
        for row, (old, new) in enumerate(
            zip(lines, (tmp_path / "fixed.csv").read_text().splitlines()[1:], strict=True)
        )
        if old != new
    ]
    assert changed == [int(name)]


def test_a_parquet_file(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame({"key": list("abcd"), "x": [1.5, None, 3.0, 4.0], "label": [1, 2, 1, 2]})
    frame.to_parquet(tmp_path / "a.parquet")
    rows = _decisions("a,relabel,2", "c,drop")
    write_corrected(tmp_path / "a.parquet", rows, tmp_path / "b.parquet", id="key")
    new = pd.read_parquet(tmp_path / "b.parquet")
    assert new["label"].tolist() == [2, 2, 2]
    assert new["key"].tolist() == ["a", "b", "d"]
    assert new.dtypes.tolist() == frame.dtypes.tolist()


def test_a_list_of_images_still_finds_them(tmp_path: Path) -> None:
    _photos(tmp_path / "photos")
    source = tmp_path / "photos" / "list.csv"
    source.write_text("path,label\ncat/deep/0.png,cat\ndog/deep/0.png,dog\n")
    rows = _decisions("cat/deep/0.png,relabel,dog")
    write_corrected(source, rows, tmp_path / "fixed" / "list.csv")
    lines = (tmp_path / "fixed" / "list.csv").read_text().splitlines()[1:]
    files = [tmp_path / "fixed" / line.split(",")[0] for line in lines]
    assert [file.read_bytes() for file in files] == [b"cat 0", b"dog 0"]
    assert [line.split(",")[1] for line in lines] == ["dog", "dog"]


def test_arrays(tmp_path: Path) -> None:
    x = np.arange(8.0).reshape(4, 2)
    np.savez(tmp_path / "a.npz", x=x, y=np.array([1, 2, 1, 2]), x_test=x, y_test=np.array([1] * 4))
    rows = _decisions("0,relabel,2", "3,drop")
    write_corrected(tmp_path / "a.npz", rows, tmp_path / "b.npz")
    with np.load(tmp_path / "b.npz") as new:
        assert new["y"].tolist() == [2, 2, 1]
        assert new["x"].tolist() == x[:3].tolist()
        assert new["x_test"].tolist() == x.tolist()
    np.savez(tmp_path / "c.npz", x=x, y=np.array([0, 1, 0, 1]), class_names=["no", "yes"])
    write_corrected(tmp_path / "c.npz", _decisions("0,relabel,yes"), tmp_path / "d.npz")
    with np.load(tmp_path / "d.npz") as new:
        assert new["y"].tolist() == [1, 1, 0, 1]


def test_what_cannot_be_done_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    photos = _photos(tmp_path / "photos")
    table = tmp_path / "t.csv"
    table.write_text("a,label\n1,x\n2,y\n")
    keep = _decisions("cat/deep/0.png,keep")
    before = _tree(tmp_path)
    for data, rows, out, options, words in (
        (photos, keep, photos / "new", {}, "lies inside"),
        (photos, keep, table, {}, "exists already"),
        (photos, _decisions("cow.png,keep"), tmp_path / "n", {}, "no sample 'cow.png'"),
        (photos, _decisions("cat/deep/0.png,relabel,cow"), tmp_path / "n", {}, "no class 'cow'"),
        (table, _decisions("0,keep"), tmp_path / "n.csv", {"label": "y"}, "no column 'y'"),
        (table, _decisions("0,keep"), tmp_path / "n.csv", {"id": "y"}, "no column 'y'"),
        (table, _decisions("0,keep"), tmp_path / "n.csv", {"copy": True}, "image folders"),
        (table, _decisions("0,keep"), tmp_path / "n.npz", {}, "are a .csv file"),
        ("digits", _decisions("0,keep"), tmp_path / "n", {}, "train --corrections"),
        ("csv:none.csv", _decisions("0,keep"), tmp_path / "n.csv", {}, "no such file"),
    ):
        with pytest.raises(UserError, match=words):
            write_corrected(data, rows, out, **options)
    assert _tree(tmp_path) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["photos", "t.csv"]
