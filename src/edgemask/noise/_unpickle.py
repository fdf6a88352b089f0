"""Read label files that torch saved, without running anything that a file may ask for."""

from __future__ import annotations

import collections
import pickle
import tarfile
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
        foreign = _is_foreign(path)
        content = foreign or torch.load(
            path, map_location="cpu", weights_only=False, pickle_module=guarded
        )
    except Exception as error:  # a broken pickle can raise anything
        raise DataError(f"{path} was not read: {error}") from error
    if foreign:
        raise DataError(f"{path} is a tar archive or a program (TorchScript), not labels")
    return content


def _is_foreign(path: Path) -> bool:
    """Say whether torch would read the file by other ways than the guarded one."""
    if not zipfile.is_zipfile(path):
        return tarfile.is_tarfile(path)
    with zipfile.ZipFile(path) as archive:
        return any(name.endswith("constants.pkl") for name in archive.namelist())
