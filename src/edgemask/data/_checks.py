"""What a loader is given, checked."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from edgemask.data.bundle import DataBundle
from edgemask.errors import DataError

__all__ = ["check_indices", "check_targets", "weight_table"]


def check_targets(targets: NDArray[Any] | Tensor, count: int, bundle: DataBundle | None) -> Tensor:
    """Return targets as a tensor: long class numbers in range, or float distributions."""
    values = targets.cpu() if isinstance(targets, Tensor) else torch.from_numpy(np.array(targets))
    if len(values) != count or values.ndim not in (1, 2):
        raise DataError(
            f"targets must be (N,) class numbers or (N, C) soft targets with N = {count}, "
            f"got shape {tuple(values.shape)}"
        )
    if values.ndim == 2:
        return values.float()
    if values.is_floating_point():
        raise DataError(f"targets of one dimension must be integers, got {values.dtype}")
    values = values.long()
    if bundle is not None and count:
        wrong = ((values < 0) | (values >= bundle.num_classes)).nonzero().flatten()
        if len(wrong):
            place = int(wrong[0])
            raise DataError(
                f"target {int(values[place])} of sample {place} is out of range 0.."
                f"{bundle.num_classes - 1} ({len(wrong)} such targets); an open-set dataset needs "
                f"its noise first"
            )
    return values


def check_indices(indices: Any, count: int) -> NDArray[np.int64]:
    """Return positions as an int64 array, all of them in the split."""
    values = np.asarray(indices)
    if values.size == 0:
        return np.empty(0, dtype=np.int64)
    if values.ndim != 1 or values.dtype.kind not in "iu":
        raise DataError(f"indices must be a list of integers, got {values.dtype} {values.shape}")
    if values.min() < 0 or values.max() >= count:
        raise DataError(f"indices must lie in 0..{count - 1}, got {values.min()}..{values.max()}")
    return values.astype(np.int64)


def weight_table(weights: Any, indices: NDArray[np.int64], count: int) -> Tensor | None:
    """Return a weight for every sample of the split, 1 for those not in ``indices``."""
    if weights is None:
        return None
    values = torch.as_tensor(weights, dtype=torch.float32)
    if values.shape != indices.shape:
        raise DataError(f"{len(indices)} indices but weights of shape {tuple(values.shape)}")
    table = torch.ones(count)
    table[torch.from_numpy(indices)] = values
    return table
