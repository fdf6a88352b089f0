"""The files that a dataset is read from, by which a run identifies its data."""

from __future__ import annotations

import os
from pathlib import Path

from edgemask.data.readers._archives import without_suffix
from edgemask.data.readers.mnist import DEBIAN_FASHION_MNIST

__all__ = ["source_paths"]

# Below the folder of all datasets.
_FOLDERS = {
    "mnist": ("mnist",),
    "fashion-mnist": ("fashion-mnist",),
    "cifar10": ("cifar-10-batches-py",),
    "cifar100": ("cifar-100-python",),
    "cifar80n-o": ("cifar-100-python",),
    "webvision-mini": ("webvision", "imagenet"),
    "clothing1m": ("clothing1m",),
}


def source_paths(spec: str, *, root: str | Path | None = None) -> list[Path]:
    """Return the files and folders that a dataset is read from, as far as they exist.

    Args:
        spec: The dataset, as :func:`edgemask.data.load` takes it.
        root: The folder of the named datasets; the environment variable EDGEMASK_DATA otherwise.

    Returns:
        Nothing for a dataset that comes with a package, and for one that is still in an archive.
    """
    name, colon, path = spec.partition(":")
    if colon:
        own = Path(path).expanduser()
        places = [(own.is_file() and without_suffix(own)) or own]
    else:
        base = Path(root or os.environ.get("EDGEMASK_DATA") or ".").expanduser()
        folders = _FOLDERS.get(name, ())
        places = [base if base.name == folder else base / folder for folder in folders]
        if name == "fashion-mnist" and not places[0].is_dir():
            places = [DEBIAN_FASHION_MNIST]
    return [place for place in places if place.exists()]
