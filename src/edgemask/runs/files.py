"""Files from whomever they may be, read without running anything that they hold.

Arrays are read without pickle, YAML by the safe loader, and sizes are checked before memory is
used. Every problem is an error of one line.
"""

from __future__ import annotations

import hashlib
import io
import math
import os
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from edgemask.errors import MissingExtraError, UserError, one_line

__all__ = [
    "Array",
    "attempt",
    "check_seal",
    "finite_number",
    "load_arrays",
    "parse_yaml",
    "read_array",
    "read_arrays",
    "read_text",
    "seal",
]

Array: TypeAlias = npt.NDArray[Any]
_T = TypeVar("_T")
_Args = ParamSpec("_Args")
_MAX_TEXT_BYTES = 1 << 28
_MAX_ARRAY_BYTES = 1 << 31
_MAX_YAML_VALUES = 100_000
_MAX_DIGITS = 100
_MAX_NUMBER = 1e100
_SEAL = b"sha256 "


def attempt(
    problems: list[str], read: Callable[_Args, _T], *args: _Args.args, **kwargs: _Args.kwargs
) -> _T | None:
    """Return what a reader returns; if it raises, ``None``, and its message is a problem."""
    try:
        return read(*args, **kwargs)
    except UserError as error:
        problems.append(str(error))
        return None


def read_text(path: Path) -> str:
    """Return the text of a file, if it is not too large."""
    try:
        if path.stat().st_size > _MAX_TEXT_BYTES:
            raise UserError(f"{path.name} is too large to be read.")
        return path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        raise UserError(f"There is no {path.name}.") from None
    except OSError as error:
        raise UserError(f"{path.name} cannot be read: {error.strerror}.") from error


def parse_yaml(text: str, name: str) -> Any:
    """Return the value of a YAML text.

    Args:
        text: The text.
        name: What to call it in an error.

    Raises:
        UserError: If it is not YAML, or if aliases make it endless or huge.
    """
    try:
        import yaml
    except ImportError as error:
        raise MissingExtraError("pyyaml", "app", "to read a config", error) from error
    try:
        loader = yaml.SafeLoader(text)
        node = loader.get_single_node()
        # Before anything is built: merges of aliases double what they build each time.
        if _yaml_values(node, {}) <= _MAX_YAML_VALUES:
            return None if node is None else loader.construct_document(node)
    except Exception as error:  # PyYAML raises all sorts for broken dates, numbers and depths
        raise UserError(f"{name} is not valid YAML ({one_line(error)}).") from error
    raise UserError(f"{name} holds more than {_MAX_YAML_VALUES} values, or a value within itself.")


def _yaml_values(node: Any, known: dict[int, float]) -> float:
    """Return how many values a YAML node has with its aliases written out."""
    if id(node) not in known:
        known[id(node)] = math.inf  # until it is known: a node within itself has no end
        value = getattr(node, "value", None)
        if isinstance(value, str) and node.tag.endswith(":int") and len(value) > _MAX_DIGITS:
            raise ValueError(f"a number of {len(value)} digits")
        children = value if isinstance(value, list) else []
        pairs = (child for item in children for child in (item if type(item) is tuple else [item]))
        known[id(node)] = 1 + sum(_yaml_values(child, known) for child in pairs)
    return known[id(node)]


def finite_number(value: object) -> float | None:
    """Return a number as it is; ``None`` for anything else, and for one too large to draw."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if abs(value) < _MAX_NUMBER else None


def seal(data: bytes) -> bytes:
    """Return an archive with its SHA-256 after its end, where readers of archives ignore it.

    The archive's own checksums leave out its table of contents.
    """
    return data + _SEAL + hashlib.sha256(data).hexdigest().encode()


def check_seal(data: bytes) -> bytes:
    """Return an archive without its seal; one that has none is returned as it is.

    Raises:
        ValueError: If the seal does not fit.
    """
    end = data.rfind(_SEAL, max(0, len(data) - len(_SEAL) - 64))
    if end < 0:
        return data
    if hashlib.sha256(data[:end]).hexdigest().encode() != data[end + len(_SEAL) :]:
        raise ValueError("its checksum does not fit")
    return data[:end]


def load_arrays(path: Path, *, limit: int | None = None) -> dict[str, Array]:
    """Return the arrays of an ``.npz`` file, or that of an ``.npy`` file under an empty name.

    The archive's own checksums are compared; pickled objects are refused.

    Args:
        path: The file, from whomever it may be.
        limit: How many bytes it may hold when unpacked; the memory of the machine by default.

    Raises:
        Exception: Of any kind, if the file is damaged or too large.
    """
    if limit is None:
        limit = _memory()
    size = path.stat().st_size
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            size = sum(entry.file_size for entry in archive.infolist())
    if size > limit:
        raise MemoryError(f"it holds {size / 1e9:.0f} GB, and {limit / 1e9:.0f} GB can be used")
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - len(_SEAL) - 64))
        sealed = _SEAL in file.read()
    source = io.BytesIO(check_seal(path.read_bytes())) if sealed else path
    loaded = np.load(source, allow_pickle=False)
    if isinstance(loaded, np.ndarray):
        return {"": loaded}
    with loaded as file:
        arrays = {key: file[key] for key in file.files}
    for key, array in arrays.items():
        if not isinstance(array, np.ndarray):
            raise ValueError(f"{key} is no array")
    return arrays


def _memory() -> int:
    """Return the bytes of memory that the machine has, where that can be known."""
    if not hasattr(os, "sysconf"):
        return sys.maxsize
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def read_array(path: Path) -> Array:
    """Return the array of an ``.npy`` file.

    Raises:
        UserError: If the file is missing, damaged, holds objects, or would need too much memory.
    """
    try:
        return load_arrays(path)[""]
    except FileNotFoundError:
        raise UserError(f"{path}: there is no such file") from None
    except KeyError:
        raise UserError(f"{path} holds several arrays, where one is expected") from None
    except Exception as error:  # numpy raises all sorts for damaged files
        raise UserError(f"{path} cannot be read as an array ({one_line(error)})") from error


def read_arrays(path: Path) -> dict[str, Array]:
    """Return the arrays of an ``.npz`` file.

    Raises:
        UserError: If the file is missing, damaged, holds objects, or would need too much memory.
    """
    if not path.is_file():
        raise UserError(f"There is no {path.name}.")
    try:
        arrays = load_arrays(path, limit=_MAX_ARRAY_BYTES)
        if "" in arrays:
            raise ValueError("it holds an array without a name")  # noqa: TRY301
    except Exception as error:  # zipfile, zlib and numpy raise all sorts for damaged files
        raise UserError(f"{path.name} cannot be read ({one_line(error)}).") from error
    return arrays
