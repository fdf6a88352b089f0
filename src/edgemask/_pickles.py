"""Reading pickles of numbers (CIFAR, label files of torch) without running anything in them.

A pickle is a program that calls what it names. Here each name that such a file needs stands for an
inert class that records what it is called with, and every other name is refused. Arrays are built
after the program has ended: from bytes, a shape that fits them and a data type of a fixed list.

The program runs on Python's own pickle machine instead of the one in C: that one allocates as many
places as a file asks for, and a hash of deeply nested tuples overflows its stack.
"""

from __future__ import annotations

import io
import math
import pickle
import pickletools
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from edgemask.errors import DataError, one_line

__all__ = ["check_torch", "read_pickle", "read_torch"]


class _Recorded:
    """What a pickle called with some arguments, and the state that it then set."""

    __slots__ = ("args", "state")

    def __init__(self, *args: Any):
        self.args = args
        self.state: Any = None

    def __setstate__(self, state: Any) -> None:
        self.state = state


class _Dict(dict[Any, Any]):
    """An ordered dictionary; torch adds attributes to some, which are dropped."""

    def __init__(self, items: Any = ()):
        super().__init__()
        for key, value in items:
            self[_key(key)] = value

    def __setstate__(self, state: Any) -> None:
        del state


def _key(value: Any) -> Any:
    """Return what may be looked up in a mapping; the hash of nested tuples overflows the stack."""
    if isinstance(value, tuple):
        raise ValueError("it uses a tuple as a key")
    return value


class _Bytes(_Recorded): ...


class _DType(_Recorded): ...


class _Array(_Recorded): ...


class _Scalar(_Recorded): ...


class _Tensor(_Recorded): ...


class _Storage(_Recorded): ...


class _ArrayClass(_Recorded): ...


# The names of a pickled array, in old and new versions of numpy and Python.
_ARRAYS: dict[tuple[str, str], type] = {
    ("numpy", "ndarray"): _ArrayClass,
    ("numpy", "dtype"): _DType,
    ("numpy.core.multiarray", "_reconstruct"): _Array,
    ("numpy._core.multiarray", "_reconstruct"): _Array,
    ("numpy.core.multiarray", "scalar"): _Scalar,
    ("numpy._core.multiarray", "scalar"): _Scalar,
    ("_codecs", "encode"): _Bytes,  # bytes in a pickle of protocol 2
    ("__builtin__", "bytes"): _Bytes,
    ("collections", "OrderedDict"): _Dict,
}
_STORAGE_TYPES = {
    type(f"{kind}Storage", (_Recorded,), {}): code
    for kind, code in {"Long": "i8", "Int": "i4", "Short": "i2", "Char": "i1", "Byte": "u1"}.items()
}
_TENSORS = _ARRAYS | {
    ("torch._utils", "_rebuild_tensor_v2"): _Tensor,
    **{("torch", kind.__name__): kind for kind in _STORAGE_TYPES},
}
_DTYPES = frozenset(["b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"])
_DTYPE_STATE = (None, None, None, -1, -1, 0)  # no fields, subarray, own size or flags
_MAX_TUPLES = 50_000  # in a file of weights, which has about four for each tensor
_TORCH_MAGIC = 0x1950A86A20F9469CFC6C
_TORCH_PROTOCOL = 1001
_LEGACY_PICKLES = 5


def read_pickle(data: bytes, path: Path) -> Any:
    """Load a pickle of arrays, numbers, bytes, text and containers; refuse anything else.

    Args:
        data: The pickle; text of Python 2 comes back as bytes.
        path: Where it was read, for messages.

    Raises:
        DataError: The pickle is broken, or names an object that could run code.
    """
    try:
        return _Builder().build(_Unpickler(io.BytesIO(data), _ARRAYS, encoding="bytes").load())
    except Exception as error:  # a broken pickle can raise anything
        raise DataError(
            f"{path}: refused: not a pickle of plain arrays and containers ({one_line(error)}); "
            f"get the file again from its official source"
        ) from error


def read_torch(path: Path) -> Any:
    """Load a file that ``torch.save`` wrote, in its zip or its older format.

    Returns:
        Its plain containers, numbers and text, with tensors of whole numbers as arrays.

    Raises:
        DataError: The file is broken, or holds anything else.
    """
    try:
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                return _read_torch_zip(archive)
        return _read_torch_legacy(path.read_bytes())
    except Exception as error:  # a broken pickle can raise anything
        raise DataError(f"{path} was not read: {one_line(error)}") from error


