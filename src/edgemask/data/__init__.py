"""Datasets, readers, views and loaders that carry the sample index."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from edgemask._registry import Registry
from edgemask.data import views
from edgemask.data.bundle import DataBundle
from edgemask.data.loader import Batch, Loader, iterate
from edgemask.data.own_data import from_arrays, from_dataset, from_samples
from edgemask.data.pictures import from_pictures
from edgemask.data.readers.cifar import cifar10, cifar80n_o, cifar100
from edgemask.data.readers.clothing1m import clothing1m
from edgemask.data.readers.csvfile import csvfile, parquet
from edgemask.data.readers.digits import digits
from edgemask.data.readers.imagefolder import imagefolder
from edgemask.data.readers.mnist import fashion_mnist, mnist
from edgemask.data.readers.npz import npz
from edgemask.data.readers.webvision import webvision_mini
from edgemask.data.splits import (
    DatasetSplit,
    FileSplit,
    PictureSplit,
    SparseSplit,
    Split,
    TensorSplit,
    stratified_holdout,
)
from edgemask.data.subsets import BalancedSubset
from edgemask.data.tables import from_table, from_texts
from edgemask.data.views import Augment, ViewPlan
from edgemask.errors import UserError, unknown_name

__all__ = [
    "DATASETS",
    "Augment",
    "BalancedSubset",
    "Batch",
    "DataBundle",
    "DatasetSplit",
    "FileSplit",
    "Loader",
    "PictureSplit",
    "SparseSplit",
    "Split",
    "TensorSplit",
    "ViewPlan",
    "from_arrays",
    "from_dataset",
    "from_pictures",
    "from_samples",
    "from_table",
    "from_texts",
    "iterate",
    "load",
    "stratified_holdout",
    "views",
]

DATASETS: Registry[Callable[..., DataBundle]] = Registry(
    "dataset",
    {
        "digits": digits,
        "mnist": mnist,
        "fashion-mnist": fashion_mnist,
        "cifar10": cifar10,
        "cifar100": cifar100,
        "cifar80n-o": cifar80n_o,
        "webvision-mini": webvision_mini,
        "clothing1m": clothing1m,
        "imagefolder": imagefolder,
        "csv": csvfile,
        "parquet": parquet,
        "npz": npz,
    },
)


def load(spec: str, *, root: str | Path | None = None, **options: Any) -> DataBundle:
    """Read a dataset.

    Args:
        spec: A name (``digits``, ``cifar10``, ...), or for data of your own ``imagefolder:PATH``,
            ``csv:FILE``, ``parquet:FILE`` or ``npz:FILE``.
        root: The folder that holds the named datasets; the environment variable EDGEMASK_DATA
            otherwise.
        options: What the reader takes besides, by name; another name is an error.

    Example:
        >>> bundle = load("digits")
        >>> bundle.num_classes, bundle.input_shape, len(bundle.train), len(bundle.test)
        (10, (1, 8, 8), 1438, 359)
    """
    name, colon, path = spec.partition(":")
    reader = DATASETS[name]
    known = inspect.signature(reader).parameters
    for option in options:
        if option not in known or option in ("root", "path"):
            raise unknown_name(
                f"option of dataset {name!r}:", option, set(known) - {"root", "path"}
            )
    if "path" in known:
        if not path:
            raise UserError(f"the dataset {spec!r} needs a path: {name}:PATH")
        return reader(Path(path).expanduser(), **options)
    if colon:
        raise UserError(
            f"the dataset {name!r} takes no path, got {spec!r}; use root= for its folder"
        )
    if "root" in known:
        root = root or os.environ.get("EDGEMASK_DATA") or None
        return reader(None if root is None else Path(root).expanduser(), **options)
    return reader(**options)


def __getattr__(name: str) -> object:
    if name in ("Pair", "PairedLoader"):
        raise ImportError(
            f"edgemask.data.{name} was removed: take two loaders and, per step, labelled.batch(n) "
            "and unlabelled.batch(n % len(unlabelled), cycle=n // len(unlabelled))"
        )
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
