"""Files that are either there in full or not there at all."""

from __future__ import annotations

import contextlib
import io
import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import numpy as np

from edgemask.errors import UserError
from edgemask.runs import seal

__all__ = ["atomic_write", "write_arrays", "write_json", "write_text"]


def atomic_write(path: Path, write: Callable[[IO[bytes]], object]) -> None:
    """Write a file beside its place, force it to the disk and move it there.

    A reader, or a run that starts after a power cut, sees the old file or the new one, whole.

    Args:
        path: The place.
        write: Gets the open file.

    Raises:
        UserError: If the disk is full or the folder cannot be written; the old file is untouched.
    """
    name = ""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
        with os.fdopen(handle, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
        _sync_folder(path.parent)
    except OSError as error:
        raise UserError(
            f"cannot write {path}: {error.strerror or error}; what was there before is untouched. "
            "Free some space or make the folder writable, then run the same command again"
        ) from error
    finally:
        if name:
            with contextlib.suppress(OSError):
                Path(name).unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    """Make a rename last; folders cannot be opened for this everywhere."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def write_text(path: Path, text: str) -> None:
    """Write a text file in one piece."""
    atomic_write(path, lambda file: file.write(text.encode()))


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file in one piece."""
    write_text(path, json.dumps(value, indent=2, allow_nan=False) + "\n")


def write_arrays(path: Path, arrays: dict[str, Any]) -> None:
    """Write named arrays as one compressed ``.npz`` in one piece."""
    # numpy has a switch against pickled objects, but before 2.1 stored it as one more array.
    objects = [name for name, array in arrays.items() if np.asarray(array).dtype.hasobject]
    if objects:
        raise ValueError(f"the array {objects[0]!r} holds objects, which are not written to files")

    def write(file: IO[bytes]) -> None:
        memory = io.BytesIO()
        np.savez_compressed(memory, **arrays)
        file.write(seal(memory.getvalue()))

    atomic_write(path, write)
