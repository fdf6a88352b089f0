"""Read label files that torch saved, without running anything that a file may ask for."""

from __future__ import annotations

import collections
import pickle
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any

import numpy as np

from edgemask.errors import DataError

__all__ = ["load_torch"]


def _latin1(text: str, encoding: str) -> bytes:
    """Stand in for ``_codecs.encode``, by which pickles of protocol 2 hold bytes."""
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"the encoding {encoding!r} is not admitted")
    return text.encode("latin1")


def _admitted() -> dict[tuple[str, str], Any]:
    import torch

    # In a pickle an array names the private functions that build it.
    array = np.empty(0, dtype=np.int64).__reduce__()[0]
    scalar = np.int64(0).__reduce__()[0]
    names: dict[tuple[str, str], Any] = {
        ("collections", "OrderedDict"): collections.OrderedDict,
        ("_codecs", "encode"): _latin1,
        ("numpy", "ndarray"): np.ndarray,
        ("numpy", "dtype"): np.dtype,
        ("torch._utils", "_rebuild_tensor_v2"): torch._utils._rebuild_tensor_v2,
    }
    for package in ("numpy.core", "numpy._core"):
        names[f"{package}.multiarray", "_reconstruct"] = array
        names[f"{package}.multiarray", "scalar"] = scalar
    for kind in ("Long", "Int", "Short", "Char", "Byte"):
        names["torch", f"{kind}Storage"] = getattr(torch, f"{kind}Storage")
    return names


def load_torch(path: Path) -> Any:
    """Load a ``.pt`` file of arrays, tensors and plain containers; refuse all else."""
    import torch

    admitted = _admitted()

    class Unpickler(pickle.Unpickler):
        def find_class(self, module_name: str, global_name: str) -> Any:
            try:
                return admitted[module_name, global_name]
            except KeyError:
                raise pickle.UnpicklingError(
                    f"it asks for {module_name}.{global_name}, which a label file has no need of"
                ) from None

    def load(file: IO[bytes], **options: Any) -> Any:
        return Unpickler(file, **options).load()

    guarded = SimpleNamespace(__name__="edgemask", Unpickler=Unpickler, load=load)
    try:
        program = _is_program(path)
        content = (
            None
            if program
            else torch.load(path, map_location="cpu", weights_only=False, pickle_module=guarded)
        )
    except Exception as error:  # a broken pickle can raise anything
        raise DataError(f"{path} was not read: {error}") from error
    if program:
        raise DataError(f"{path} holds a program (TorchScript), not labels")
    return content


def _is_program(path: Path) -> bool:
    """Say whether torch would take the file for TorchScript, which it reads on another way."""
    if not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as archive:
        return any(name.endswith("constants.pkl") for name in archive.namelist())
