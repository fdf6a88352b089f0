"""What became of each run of a root folder: begun by whom, at which commit, how it ended."""

from __future__ import annotations

import json
import os
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from edgemask.engine.files import write_text
from edgemask.engine.rundir import RunDir

__all__ = ["Ledger", "commit"]


class Ledger:
    """Notes on runs, one small file each, below ``ROOT/ledger``.

    Args:
        root: The folder of the runs.
    """

    def __init__(self, root: str | Path):
        self.root = Path(root)

    def path(self, name: str) -> Path:
        """Return the file of a run."""
        return self.root / "ledger" / f"{name}.json"

    def note(self, name: str, **facts: Any) -> None:
        """Add facts about a run."""
        path = self.path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        joined = self.read(name) | facts | {"at": datetime.now(UTC).isoformat(timespec="seconds")}
        write_text(path, json.dumps(joined, indent=1) + "\n")

    def read(self, name: str) -> dict[str, Any]:
        """Return what is noted about a run; nothing if there is none."""
        try:
            facts: dict[str, Any] = json.loads(self.path(name).read_text(encoding="utf-8"))
        except (FileNotFoundError, json.JSONDecodeError):
            return {}
        return facts

    def state(self, name: str) -> tuple[str, str]:
        """Return how a run stands, and what there is to say about it."""
        folder = RunDir(self.root / name)
        if folder.finished:
            return "done", ""
        if _held(folder.path / ".lock"):
            return "running", f"{len(folder.history())} epochs done"
        facts = self.read(name)
        if facts.get("state") == "failed":
            return "failed", str(facts.get("error", ""))
        if folder.started:
            return "partly", f"{len(folder.history())} epochs done"
        return "to do", ""


def _held(lock: Path) -> bool:
    """Whether a living process works on a run."""
    if not lock.is_file():
        return False
    try:
        import fcntl
    except ImportError:
        return False
    handle = os.open(lock, os.O_RDWR)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(handle)
    return False


def commit() -> str | None:
    """Return the commit of the code that runs, with ``+`` if files differ; None outside git."""
    here = Path(__file__).parent
    try:
        found = _git("rev-parse", "--short=12", "HEAD", cwd=here)
        changed = _git("status", "--porcelain", "--untracked-files=no", "--", ".", cwd=here)
    except (OSError, subprocess.CalledProcessError):
        return None
    return found + ("+" if changed else "")


def _git(*words: str, cwd: Path) -> str:
    done = subprocess.run(  # noqa: S603
        ["git", *words],  # noqa: S607
        cwd=cwd,
        capture_output=True,
        text=True,
        check=True,
        timeout=20,
    )
    return done.stdout.strip()
