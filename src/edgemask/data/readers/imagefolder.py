"""Your own images in a folder with one sub-folder per class."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np

from edgemask._options import Range
from edgemask.data.bundle import DataBundle
from edgemask.data.images import EXTENSIONS, OnBroken
from edgemask.data.readers._archives import extract, without_suffix
from edgemask.data.readers._own import Listing, bundle_of_files
from edgemask.errors import DataError

__all__ = ["imagefolder", "list_images"]

_TRAIN = "train"
_TESTS = ("test", "val", "valid", "validation")


def imagefolder(
    path: str | Path,
    *,
    size: Annotated[int, Range(1)] | None = None,
    test_fraction: Annotated[float, Range(above=0, below=1)] = 0.2,
    seed: Annotated[int, Range(0)] = 0,
    clean: bool = False,
    on_broken: OnBroken = "error",
) -> DataBundle:
    """Images in a folder with one sub-folder per class, or in such folders ``train/``, ``test/``.

    An archive of such a folder (zip or tar) is unpacked beside itself the first time. Instead of
    ``test/``, or as a second test set, there may be ``val/``; without either, a part of each class
    is held out. Beside ``test/``, ``val/`` is what ``clean_validation`` chooses an epoch by.

    Args:
        path: The folder, or an archive of it.
        size: Height and width to resize images to; 224, or that of small square images, otherwise.
        test_fraction: The part of each class to hold out when there is no test folder.
        seed: Which samples are held out.
        clean: Whether the folder of an image is known to be its true class.
        on_broken: ``error`` stops at a file that is no image; ``skip`` checks all files first and
            leaves such files out, with a warning.
    """
    root, names, parts = list_images(path)
    return bundle_of_files(
        root.resolve().name,
        root,
        parts,
        names,
        size=size,
        test_fraction=test_fraction,
        seed=seed,
        clean=clean,
        on_broken=on_broken,
    )


def list_images(path: str | Path) -> tuple[Path, tuple[str, ...], dict[str, Listing]]:
    """Return the folder, its classes, and the files and class numbers of ``train`` and test sets.

    Args:
        path: The folder, or an archive of it.
    """
    root = _unpacked(Path(path))
    folders = {_TRAIN: root}
    if (root / _TRAIN).is_dir():
        folders = {part: root / part for part in (_TRAIN, *_TESTS) if (root / part).is_dir()}
    names = _classes(folders[_TRAIN])
    parts = {
        part: _listing(folder, names, required=part == _TRAIN) for part, folder in folders.items()
    }
    return root, names, parts


def _unpacked(path: Path) -> Path:
    target = without_suffix(path)
    if path.is_file() and target is not None:
        if not target.is_dir():
            extract(path, target)
        return target
    if not path.is_dir():
        raise DataError(f"{path}: there is no such folder, nor an archive of one")
    return path


def _classes(folder: Path) -> tuple[str, ...]:
    names = tuple(sorted(
        entry.name for entry in folder.iterdir()
        if entry.is_dir() and not entry.name.startswith(".")
    ))  # fmt: skip
    if len(names) < 2:
        raise DataError(
            f"{folder}: expected a sub-folder for each of at least two classes, found {len(names)}"
        )
    return names


def _listing(folder: Path, names: tuple[str, ...], *, required: bool) -> Listing:
    unknown = sorted(set(_classes(folder)) - set(names))
    if unknown:
        raise DataError(
            f"{folder}: the class folder {unknown[0]!r} is not among the training classes"
        )
    paths: list[Path] = []
    labels: list[int] = []
    for number, name in enumerate(names):
        found = sorted(
            file for file in (folder / name).rglob("*")
            if file.suffix.lower() in EXTENSIONS and not file.name.startswith(".")
        )  # fmt: skip
        if not found and required:
            raise DataError(
                f"{folder / name}: holds no image ({', '.join(sorted(EXTENSIONS))}); remove the "
                f"folder if it is no class"
            )
        paths += found
        labels += [number] * len(found)
    return paths, np.array(labels, dtype=np.int64)
