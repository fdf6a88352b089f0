"""Checks that need nothing heavy, so that a wrong name or path is refused at once."""

from __future__ import annotations

import sys
from pathlib import Path

from edgemask._registry import Registry
from edgemask.cli.names import KINDS, name_registry
from edgemask.errors import DataError, UserError, nearest

__all__ = ["check_data", "check_file", "check_name", "check_run"]

_FILES = ("csv", "parquet", "npz")
_ENDINGS = {".csv": "csv", ".tsv": "csv", ".parquet": "parquet", ".npz": "npz"}


def check_data(spec: str | None, *, bare: bool = False) -> None:
    """Refuse a name that no dataset has, and data of the user's own that is not there.

    Args:
        spec: The data, such as ``csv:FILE``.
        bare: Whether a path alone is enough.
    """
    if spec is None:
        return
    datasets = name_registry("data")
    kind, _, place = spec.partition(":")
    if kind not in datasets:
        # Once edgemask.data is imported (--import), its registry may hold more names.
        imported = "edgemask.data" in sys.modules and not Path(spec).expanduser().exists()
        if not bare and not imported:
            raise _unknown(spec, datasets)
        return
    path = Path(place).expanduser()
    if kind == "imagefolder" and place and not path.exists():
        raise DataError(f"{path}: there is no such folder, nor an archive of one")
    if kind in _FILES and place and not path.exists():
        raise DataError(f"{path}: there is no such file")


def _unknown(spec: str, datasets: Registry[None]) -> UserError:
    """Return the error for a name that no dataset has, which may be a path."""
    path = Path(spec).expanduser()
    own = "data of your own is imagefolder:PATH, csv:FILE, parquet:FILE or npz:FILE"
    kind = "imagefolder" if path.is_dir() else _ENDINGS.get(path.suffix.lower(), "")
    if path.exists() and kind:
        return UserError(f"say what {spec} is: {kind}:{spec}")
    name = spec.partition(":")[0]
    if path.exists():
        return DataError(f"{spec}: this kind of file cannot be read; {own}")
    if "/" in name:
        return DataError(f"{spec}: there is no such file or folder; {own}")
    hint = nearest(name, datasets) or f". Known: {', '.join(sorted(datasets))}"
    return UserError(f"unknown dataset {name!r}{hint} ({own})")


def check_name(kind: str, said: str | None) -> None:
    """Refuse a name that no head, loss, method or model has.

    Args:
        kind: What is named: ``heads``, ``losses``, ``methods`` or ``models``.
        said: The name, with options as in ``sem(rho=0.3)`` or without; None where none is given.
    """
    subpackage, _ = KINDS[kind]
    # Once its subpackage is imported (--import), the registry itself may hold more names.
    if said is None or f"edgemask.{subpackage}" in sys.modules:
        return
    name = said.partition("(")[0].strip()
    if not name or " " in name or ":" in name:  # not a name; a name of another library
        return
    registry = name_registry(kind)
    try:
        registry.name_of(name)
    except UserError as error:
        raise UserError(f"wrong config: {registry.kind}.name: {error}") from None


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
