"""Labels from a file of yours."""

from __future__ import annotations

import csv
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from edgemask._options import checked
from edgemask._pickles import read_torch
from edgemask._text import printable
from edgemask.errors import DataError, UserError, one_line
from edgemask.noise._checks import Classes, Int64, as_labels
from edgemask.noise.labels import NoisyLabels
from edgemask.runs import load_arrays

__all__ = ["find_file", "from_file", "read_labels"]

_NAMES = ("noisy", "noisy_label", "noisy_labels", "label", "labels", "target", "targets", "y")
_SUFFIXES = (".npy", ".npz", ".csv", ".txt", ".pt", ".pth")


@checked
def from_file(
    labels: ArrayLike | None,
    path: str | os.PathLike[str],
    num_classes: Classes,
    *,
    root: str | os.PathLike[str] | None = None,
    key: str | None = None,
) -> NoisyLabels:
    """Take the noisy labels from a file.

    ``.npy``, ``.txt`` (one label per line), ``.csv`` (a column), ``.npz`` and ``.pt`` (one of
    several arrays) are read; nothing in a file is ever run. Where a file holds several label sets,
    name the one meant with ``key`` or as ``file.npz#name``; without it, the only one, or the first
    of noisy, noisy_label, noisy_labels, label, labels, target, targets, y is taken. A CSV
    column called ``index`` says which sample each row belongs to. A manifest that
    :meth:`NoisyLabels.save` wrote is verified and comes back as it was, with its fingerprint.

    Args:
        labels: True labels in the same order, or None when they are unknown.
        path: The file, as seen from here or from ``root``.
        num_classes: The number of classes.
        root: Where else to look for the file.
        key: Which array or column.
    """
    name = os.fspath(path)
    if key is None and "#" in name:
        name, key = name.rsplit("#", 1)
    source = find_file(name, root)
    clean = None if labels is None else as_labels(labels, num_classes, open_set=True)
    if key is None and _is_manifest(source):
        return _manifest(source, clean, num_classes)
    found = read_labels(source, key)
    if clean is not None and found.shape != clean.shape:
        raise DataError(
            f"{source} has labels of the shape {found.shape}, but the dataset has "
            f"{len(clean)} samples; the file needs one label for each, in the same order"
        )
    try:
        noisy = as_labels(found, num_classes)
    except UserError as error:
        raise DataError(f"{source}: {error}") from None
    details = {"file": source.name} | ({"key": key} if key else {})
    return NoisyLabels(
        clean=clean, noisy=noisy, num_classes=num_classes, kind="file", details=details
    )


def _is_manifest(path: Path) -> bool:
    if path.suffix.lower() != ".npz":
        return False
    try:
        with zipfile.ZipFile(path) as archive:
            return {"meta.npy", "digest.npy", "noisy.npy"} <= set(archive.namelist())
    except Exception:  # noqa: BLE001 - read_labels names what is wrong
        return False


def _manifest(path: Path, clean: Int64 | None, num_classes: int) -> NoisyLabels:
    loaded = NoisyLabels.load(path)
    if loaded.num_classes != num_classes:
        raise DataError(f"{path} is for {loaded.num_classes} classes, not for {num_classes}")
    agree = loaded.clean is None or clean is None or np.array_equal(loaded.clean, clean)
    if not agree or (clean is not None and len(loaded) != len(clean)):
        raise DataError(
            f"{path} was made for other labels than those of the dataset: not as many, not the "
            "same, or in another order"
        )
    return loaded


def find_file(name: str, root: str | os.PathLike[str] | None) -> Path:
    """Return the file as seen from here, or else from the root."""
    places = [Path(name).expanduser()]
    if root is not None:
        places.append(Path(root).expanduser() / name)
    for place in places:
        if place.is_file():
            return place
    raise DataError(f"there is no file {' or '.join(map(str, places))}")


