"""What every noise function checks about its arguments."""

from __future__ import annotations

import csv
import math
import zipfile
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from edgemask.errors import UserError, unknown_name

__all__ = [
    "PROTOCOLS",
    "UNREADABLE",
    "Int64",
    "as_labels",
    "as_protocol",
    "as_rate",
    "as_seed",
    "check_classes",
]

PROTOCOLS = ("paper", "jal", "apl", "dividemix", "nust")
"""Whose generator is meant; see :mod:`edgemask.noise` for what sets them apart."""

Int64 = NDArray[np.int64]

# What numpy, zipfile, zlib, csv and json raise on a file that is cut short, tampered with or
# something else; a header that promises more than memory holds is one of these.
UNREADABLE = (
    AttributeError,
    EOFError,
    KeyError,
    MemoryError,
    NotImplementedError,
    OSError,
    OverflowError,
    RuntimeError,
    TypeError,
    ValueError,
    csv.Error,
    zipfile.BadZipFile,
    zlib.error,
)


def check_classes(num_classes: object) -> int:
    """Return the number of classes as an int, or say why it is none."""
    if isinstance(num_classes, bool) or not isinstance(num_classes, int | np.integer):
        raise UserError(f"num_classes must be a whole number, got {num_classes!r}")
    if num_classes < 2:
        raise UserError(f"num_classes must be at least 2, got {num_classes}")
    return int(num_classes)


def as_labels(
    labels: ArrayLike, num_classes: int, *, name: str = "labels", open_set: bool = False
) -> Int64:
    """Return labels as a new int64 array after checking every one of them.

    Args:
        labels: Whole numbers, one for each sample; an array, list or CPU tensor.
        num_classes: The labels have to be below it.
        name: What to call them in an error.
        open_set: Whether -1, "belongs to none of the classes", is admitted.
    """
    array = np.asarray(labels)
    if array.ndim != 1:
        raise UserError(f"{name} must have one dimension, got the shape {array.shape}")
    if array.size == 0:
        raise UserError(f"{name} is empty; at least one label is needed")
    if array.dtype.kind not in "iuf":
        raise UserError(f"{name} must be whole numbers, got values of type {array.dtype}")
    if array.dtype.kind == "f":
        broken = np.flatnonzero(~np.isfinite(array) | (array != np.round(array)))
        if broken.size:
            row = int(broken[0])
            raise UserError(f"{name}[{row}] is {array[row]}, which is not a whole number")
    lowest = -1 if open_set else 0
    outside = np.flatnonzero((array < lowest) | (array >= num_classes))
    if outside.size:
        row = int(outside[0])
        raise UserError(
            f"{name}[{row}] is {int(array[row])}, outside {lowest}..{num_classes - 1} "
            f"({outside.size} such labels); check num_classes={num_classes}, and that labels "
            "count from 0"
        )
    return array.astype(np.int64)


def as_rate(rate: Any, *, name: str = "rate") -> float:
    """Return a noise rate as a float in [0, 1]."""
    try:
        value = float(rate)
    except (TypeError, ValueError):
        raise UserError(f"{name} must be a number between 0 and 1, got {rate!r}") from None
    if not math.isfinite(value) or not 0.0 <= value <= 1.0:
        hint = f"; did you mean {value / 100:g}?" if 1.0 < value <= 100.0 else ""
        raise UserError(f"{name} must be between 0 and 1, got {rate!r}{hint}")
    return value


def as_seed(seed: object) -> int:
    """Return a seed that every generator accepts."""
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or not 0 <= seed < 2**32:
        raise UserError(f"seed must be a whole number from 0 to 2**32 - 1, got {seed!r}")
    return int(seed)


def as_protocol(protocol: str, kind: str, defined: Sequence[str] = PROTOCOLS) -> str:
    """Return the protocol where this kind of noise has a definition in it."""
    if protocol not in PROTOCOLS:
        raise unknown_name("noise protocol", protocol, PROTOCOLS)
    if protocol not in defined:
        raise UserError(
            f"protocol {protocol!r} does not define {kind} noise; "
            f"use protocol= one of: {', '.join(defined)}"
        )
    return protocol
