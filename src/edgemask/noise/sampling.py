"""The draws behind the generators: which samples are flipped, and to what.

Every function takes its own ``numpy.random.RandomState``, whose streams are frozen: the labels of
a seed are the same in every version of NumPy, and the global generator is never touched.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from edgemask.noise._checks import Int64

__all__ = [
    "by_counts",
    "by_draws",
    "choose_exactly",
    "flip_matrix",
    "symmetric_matrix",
]

Matrix = NDArray[np.float64]


def symmetric_matrix(rate: float, num_classes: int) -> Matrix:
    """Return 1 - rate on the diagonal and rate / (K - 1) elsewhere."""
    matrix = np.full((num_classes, num_classes), rate / (num_classes - 1))
    np.fill_diagonal(matrix, 1.0 - rate)
    return matrix


def flip_matrix(rate: float, num_classes: int, mapping: Mapping[int, int]) -> Matrix:
    """Return the identity with 1 - rate and rate in the row of each source of the map."""
    matrix = np.eye(num_classes)
    for source, target in mapping.items():
        matrix[source, source] = 1.0 - rate
        matrix[source, target] = rate
    return matrix


def by_counts(labels: Int64, matrix: Matrix, rng: np.random.RandomState) -> Int64:
    """Move trunc(T[s, t] * n_s) samples from each class s to each other class t (ANL, JAL)."""
    noisy = labels.copy()
    for source, row in enumerate(matrix):
        pool = np.flatnonzero(labels == source)
        counts = (row * len(pool)).astype(np.int64)
        for target, count in enumerate(counts):
            if target == source or count == 0:
                continue
            moved = rng.choice(pool, count, replace=False)
            noisy[moved] = target
            pool = np.setdiff1d(pool, moved)
    return noisy


def by_draws(labels: Int64, matrix: Matrix, rng: np.random.RandomState) -> Int64:
    """Draw each sample's label, in order, from the row of its class (Jo-SRC, Jo-SNC, CA2C, APL).

    The draw is a multinomial of one trial, because its stream is not that of a categorical draw.
    """
    targets = [_possible(row) for row in matrix]
    rows = [row[possible] for row, possible in zip(matrix, targets, strict=True)]
    return np.array(
        [targets[label][rng.multinomial(1, rows[label]).argmax()] for label in labels],
        dtype=np.int64,
    )


def _possible(row: NDArray[np.float64]) -> Int64:
    """Return the classes of nonzero probability, and the last one.

    A zero before the last costs no random number in NumPy up to 2.4 and one in 2.5, which the
    streams must not depend on; the last class costs none in any version, so it has to stay.
    """
    possible = np.flatnonzero(row)
    return possible if row[-1] else np.append(possible, len(row) - 1)


def choose_exactly(
    labels: Int64, sources: Iterable[int], rate: float, rng: np.random.RandomState
) -> Int64:
    """Choose a share of each source class, without replacement.

    Fractions carry over from class to class, so that the number over all sources is exactly
    round(rate * n) and that of each class is off by less than one.
    """
    pools = [np.flatnonzero(labels == source) for source in sources]
    up_to = np.floor(rate * np.cumsum([len(pool) for pool in pools]) + 0.5).astype(np.int64)
    counts = np.diff(up_to, prepend=0)
    chosen = [rng.permutation(pool)[:count] for pool, count in zip(pools, counts, strict=True)]
    return np.concatenate(chosen).astype(np.int64)
