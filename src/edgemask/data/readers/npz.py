"""Your own arrays in one ``.npz`` file."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Annotated

from edgemask._options import Check, Range
from edgemask.data.bundle import DataBundle
from edgemask.data.own_data import from_arrays
from edgemask.data.views import RECIPES
from edgemask.errors import DataError, one_line
from edgemask.runs import load_arrays

__all__ = ["npz"]

_ARRAYS = ("x", "y", "x_test", "y_test", "y_clean", "class_names")


def npz(
    path: str | Path,
    *,
    test_fraction: Annotated[float, Range(above=0, below=1)] = 0.2,
    seed: Annotated[int, Range(0)] = 0,
    clean: bool = False,
    recipe: Annotated[str, Check(RECIPES.name_of)] | None = None,
) -> DataBundle:
    """Arrays ``x`` and ``y`` of an ``.npz`` file: images or tabular features.

    Also read, where present: ``x_test`` and ``y_test``, ``y_clean`` (the true labels, for
    evaluation) and ``class_names``. Pickled objects inside the file are refused.

    Args:
        path: The file.
        test_fraction: The part of each class to hold out when the file has no ``x_test``.
        seed: Which samples are held out.
        clean: Whether ``y`` is known to be right.
        recipe: An entry of ``views.RECIPES``; chosen by the kind of data otherwise.
    """
    path = Path(path)
    if not path.is_file():
        raise DataError(f"{path}: there is no such file")
    if not zipfile.is_zipfile(path):
        raise DataError(f"{path}: is no .npz file; save x and y with numpy.savez")
    try:
        arrays = load_arrays(path)
    # A broken archive raises whatever zipfile, zlib or numpy's header reader stumbles over.
    except Exception as error:
        raise DataError(
            f"{path}: cannot be read as an .npz of plain arrays ({one_line(error)})"
        ) from error
    unknown = sorted(set(arrays) - set(_ARRAYS))
    if unknown or not {"x", "y"} <= set(arrays):
        raise DataError(
            f"{path}: holds the arrays {sorted(arrays)}; expected x and y, "
            f"and of the others only {', '.join(_ARRAYS[2:])}"
        )
    for name, array in arrays.items():
        if array.dtype.kind not in "biufUS" or not array.ndim:
            raise DataError(f"{path}: {name} is an array of {array.dtype}, of shape {array.shape}")
    names = arrays.get("class_names")
    return from_arrays(
        arrays["x"],
        arrays["y"],
        x_test=arrays.get("x_test"),
        y_test=arrays.get("y_test"),
        y_clean=arrays.get("y_clean"),
        class_names=None if names is None else [str(entry) for entry in names],
        test_fraction=test_fraction,
        seed=seed,
        clean=clean,
        recipe=recipe,
        name=path.stem,
    )