class _Unpickler(pickle._Unpickler):
    """An unpickler to which only recording classes are known."""

    dispatch: ClassVar[dict[int, Any]] = dict(pickle._Unpickler.dispatch)
    stack: list[Any]
    pop_mark: Callable[[], list[Any]]
    append: Callable[[Any], None]

    def __init__(
        self, file: io.BytesIO, admitted: dict[tuple[str, str], type], encoding: str = "utf-8"
    ):
        super().__init__(file, encoding=encoding)
        self.admitted = admitted
        self.storages: list[Any] = []

    def find_class(self, module: str, name: str) -> Any:
        try:
            return self.admitted[module, name]
        except KeyError:
            raise pickle.UnpicklingError(
                f"it names {module}.{name}, which a file of numbers does not need"
            ) from None

    def persistent_load(self, pid: Any) -> Any:
        if self.admitted is not _TENSORS:
            raise pickle.UnpicklingError("it refers to something outside of the file")
        self.storages.append(pid)
        return _Storage(pid)

    def load_setitem(self) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        self.stack[-1][_key(key)] = value

    def load_setitems(self) -> None:
        items = self.pop_mark()
        for place in range(0, len(items), 2):
            self.stack[-1][_key(items[place])] = items[place + 1]

    def load_dict(self) -> None:
        items = self.pop_mark()
        self.append({_key(items[i]): items[i + 1] for i in range(0, len(items), 2)})

    def load_set(self) -> None:
        raise pickle.UnpicklingError("it holds a set")

    dispatch |= {
        pickle.SETITEM[0]: load_setitem,
        pickle.SETITEMS[0]: load_setitems,
        pickle.DICT[0]: load_dict,
        pickle.EMPTY_SET[0]: load_set,
        pickle.FROZENSET[0]: load_set,
    }


class _Builder:
    """Turns what a pickle recorded into arrays and plain containers.

    Args:
        storage: Returns the bytes of a tensor's storage from its key.
        little: Whether tensors are little-endian.
    """

    def __init__(self, storage: Callable[[Any], bytes] | None = None, little: bool = True):
        self.storage = storage
        self.order = "<" if little else ">"
        self.built: dict[int, Any] = {}

    def build(self, value: Any) -> Any:
        """Return the value with everything recorded in it built; each shared object once."""
        if value is None or type(value) in (bool, int, float, str, bytes):
            return value
        if id(value) not in self.built:
            self.built[id(value)] = self._build(value)
        return self.built[id(value)]

    def _build(self, value: Any) -> Any:
        kinds: dict[type, Callable[[Any], Any]] = {
            list: lambda v: [self.build(item) for item in v],
            tuple: lambda v: tuple(self.build(item) for item in v),
            dict: lambda v: {self.build(key): self.build(item) for key, item in v.items()},
            _Dict: lambda v: {self.build(key): self.build(item) for key, item in v.items()},
            _Bytes: self._bytes,
            _DType: self._dtype,
            _Array: self._array,
            _Scalar: self._scalar,
            _Tensor: self._tensor,
        }
        if type(value) not in kinds:
            raise ValueError(f"it holds a {type(value).__name__.strip('_')}")
        return kinds[type(value)](value)

    def _bytes(self, value: _Bytes) -> bytes:
        if not value.args:
            return b""
        text, encoding = value.args
        if encoding not in ("latin1", b"latin1"):
            raise ValueError(f"the encoding {encoding!r} is not admitted")
        return bytes(text.encode("latin1"))

    def _dtype(self, value: _DType) -> np.dtype[Any]:
        code, order = value.args[0], "="
        if value.state is not None:
            version, order, *rest = value.state
            if version != 3 or tuple(rest) != _DTYPE_STATE:
                raise ValueError("it holds an array of something else than plain numbers")
        code, order = (x.decode("ascii") if isinstance(x, bytes) else x for x in (code, order))
        if _key(code) not in _DTYPES or order not in ("<", ">", "=", "|"):
            raise ValueError(f"it holds an array of type {code!r}, which is no plain number")
        return np.dtype(order + code)

    def _array(self, value: _Array) -> NDArray[Any]:
        _, shape, dtype, fortran, raw = value.state
        raw, dtype = self.build(raw), self._dtype_of(dtype)
        if not isinstance(raw, bytes) or _size(shape) * dtype.itemsize != len(raw):
            raise ValueError(f"an array of shape {shape} does not have as many bytes as it needs")
        return np.frombuffer(raw, dtype).reshape(shape, order="F" if fortran else "C")

    def _scalar(self, value: _Scalar) -> Any:
        dtype, raw = value.args
        (number,) = np.frombuffer(self.build(raw), self._dtype_of(dtype))
        return number

    def _dtype_of(self, value: Any) -> np.dtype[Any]:
        if type(value) is not _DType:
            raise ValueError("an array has no data type")
        return self._dtype(value)

    def _tensor(self, value: _Tensor) -> NDArray[Any]:
        storage, offset, shape, strides = value.args[:4]
        flat = self._storage(storage)
        _size((offset,)), _size(strides)
        last = offset + sum((n - 1) * step for n, step in zip(shape, strides, strict=True))
        if _size(shape) > len(flat) or (_size(shape) and last >= len(flat)):
            raise ValueError(f"a tensor of shape {shape} does not fit into its storage")
        steps = tuple(step * flat.itemsize for step in strides)
        window = np.lib.stride_tricks.as_strided(flat[offset:], shape, steps, writeable=False)
        return np.array(window)

    def _storage(self, value: Any) -> NDArray[Any]:
        if type(value) is not _Storage or self.storage is None:
            raise ValueError("a tensor has no storage")
        _, kind, key, _, size, *view = value.args[0]
        key = _key(key)
        dtype = np.dtype(self.order + _STORAGE_TYPES[kind])
        raw = self.storage(key)
        if _size((size,)) * dtype.itemsize != len(raw):
            raise ValueError(f"a storage of {size} numbers has {len(raw)} bytes")
        flat = np.frombuffer(raw, dtype)
        if not view or view[0] is None:
            return flat
        _, start, length = view[0]
        _size((start, length))
        return flat[start : start + length]


