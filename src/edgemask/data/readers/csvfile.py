"""Your own images, listed in a CSV file."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np

from edgemask._options import Range
from edgemask.data.bundle import DataBundle
from edgemask.data.images import OnBroken
from edgemask.data.readers._own import Listing, bundle_of_files
from edgemask.data.splits import Labels
from edgemask.errors import DataError, one_line

__all__ = ["csvfile"]

_SPLITS = {"train": "train", "test": "test", "val": "val", "valid": "val", "validation": "val"}


class _Row(NamedTuple):
    line: int
    path: Path
    label: str
    split: str
    clean: str


def csvfile(
    path: str | Path,
    *,
    size: Annotated[int, Range(1)] | None = None,
    test_fraction: Annotated[float, Range(above=0, below=1)] = 0.2,
    seed: Annotated[int, Range(0)] = 0,
    clean: bool = False,
    on_broken: OnBroken = "error",
) -> DataBundle:
    """Images listed in a CSV file with the columns ``path`` and ``label``.

    Paths are relative to the CSV file; labels are names, or numbers from 0. Two more columns are
    read where they are present: ``split`` (train, test, val) and ``clean`` (the true label, for
    evaluation only). Without test rows, a part of each class is held out.

    Args:
        path: The file.
        size: Height and width to resize images to; 224, or that of small square images, otherwise.
        test_fraction: The part of each class to hold out when there are no test rows.
        seed: Which samples are held out.
        clean: Whether the labels are known to be right.
        on_broken: ``error`` stops at a file that is missing or no image; ``skip`` checks all files
            first and leaves such files out, with a warning.
    """
    path = Path(path)
    if not path.is_file():
        raise DataError(f"{path}: there is no such file")
    rows = list(_rows(path))
    if on_broken == "error":
        for row in rows:
            if not _is_file(row.path):
                raise DataError(f"{path}, line {row.line}: there is no file {row.path}")
    names = _class_names(path, rows)
    number = {name: position for position, name in enumerate(names)}
    parts: dict[str, Listing] = {}
    for part in ("train", "test", "val"):
        members = [row for row in rows if row.split == part]
        if members or part == "train":
            labels = [row.label if part == "train" else row.clean or row.label for row in members]
            parts[part] = [row.path for row in members], _numbers(labels, number)
    train = [row for row in rows if row.split == "train"]
    if not train:
        raise DataError(f"{path}: there is no row of the split 'train'")
    true = [row.clean for row in train]
    return bundle_of_files(
        path.stem,
        path.parent,
        parts,
        names,
        size=size,
        test_fraction=test_fraction,
        seed=seed,
        clean=clean,
        on_broken=on_broken,
        true_labels=_numbers(true, number) if all(true) else None,
    )


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # no name that a file can have
        return False


def _numbers(labels: list[str], number: dict[str, int]) -> Labels:
    return np.array([number[label] for label in labels], dtype=np.int64)


def _rows(path: Path) -> Iterator[_Row]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file, strict=True)
            header = reader.fieldnames or []
            if not {"path", "label"} <= set(header):
                raise DataError(
                    f"{path}: expected a header with the columns path and label, got {header}"
                )
            for entry in reader:
                yield _row(path, reader.line_num, entry)
    except (csv.Error, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read as CSV ({one_line(error)})") from error


def _row(path: Path, line: int, entry: dict[str, str]) -> _Row:
    where = f"{path}, line {line}"
    if None in entry:
        raise DataError(f"{where}: has more fields than the header; quote fields with commas")
    values = {key: (value or "").strip() for key, value in entry.items()}
    for column in ("path", "label"):
        if not values[column]:
            raise DataError(f"{where}: the column {column!r} is empty")
    split = values.get("split", "train").lower()
    if split not in _SPLITS:
        raise DataError(f"{where}: unknown split {split!r}; expected train, test or val")
    if "\0" in values["path"]:
        raise DataError(f"{where}: the path holds a null character")
    clean = values.get("clean", "")
    return _Row(line, path.parent / values["path"], values["label"], _SPLITS[split], clean)


def _class_names(path: Path, rows: list[_Row]) -> tuple[str, ...]:
    """Return the classes: sorted names, or all numbers from 0 to the largest."""
    given = {row.label for row in rows} | {row.clean for row in rows if row.clean}
    if not given:
        raise DataError(f"{path}: there are no rows")
    if not all(label.lstrip("-").isdecimal() for label in given):
        return tuple(sorted(given))
    for row in rows:
        for label in filter(None, (row.label, row.clean)):
            if str(int(label)) != label or int(label) < 0 or int(label) >= max(len(rows), 2):
                raise DataError(
                    f"{path}, line {row.line}: the class number {label} is out of range; "
                    f"numbers count from 0, without leading zeros"
                )
    return tuple(str(number) for number in range(max(int(label) for label in given) + 1))
