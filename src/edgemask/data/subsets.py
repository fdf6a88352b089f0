"""A fresh class-balanced subset for every epoch."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgemask._random import numpy_stream
from edgemask.data.splits import positions_by_class
from edgemask.errors import DataError

__all__ = ["BalancedSubset"]


class BalancedSubset:
    """Draws equally many samples of each given class, anew in each epoch, without repeats.

    DivideMix, UNICON and others train on such subsets of Clothing1M (64,000 or 32,000 images). A
    class with fewer samples than its share gives all that it has. Pass it as ``indices=`` to a
    :class:`~edgemask.data.Loader`.

    Args:
        labels: ``(N,)`` given labels.
        size: Samples per epoch: each class gives ``size // (number of classes)``.
        seed: Names the random streams.

    Example:
        >>> subset = BalancedSubset(np.array([0, 0, 0, 0, 0, 0, 1, 1, 1]), 6)
        >>> len(subset(epoch := 0))
        6
    """

    def __init__(self, labels: NDArray[Any], size: int, *, seed: int = 0):
        values = np.asarray(labels)
        self.members = positions_by_class(values)
        if size < len(self.members):
            raise DataError(
                f"a balanced subset of {len(self.members)} classes needs at least as many samples, "
                f"got size={size}"
            )
        self.share = size // len(self.members)
        self.seed = seed

    def __call__(self, epoch: int) -> NDArray[np.int64]:
        """Return the sorted positions of the samples of an epoch."""
        stream = numpy_stream(self.seed, epoch)
        drawn = [stream.permutation(group)[: self.share] for group in self.members]
        return np.sort(np.concatenate(drawn))
