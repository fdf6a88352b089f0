"""Checks that need nothing heavy, so that a wrong path is answered at once."""

from __future__ import annotations

from pathlib import Path

from edgemask.cli.names import registered
from edgemask.errors import DataError, UserError

__all__ = ["check_data", "check_file", "check_run"]

_FILES = ("csv", "parquet", "npz")
_ENDINGS = {".csv": "csv", ".tsv": "csv", ".parquet": "parquet", ".npz": "npz"}


def check_data(spec: str | None, *, bare: bool = False) -> None:
    """Refuse data of the user's own that is not there; all else is checked where it is read.

    Args:
        spec: The data, such as ``csv:FILE``.
        bare: Whether a path alone is enough.
    """
    if spec is None:
        return
    kind, _, place = spec.partition(":")
    known = kind in registered("data")
    path = Path(place if known else spec).expanduser()
    if not known and not bare and path.exists():
        kind = "imagefolder" if path.is_dir() else _ENDINGS.get(path.suffix.lower(), "")
        if kind:
            raise UserError(f"say what {spec} is: {kind}:{spec}")
    if not known or not place:
        return
    if kind == "imagefolder" and not path.exists():
        raise DataError(f"{path}: there is no such folder, nor an archive of one")
    if kind in _FILES and not path.exists():
        raise DataError(f"{path}: there is no such file")


def check_file(path: Path | None, what: str = "") -> None:
    """Refuse a file that is not there.

    Args:
        path: The file, or None where none is given.
        what: What is in it, as it follows "no such file".
    """
    if path is not None and not path.expanduser().exists():
        raise UserError(" ".join(filter(None, (f"{path}: there is no such file", what))))


def check_run(path: Path) -> None:
    """Refuse a folder that holds no run."""
    if not (path / "config.yaml").is_file():
        raise UserError(f"{path} holds no run: there is no config.yaml in it")
