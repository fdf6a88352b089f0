"""Files of named datasets, which may be missing, broken or hostile."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from edgemask.data.images import OnBroken, sound_images
from edgemask.data.splits import FileSplit
from edgemask.errors import DataError

__all__ = ["file_split", "find_folder", "read_checked", "read_list"]


def read_checked(path: Path, md5: str | None = None) -> bytes:
    """Return the content of a file, after checking its md5.

    Raises:
        DataError: The file is missing or not the official one.
    """
    if not path.is_file():
        raise DataError(f"{path}: there is no such file")
    data = path.read_bytes()
    if md5 is not None:
        found = hashlib.md5(data, usedforsecurity=False).hexdigest()
        if found != md5:
            raise DataError(
                f"{path}: md5 is {found}, the official file has {md5}; the file is truncated or "
                f"changed, get it again"
            )
    return data


def find_folder(root: Path | None, name: str, files: tuple[str, ...], source: str) -> Path:
    """Return the folder ``name`` below ``root``, or say what is missing and where it belongs.

    Args:
        root: The folder of all datasets, as given by the user.
        name: The folder of this one.
        files: What it has to hold (files or folders).
        source: Where to get it.
    """
    if root is None:
        raise DataError(
            f"{name} is needed from disk: set EDGEMASK_DATA, or pass root=, to the folder that "
            f"holds {name}/ ({source})"
        )
    folder = root if root.name == name else root / name
    missing = [entry for entry in files if not (folder / entry).exists()]
    if missing:
        more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
        raise DataError(
            f"{folder}: missing {', '.join(missing[:5])}{more}. Get the dataset from {source} and "
            f"put it there"
        )
    return folder


def read_list(path: Path, num_classes: int | None) -> Iterator[tuple[str, int]]:
    """Yield name and class number of each line ``NAME NUMBER``.

    Args:
        path: The text file.
        num_classes: Class numbers have to be below this; None for any.

    Raises:
        DataError: A line has another form or a label out of range; the message names file and line.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: is not a text file ({error})") from error
    for line, text in enumerate(lines, start=1):
        if not text.strip():
            continue
        name, _, number = text.strip().rpartition(" ")
        if not name or not number.isdecimal():
            raise DataError(f"{path}, line {line}: expected 'IMAGE NUMBER', got {text!r}")
        if num_classes is not None and int(number) >= num_classes:
            raise DataError(
                f"{path}, line {line}: label {number} is out of range 0..{num_classes - 1}"
            )
        yield name, int(number)


def file_split(
    root: Path, entries: list[tuple[Path, int]], *, size: int, on_broken: OnBroken, source: Path
) -> FileSplit:
    """Make a split of listed files; the first file has to exist, or the layout is wrong.

    Args:
        root: The folder of the dataset; no listed path may leave it.
        entries: Files and class numbers.
        size: Height and width of the images.
        on_broken: What to do with files that are no images.
        source: Where the files are listed, for messages.
    """
    if not entries:
        raise DataError(f"{source}: lists no image")
    for path, _ in entries:
        if not path.is_relative_to(root) or ".." in path.relative_to(root).parts:
            raise DataError(f"{source}: the path {path} leaves the folder {root}")
    first = entries[0][0]
    if not first.is_file():
        raise DataError(f"{source}: its first image {first} is missing; put the images there")
    paths = [path for path, _ in entries]
    labels = np.array([label for _, label in entries], dtype=np.int64)
    sound = sound_images(paths, on_broken=on_broken)
    return FileSplit([paths[i] for i in sound], labels[sound], size=size, root=root)
