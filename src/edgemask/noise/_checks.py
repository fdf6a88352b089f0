"""What every noise function checks about its arguments."""

from __future__ import annotations

import typing
from typing import Annotated, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from edgemask._options import Check, Range
from edgemask.errors import UserError

__all__ = [
    "PROTOCOLS",
    "Classes",
    "Int64",
    "Protocol",
    "Rate",
    "Seed",
    "as_labels",
]

Protocol = Literal["paper", "jal", "apl", "dividemix", "nust"]
PROTOCOLS: tuple[str, ...] = typing.get_args(Protocol)
"""Whose generator is meant; see :mod:`edgemask.noise` for what sets them apart."""


def _check_share(value: float) -> None:
    try:
        Range(0, 1)(value)
    except ValueError as error:
        hint = f"; did you mean {value / 100:g}?" if 1 < value <= 100 else ""
        raise ValueError(f"{error}{hint}") from None


Classes = Annotated[int, Range(2)]
Rate = Annotated[float, Check(_check_share)]
Seed = Annotated[int, Range(0, 2**32 - 1)]

Int64 = NDArray[np.int64]


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