def read_labels(path: Path, key: str | None = None) -> NDArray[Any]:
    """Return the raw label array of a file, by the kind of file, which its name tells."""
    suffix = path.suffix.lower()
    if suffix not in _SUFFIXES:
        raise DataError(f"{path} must be one of {', '.join(_SUFFIXES)} to be read as labels")
    try:
        if suffix in (".pt", ".pth"):
            return _pick(read_torch(path), key, path)
        if suffix == ".csv":
            return _read_csv(path, key)
        if suffix == ".txt":
            lines = path.read_text(encoding="utf-8-sig").split("\n")
            return _whole(enumerate((line.strip() for line in lines), start=1), path)
        arrays = load_arrays(path)
        return arrays[""] if "" in arrays else _pick(arrays, key, path)
    except DataError:
        raise
    except Exception as error:  # numpy, zipfile and zlib raise all sorts
        raise DataError(f"{path} is not a readable label file: {one_line(error)}") from error


def _pick(content: Any, key: str | None, path: Path) -> NDArray[Any]:
    """Choose the label array in what a file held."""
    if not isinstance(content, Mapping):
        if key is not None:
            raise DataError(f"{path} holds one label set without a name, there is no {key!r} in it")
        return _flat(content)
    names = [str(name) for name in content]
    if key is None:
        wanted = [name for name in _NAMES if name in names] or (names if len(names) == 1 else [])
        if not wanted:
            raise DataError(
                f"{path} holds several label sets; name one as {path.name}#NAME: "
                f"{printable(', '.join(names))}"
            )
        key = wanted[0]
    if key not in names:
        raise DataError(f"{path} has no {key!r}; it has: {printable(', '.join(names))}")
    return _flat(content[key])


def _flat(content: Any) -> NDArray[Any]:
    """Return an array of what may be one; nested lists can expand to more than memory holds."""
    if isinstance(content, list | tuple) and any(isinstance(x, list | tuple) for x in content):
        raise ValueError("it holds a list of lists")
    return np.asarray(content)


def _whole(cells: Any, path: Path) -> NDArray[np.int64]:
    values = []
    for row, cell in cells:
        if cell == "":
            continue
        try:
            values.append(int(cell))
        except ValueError:
            raise DataError(f"{path}, line {row}: {cell[:40]!r} is not a whole number") from None
    return np.array(values, dtype=np.int64)


def _read_csv(path: Path, key: str | None) -> NDArray[Any]:
    with path.open(newline="", encoding="utf-8-sig") as file:
        reader = csv.reader(file)
        rows = [(reader.line_num, row) for row in reader if row]
    if not rows:
        raise DataError(f"{path} is empty")
    header = [cell.strip() for cell in rows[0][1]]
    if key is None and len(header) == 1 and header[0].lstrip("-").isdigit():
        return _whole(((line, row[0].strip()) for line, row in rows), path)
    column = _column(header, key, path)
    body = rows[1:]
    for line, row in body:
        if len(row) != len(header):
            raise DataError(f"{path}, line {line}: {len(row)} cells, but the header {len(header)}")
        if not row[column].strip():
            raise DataError(f"{path}, line {line}: there is no label in column {header[column]!r}")
    values = _whole(((line, row[column].strip()) for line, row in body), path)
    if "index" not in header:
        return values
    place = header.index("index")
    index = _whole(((line, row[place].strip()) for line, row in body), path)
    if not np.array_equal(np.sort(index), np.arange(len(values))):
        raise DataError(f"{path}: the column index must name each of 0..{len(values) - 1} once")
    ordered = np.empty_like(values)
    ordered[index] = values
    return ordered


def _column(header: list[str], key: str | None, path: Path) -> int:
    if key is not None:
        if key not in header:
            raise DataError(f"{path} has no column {key!r}; it has: {printable(', '.join(header))}")
        return header.index(key)
    for name in _NAMES:
        if name in header:
            return header.index(name)
    rest = [place for place, name in enumerate(header) if name != "index"]
    if len(rest) == 1:
        return rest[0]
    raise DataError(
        f"{path}: which column holds the labels? Call it 'label' in the first line, or name it "
        f"as {path.name}#COLUMN; the columns are: {printable(', '.join(header))}"
    )
