"""Text files with an image and a class number a line, as the big web datasets ship them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from edgemask.data.images import OnBroken, sound_images
from edgemask.data.splits import FileSplit
from edgemask.errors import DataError

__all__ = ["file_split", "read_list"]


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
