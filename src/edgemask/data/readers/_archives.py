"""Unpacking archives that may be broken or hostile."""

from __future__ import annotations

import shutil
import tarfile
import tempfile
import zipfile
from pathlib import Path, PurePosixPath

from edgemask.errors import DataError, one_line

__all__ = ["SUFFIXES", "extract", "without_suffix"]

SUFFIXES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")
_REMOVE = "__MACOSX"  # what macOS adds to its archives


def without_suffix(archive: Path) -> Path | None:
    """Return the path without the suffix of an archive; None where it has none."""
    for suffix in SUFFIXES:
        if archive.name.lower().endswith(suffix):
            return archive.with_name(archive.name[: -len(suffix)])
    return None


def extract(archive: Path, folder: Path) -> None:
    """Unpack a zip or tar archive, whole or not at all.

    A member that would land outside the folder, a link or a device refuses the archive. Everything
    is unpacked beside the folder first and moved there at the end; nothing that exists is replaced.
    A single folder that holds all the rest becomes the folder itself.

    Args:
        archive: The file, of one of the kinds in ``SUFFIXES``.
        folder: A folder that does not exist yet.
    """
    if folder.exists():
        raise DataError(f"{folder}: exists already; move it away before unpacking {archive}")
    scratch = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        content = scratch / "content"
        if zipfile.is_zipfile(archive):
            _unzip(archive, content)
        else:
            _untar(archive, content)
        shutil.rmtree(content / _REMOVE, ignore_errors=True)
        entries = list(content.iterdir())
        single = entries[0] if len(entries) == 1 and entries[0].is_dir() else content
        single.rename(folder)
    except DataError:
        raise
    except Exception as error:  # zipfile, tarfile and zlib raise all sorts
        raise DataError(f"{archive}: cannot be unpacked ({one_line(error)})") from error
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
        # By hand, so that no owner or permission of the archive is taken over: the filters that
        # see to it are younger than the oldest Python that is supported.
        for member in members:
            target = folder / member.name
            if member.isdir():
                target.mkdir(parents=True, exist_ok=True)
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            content = file.extractfile(member)
            assert content is not None
            with content, target.open("wb") as out:
                shutil.copyfileobj(content, out)