def _size(shape: Any) -> int:
    """Return the number of elements of a shape, after checking that it is one."""
    if not isinstance(shape, tuple | list) or any(type(n) is not int or n < 0 for n in shape):
        raise ValueError(f"{shape!r} is not a shape")
    return math.prod(shape)


def _read_torch_zip(archive: zipfile.ZipFile) -> Any:
    names = archive.namelist()
    (program,) = [name for name in names if name.endswith("/data.pkl") or name == "data.pkl"]
    folder = program.removesuffix("data.pkl")

    def content(name: str) -> bytes:
        if archive.getinfo(name).compress_type != zipfile.ZIP_STORED:
            raise ValueError(f"{name} is compressed, which torch does not do")
        return archive.read(name)

    little = f"{folder}byteorder" not in names or content(f"{folder}byteorder") == b"little"
    recorded = _Unpickler(io.BytesIO(content(program)), _TENSORS).load()
    return _Builder(lambda key: content(f"{folder}data/{key}"), little).build(recorded)


def _read_torch_legacy(data: bytes) -> Any:
    """Read three pickles about the format, the object, the keys of its storages, and these."""
    file = io.BytesIO(data)
    if _Unpickler(file, {}).load() != _TORCH_MAGIC:
        raise ValueError("it is no file that torch.save wrote")
    if _Unpickler(file, {}).load() != _TORCH_PROTOCOL:
        raise ValueError("it has another version of torch's older format")
    machine = _Unpickler(file, {}).load()
    program = _Unpickler(file, _TENSORS)
    recorded = program.load()
    widths = {_key(pid[2]): np.dtype(_STORAGE_TYPES[pid[1]]).itemsize for pid in program.storages}
    storages: dict[Any, bytes] = {}
    for key in map(_key, _Unpickler(file, {}).load()):
        size = int.from_bytes(file.read(8), "little", signed=True)
        storages[key] = file.read(_size((size,)) * widths[key])
    return _Builder(storages.__getitem__, machine["little_endian"]).build(recorded)


def check_torch(data: bytes) -> None:
    """Refuse a file that crashes ``torch.load(weights_only=True)`` or needs unbounded memory.

    Raises:
        ValueError: If it holds compressed or damaged parts, or more tuples than weights need.
    """
    file = io.BytesIO(data)
    if not zipfile.is_zipfile(file):
        file.seek(0)
        for _ in range(_LEGACY_PICKLES):
            _check_tuples(file)
        return
    with zipfile.ZipFile(file) as archive:
        for entry in archive.infolist():
            if entry.compress_type != zipfile.ZIP_STORED:
                raise ValueError(f"{entry.filename} is compressed, which torch does not do")
        if (wrong := archive.testzip()) is not None:  # torch.load does not do this
            raise ValueError(f"the checksum of {wrong} does not fit")
        for name in archive.namelist():
            if name.endswith(".pkl"):
                _check_tuples(io.BytesIO(archive.read(name)))


def _check_tuples(program: io.BytesIO) -> None:
    """Torch's reader hashes tuples of any depth, on a stack that is not endless."""
    tuples = 0
    for opcode, _, _ in pickletools.genops(program):
        tuples += opcode.name.startswith("TUPLE")
        if tuples > _MAX_TUPLES:
            raise ValueError("it holds too many tuples for a file of weights")
