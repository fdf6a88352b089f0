"""Noise from any transition matrix."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from edgemask._options import check_argument, checked
from edgemask.errors import DataError, UserError, one_line
from edgemask.noise._checks import Classes, Seed, as_labels
from edgemask.noise.files import find_file
from edgemask.noise.labels import NoisyLabels
from edgemask.noise.sampling import Matrix, by_counts, by_draws
from edgemask.runs import load_arrays

__all__ = ["as_transition", "from_matrix"]


@checked
def from_matrix(
    labels: ArrayLike,
    matrix: ArrayLike | str | os.PathLike[str],
    num_classes: Classes | None = None,
    *,
    seed: Seed = 0,
    protocol: Literal["paper", "jal", "apl", "nust"] = "paper",
    root: str | os.PathLike[str] | None = None,
) -> NoisyLabels:
    """Draw each label from its class's row of a transition matrix.

    ``P(given label j | true label i) = T_ij``.

    ``paper``, ``nust`` and ``apl`` draw each sample on its own; ``jal`` moves trunc(T[s, t] * n_s)
    samples, so that the rows are met but for rounding down. ``dividemix`` does not define it.

    Args:
        labels: True labels, one per sample.
        matrix: ``matrix[i, j]`` is the probability that class i is labelled j; or a ``.npy``,
            ``.csv`` or ``.txt`` file with it.
        num_classes: The number of classes; that of the matrix when None.
        seed: Seed of the draw.
        protocol: ``paper``, ``jal``, ``apl`` or ``nust``.
        root: Where else to look for the file.

    Reference:
        Natarajan et al., "Learning with noisy labels", NeurIPS 2013 (class-conditional noise).

    Example:
        >>> from_matrix([0, 1] * 50, [[0.9, 0.1], [0.4, 0.6]], protocol="jal").realised_rate
        0.25
    """
    if isinstance(matrix, str | os.PathLike):
        matrix = _read(find_file(os.fspath(matrix), root))
    table = as_transition(matrix, num_classes)
    clean = as_labels(labels, len(table))
    draw = by_counts if protocol == "jal" else by_draws
    return NoisyLabels(
        clean=clean,
        noisy=draw(clean, table, np.random.RandomState(seed)),
        num_classes=len(table),
        kind="matrix",
        protocol=protocol,
        rate=float(np.clip(np.mean(1.0 - np.diag(table)[clean]), 0.0, 1.0)),
        seed=seed,
        details={"matrix": table.tolist()} if len(table) <= 20 else {},
    )


def as_transition(matrix: ArrayLike, num_classes: int | None = None) -> Matrix:
    """Return a transition matrix in float64 after checking shape, signs and row sums."""
    try:
        table = np.array(matrix, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise UserError(f"matrix must hold numbers in rows of equal length: {error}") from None
    if table.ndim != 2 or table.shape[0] != table.shape[1]:
        raise UserError(f"matrix must be square, got the shape {table.shape}")
    classes = len(table) if num_classes is None else num_classes
    if len(table) != classes:
        raise UserError(f"matrix has {len(table)} classes, but num_classes is {classes}")
    check_argument(classes, Classes, "matrix: num_classes")
    sums = table.sum(axis=1)
    broken = np.flatnonzero(~(np.abs(sums - 1.0) <= 1e-5) | (table < 0).any(axis=1))
    if broken.size:
        row = int(broken[0])
        raise UserError(
            f"row {row} of matrix is not a distribution: smallest entry {table[row].min():g}, "
            f"sum {sums[row]:g}; entries must not be negative and every row must sum to 1"
        )
    rounded = np.abs(sums - 1.0) > 1e-12
    table[rounded] /= sums[rounded, None]
    return table


def _read(path: Path) -> Matrix:
    try:
        if path.suffix == ".npy":
            return np.asarray(load_arrays(path)[""], dtype=np.float64)
        return np.loadtxt(path, delimiter="," if path.suffix == ".csv" else None, ndmin=2)
    except Exception as error:  # numpy, zipfile and zlib raise all sorts
        raise DataError(f"{path} does not hold a matrix of numbers: {one_line(error)}") from error
