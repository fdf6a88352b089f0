"""Probabilities or features from elsewhere, as arrays or in a file, that judge labels."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from edgemask.audit import LabelAudit, from_features, from_probabilities
from edgemask.errors import UserError, one_line
from edgemask.runs import read_array, read_arrays

__all__ = ["from_matrices", "read_matrix"]


def from_matrices(
    kind: str,
    given: Any,
    labels: Any,
    class_names: Sequence[str] | None,
    chance_driven: bool,
    ids: Sequence[str] | None = None,
) -> LabelAudit:
    """Audit by probabilities or features from elsewhere, given as arrays or in a file."""
    columns = class_names if kind == "probabilities" else None
    if isinstance(given, str | Path):
        given = read_matrix(Path(given), ids=ids, columns=columns)
    audit = from_probabilities if kind == "probabilities" else from_features
    return audit(labels, given, ids=ids, class_names=class_names, chance_driven=chance_driven)


def read_matrix(
    path: Path, *, ids: Sequence[str] | None = None, columns: Sequence[str] | None = None
) -> Any:
    """Read one or several matrices with a row per sample from a file.

    Args:
        path: An ``.npy`` file; an ``.npz`` file, of which every matrix is taken; or a ``.csv`` file
            with a title over each column. A column ``id`` (an array ``ids``) names the samples,
            whose order is then free.
        ids: The samples, in order.
        columns: The titles expected in a CSV file, in order; None takes all in theirs.
    """
    if not path.is_file():
        raise UserError(f"{path}: there is no such file")
    named: Sequence[str] | None = None
    if path.suffix == ".csv":
        named, matrix = _read_csv(path, columns)
        matrices = [matrix]
    elif path.suffix == ".npz":
        arrays = read_arrays(path)
        named = arrays["ids"].ravel().astype(np.str_).tolist() if "ids" in arrays else None
        matrices = [array for array in arrays.values() if array.ndim == 2]
        if not matrices:
            raise UserError(f"{path}: holds no matrix of samples by columns")
    else:
        array = read_array(path)
        matrices = list(array) if array.ndim == 3 else [array]
    if named is not None and any(len(matrix) != len(named) for matrix in matrices):
        raise UserError(f"{path}: {len(named)} ids for {len(matrices[0])} rows")
    if named is not None and ids is not None:
        places = {name: place for place, name in enumerate(named)}
        unknown = [name for name in ids if name not in places]
        if unknown:
            raise UserError(f"{path}: there is no row for the sample {unknown[0]!r}")
        order = [places[name] for name in ids]
        matrices = [matrix[order] for matrix in matrices]
    return matrices if len(matrices) > 1 else matrices[0]


def _read_csv(path: Path, columns: Sequence[str] | None) -> tuple[list[str] | None, Any]:
    """Return the ids of a CSV file, if it has them, and its numbers."""
    import pandas as pd

    try:
        table = pd.read_csv(path)
    except Exception as error:  # pandas raises all sorts for damaged files
        raise UserError(f"{path}: cannot be read as CSV ({one_line(error)})") from error
    named = table.pop("id").astype(str).tolist() if "id" in table else None
    if columns is not None:
        missing = [name for name in columns if name not in table]
        if missing:
            raise UserError(f"{path}: there is no column {missing[0]!r} for that class")
        table = table[list(columns)]
    try:
        return named, table.to_numpy(dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise UserError(f"{path}: expected numbers ({one_line(error)})") from error
