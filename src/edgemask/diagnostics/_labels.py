"""Label arrays as diagnostics take them."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["label_arrays"]


def label_arrays(**named: ArrayLike) -> list[NDArray[np.int64]]:
    """Return the arrays as int64 rows of one length; name the one that is not."""
    arrays = {name: np.asarray(values) for name, values in named.items()}
    first = next(iter(arrays))
    for name, array in arrays.items():
        if array.ndim != 1 or array.dtype.kind not in "iu":
            raise ValueError(
                f"{name} must be a row of class numbers, got {array.dtype} of shape {array.shape}"
            )
        if len(array) != len(arrays[first]):
            raise ValueError(f"{name} has {len(array)} labels, {first} has {len(arrays[first])}")
    return [array.astype(np.int64) for array in arrays.values()]
