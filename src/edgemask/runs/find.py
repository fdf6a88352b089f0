"""Where run folders are."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from pathlib import Path

from edgemask.errors import UserError

__all__ = ["find_runs", "is_run", "shell_argument"]

_FILES = ("config.yaml", "metrics.jsonl", "summary.json")


def is_run(folder: Path) -> bool:
    """Return whether a folder holds a run, finished or not."""
    return any((folder / name).is_file() for name in _FILES)


def find_runs(paths: Iterable[str | Path]) -> list[Path]:
    """Return the run folders among the given folders, and below those that are no run themselves.

    A folder that is given twice is returned once.

    Raises:
        UserError: If a folder does not exist, or neither is a run nor holds one.
    """
    found: dict[Path, Path] = {}
    for path in map(Path, paths):
        if not path.is_dir():
            what = "is a file" if path.is_file() else "does not exist"
            raise UserError(
                f"the run {str(path)!r} {what}; expected a folder that a run has written"
            )
        inside = [path] if is_run(path) else _runs_below(path)
        if not inside:
            raise UserError(
                f"the folder {str(path)!r} is no run and holds none: a run folder has one of "
                f"{', '.join(_FILES)}"
            )
        for run in inside:
            found.setdefault(run.resolve(), run)
    return list(found.values())


def _runs_below(folder: Path, depth: int = 4) -> list[Path]:
    """Return the run folders below a folder, in order of their names; links are not followed."""
    runs: list[Path] = []
    for child in sorted(folder.iterdir()):
        if child.is_symlink() or not child.is_dir():
            continue
        if is_run(child):
            runs.append(child)
        elif depth > 1:
            runs += _runs_below(child, depth - 1)
    return runs


def shell_argument(path: Path) -> str:
    """Return a path for a command line: quoted, and never read as an option."""
    text = str(path)
    return shlex.quote(f"./{text}" if text.startswith("-") else text)
