"""Reading files that may be missing, broken or hostile."""

from __future__ import annotations

import hashlib
import io
import pickle
from pathlib import Path
from typing import Any

from edgemask.errors import DataError

__all__ = ["find_folder", "read_checked", "read_pickle"]

# What a pickled numpy array of numbers is made of, by the names that old and new versions use.
_ADMITTED = frozenset(
    {
        ("numpy", "dtype"),
        ("numpy", "ndarray"),
        ("numpy.core.multiarray", "_reconstruct"),
        ("numpy._core.multiarray", "_reconstruct"),
    }
)


class _ArraysOnly(pickle.Unpickler):
    """An unpickler that admits arrays and plain containers, and calls nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in _ADMITTED:
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"it asks for {module}.{name}")


def read_pickle(data: bytes, path: Path) -> Any:
    """Load a pickle of arrays, numbers, bytes, text and containers; refuse anything else.

    Raises:
        DataError: The pickle is broken, or asks for an object that could run code.
    """
    try:
        return _ArraysOnly(io.BytesIO(data), encoding="bytes").load()
    except MemoryError:
        raise
    # A broken pickle raises whatever the opcode it stumbles over raises.
    except Exception as error:
        raise DataError(
            f"{path}: refused: not a pickle of plain arrays and containers ({error}); "
            f"get the file again from its official source"
        ) from error


def read_checked(path: Path, md5: str | None = None) -> bytes:
    """Return the content of a file, after checking its md5.

    Raises:
        DataError: The file is missing or not the official one.
    """
    if not path.is_file():
        raise DataError(f"{path}: there is no such file")
    data = path.read_bytes()
    if md5 is not None:
        found = hashlib.md5(data, usedforsecurity=False).hexdigest()
        if found != md5:
            raise DataError(
                f"{path}: md5 is {found}, the official file has {md5}; the file is truncated or "
                f"changed, get it again"
            )
    return data


def find_folder(root: Path | None, name: str, files: tuple[str, ...], source: str) -> Path:
    """Return the folder ``name`` below ``root``, or say what is missing and where it belongs.

    Args:
        root: The folder of all datasets, as given by the user.
        name: The folder of this one.
        files: What it has to hold (files or folders).
        source: Where to get it.
    """
    if root is None:
        raise DataError(
            f"{name} is needed from disk: set EDGEMASK_DATA, or pass root=, to the folder that "
            f"holds {name}/ ({source})"
        )
    folder = root if root.name == name else root / name
    missing = [entry for entry in files if not (folder / entry).exists()]
    if missing:
        more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
        raise DataError(
            f"{folder}: missing {', '.join(missing[:5])}{more}. Get the dataset from {source} and "
            f"put it there"
        )
    return folder
