"""Names for contents: two things with the same fingerprint train the same model."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import inspect
import json
import os
import types
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from edgemask._files import write_text
from edgemask.data import FileSplit
from edgemask.errors import UserError

__all__ = ["UnidentifiedError", "file_fingerprint", "fingerprint", "path_fingerprint"]

_PLAIN = (bool, int, float, complex, str, bytes, type(None), type(...), torch.dtype)
# Their classes are identified by version; their source is not read.
_LIBRARIES = ("torch", "numpy", "builtins", "collections", "edgemask", "transformers")
_DIGITS = 16
_CACHED = 1000


class UnidentifiedError(Exception):
    """An object whose contents cannot be known; the message names it."""


def fingerprint(value: Any) -> str:
    """Return a hash of an object's class, attributes, weights and arrays.

    Classes and functions go by name and compiled code, functions with what they close over. The
    ``repr`` of an object plays no part, and neither does its place in memory.

    Raises:
        UnidentifiedError: For a lambda, or an object without attributes that could be compared.

    Example:
        >>> fingerprint(np.zeros(3)) == fingerprint(np.zeros(3))
        True
        >>> fingerprint(torch.nn.Linear(2, 2)) == fingerprint(torch.nn.Linear(2, 2))
        False
    """
    hasher = _Hasher()
    hasher.add(value)
    return hasher.sha.hexdigest()[:_DIGITS]


class _Hasher:
    """A hash of nested values; an object that occurs again is hashed by its number."""

    def __init__(self) -> None:
        self.sha = hashlib.sha256()
        self.seen: dict[int, tuple[int, Any]] = {}  # holds the objects, so that no id is used twice

    def add(self, value: Any) -> None:
        """Add a value of any kind."""
        self.text(f"<{type(value).__module__}.{type(value).__qualname__}>")
        if isinstance(value, (*_PLAIN, torch.device, np.generic, np.dtype)):
            self.text(repr(value))
        elif id(value) in self.seen:
            self.text(str(self.seen[id(value)][0]))
        else:
            self.seen[id(value)] = len(self.seen), value
            _contents(value, self)

    def text(self, text: str) -> None:
        """Add a text."""
        self.sha.update(os.fsencode(text) + b"\n")

    def array(self, array: np.ndarray[Any, Any]) -> None:
        """Add the numbers of an array."""
        self.text(f"{array.dtype.str}{array.shape}")
        self.sha.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)

    def code(self, thing: Any) -> None:
        """Add the name and the compiled code of a class or function, whatever file it is in."""
        name, module = getattr(thing, "__qualname__", ""), getattr(thing, "__module__", "") or ""
        self.text(f"{module}:{name}")
        if "<lambda>" in name:
            raise UnidentifiedError("a lambda has no name; write a function with def")
        if module.partition(".")[0] in _LIBRARIES:
            return
        if inspect.isclass(thing):
            self.add(thing.__bases__)
            for key, member in sorted(vars(thing).items()):
                function = getattr(member, "__func__", None) or getattr(member, "fget", member)
                own = isinstance(member, _PLAIN) and not key.startswith("__")
                if own or isinstance(function, types.FunctionType):
                    self.add([key, function])
        else:
            self.add([thing.__code__, thing.__defaults__, thing.__kwdefaults__])
            for cell in thing.__closure__ or ():
                with contextlib.suppress(ValueError):  # not filled yet
                    self.add(cell.cell_contents)


@functools.singledispatch
def _contents(value: Any, hasher: _Hasher) -> None:
    """Add what is inside a value; this is the rule for objects without one of their own."""
    if not hasattr(value, "__dict__"):
        raise UnidentifiedError(f"a {type(value).__qualname__} has no attributes to compare")
    hasher.add([type(value), vars(value)])


@_contents.register
def _(value: Tensor, hasher: _Hasher) -> None:
    hasher.text(f"{value.dtype}{tuple(value.shape)}")
    hasher.array(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())


@_contents.register(np.ndarray)
def _(value: np.ndarray[Any, Any], hasher: _Hasher) -> None:
    if value.dtype.hasobject:
        hasher.add(value.tolist())
    else:
        hasher.array(value)


@_contents.register(Mapping)
def _(value: Mapping[Any, Any], hasher: _Hasher) -> None:
    for key, item in value.items():
        hasher.add(key)
        hasher.add(item)


@_contents.register(list)
@_contents.register(tuple)
def _(value: Iterable[Any], hasher: _Hasher) -> None:
    for item in value:
        hasher.add(item)


@_contents.register(set)
@_contents.register(frozenset)
def _(value: Iterable[Any], hasher: _Hasher) -> None:
    for part in sorted(fingerprint(item) for item in value):
        hasher.text(part)


@_contents.register(type)
@_contents.register(types.FunctionType)
def _(value: Any, hasher: _Hasher) -> None:
    hasher.code(value)


@_contents.register
def _(value: types.CodeType, hasher: _Hasher) -> None:
    hasher.add([value.co_code, value.co_names, value.co_consts])


@_contents.register
def _(value: types.MethodType, hasher: _Hasher) -> None:
    hasher.add([value.__func__, value.__self__])


@_contents.register
def _(value: inspect.Signature, hasher: _Hasher) -> None:
    for parameter in value.parameters.values():
        hasher.add([parameter.name, int(parameter.kind), parameter.default])


@_contents.register(types.ModuleType)
@_contents.register(types.BuiltinFunctionType)
def _(value: Any, hasher: _Hasher) -> None:
    hasher.text(value.__name__)


@_contents.register(functools.partial)
def _(value: functools.partial[Any], hasher: _Hasher) -> None:
    hasher.add([value.func, value.args, value.keywords])


@_contents.register(os.PathLike)
def _(value: os.PathLike[str], hasher: _Hasher) -> None:
    hasher.text(_stat(Path(value), Path(value)))


@_contents.register
def _(value: FileSplit, hasher: _Hasher) -> None:
    hasher.add([value.labels, value.size])
    for path, name in zip(value.paths, value.names, strict=True):
        hasher.text(_stat(path, Path(name)))


def _stat(path: Path, name: Path) -> str:
    try:
        found = path.stat()
    except OSError:
        return str(name)
    return f"{name} {found.st_size} {found.st_mtime_ns}"


def path_fingerprint(path: Path) -> str:
    """Return a hash of a file, or of a folder without its hidden files.

    A file and a folder of plain files go by their bytes; a folder with sub-folders, such as one of
    images by class, by relative path, size and time of every file.
    """
    if path.is_file():
        return file_fingerprint(path)
    files = [file for file in sorted(path.rglob("[!.]*")) if file.is_file()]
    if all(file.parent == path for file in files):
        return fingerprint([(file.name, file_fingerprint(file)) for file in files])
    return fingerprint([_stat(file, file.relative_to(path)) for file in files])


def file_fingerprint(path: Path) -> str:
    """Return a hash of a file's bytes; kept in the user's cache folder by path, size and time."""
    cache = _cache_folder() / "files.json"
    key = _stat(path, path.resolve())
    known = _read_cache(cache)
    if key not in known:
        try:
            with path.open("rb") as file:
                known[key] = hashlib.file_digest(file, "sha256").hexdigest()[:_DIGITS]
        except OSError as error:
            raise UserError(f"cannot read {path}: {error.strerror}") from error
        with contextlib.suppress(UserError):  # without a cache the bytes are read again
            write_text(cache, json.dumps(dict(list(known.items())[-_CACHED:])))
    return known[key]


def _cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "edgemask"


def _read_cache(path: Path) -> dict[str, str]:
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return values if isinstance(values, dict) else {}
