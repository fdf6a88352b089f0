"""Reading files that may be missing, broken or hostile."""

from __future__ import annotations

import hashlib
import io
import pickle
import shutil
import tarfile
import tempfile
import zipfile
from pathlib import Path, PurePosixPath
from typing import Any

from edgemask.errors import DataError

__all__ = ["extract", "find_folder", "read_checked", "read_pickle"]

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


def extract(archive: Path, folder: Path) -> None:
    """Unpack a zip or tar archive, whole or not at all.

    A member that would land outside the folder, a link or a device refuses the archive. Everything
    is unpacked beside the folder first and moved there at the end; nothing that exists is replaced.

    Args:
        archive: The ``.zip``, ``.tar``, ``.tar.gz``, ``.tgz``, ``.tar.bz2`` or ``.tar.xz`` file.
        folder: A folder that does not exist yet.
    """
    if folder.exists():
        raise DataError(f"{folder}: exists already; move it away before unpacking {archive}")
    folder.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        if zipfile.is_zipfile(archive):
            _unzip(archive, scratch)
        else:
            _untar(archive, scratch)
        scratch.chmod(0o755)
        scratch.rename(folder)
    except (OSError, EOFError, tarfile.TarError, zipfile.BadZipFile) as error:
        raise DataError(f"{archive}: cannot be unpacked ({error})") from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _check_member(archive: Path, name: str) -> None:
    parts = PurePosixPath(name.replace("\\", "/"))
    if parts.is_absolute() or ".." in parts.parts or ":" in name.split("/", maxsplit=1)[0]:
        raise DataError(f"{archive}: refused: its member {name!r} would leave the folder")


def _unzip(archive: Path, folder: Path) -> None:
    with zipfile.ZipFile(archive) as file:
        for member in file.infolist():
            _check_member(archive, member.filename)
            if (member.external_attr >> 16) & 0o170000 == 0o120000:
                raise DataError(f"{archive}: refused: its member {member.filename!r} is a link")
        file.extractall(folder)  # noqa: S202 - every member was checked


def _untar(archive: Path, folder: Path) -> None:
    with tarfile.open(archive) as file:
        members = file.getmembers()
        for member in members:
            _check_member(archive, member.name)
            if not (member.isfile() or member.isdir()):
                raise DataError(
                    f"{archive}: refused: its member {member.name!r} is no file or folder"
                )
        file.extractall(folder, members, filter="data")
