"""One run as a job: doing it, and the state of its folder.

The folder of a run is the only record of what is done. Beside the files of the run it holds
``.job.json``: the process and the commit that worked on it last, its processor time per epoch, and
why it failed if it did.
"""

from __future__ import annotations

import functools
import importlib
import json
import os
import subprocess
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from edgemask._files import write_json
from edgemask.engine.config import Config, to_dict
from edgemask.engine.observer import Observer, RunInfo
from edgemask.engine.resolve import resolve
from edgemask.engine.rundir import RunBusyError, RunDir
from edgemask.engine.signals import Interrupted
from edgemask.errors import UserError

__all__ = [
    "JobResult",
    "RunJob",
    "code_commit",
    "import_modules",
    "job_record",
    "job_state",
    "run_job",
]


@dataclass(frozen=True)
class RunJob:
    """A run to be done."""

    config: Config | Mapping[str, Any]
    """The config, or the same as nested settings of plain values."""
    folder: Path
    """The folder of the run, exactly."""

    @property
    def settings(self) -> dict[str, Any]:
        """The config as nested settings."""
        return to_dict(self.config) if isinstance(self.config, Config) else dict(self.config)


@dataclass(frozen=True)
class JobResult:
    """How a run ended."""

    folder: Path
    state: str
    """``done``, ``failed``, or ``busy`` where another process works on the run."""
    error: str = ""

    @property
    def name(self) -> str:
        """The name of the run's folder."""
        return self.folder.name


def job_record(folder: str | Path) -> dict[str, Any]:
    """Return what is recorded about the last attempt at a run: state, commit, pid, error."""
    try:
        text = (Path(folder) / ".job.json").read_text(encoding="utf-8")
        record: dict[str, Any] = json.loads(text)
    except (OSError, json.JSONDecodeError):
        return {}
    return record


def job_state(folder: str | Path) -> tuple[str, str]:
    """Return the state of a run's folder, with an explanation.

    Returns:
        ``done``, ``running``, ``failed``, ``partly`` (started and stopped) or ``to do``; and the
        reason of a failure or the number of finished epochs.
    """
    run = RunDir(folder)
    if run.finished:
        return "done", ""
    if _is_locked(run.path / ".lock"):
        return "running", f"{len(run.history())} epochs done"
    record = job_record(folder)
    if record.get("state") == "failed":
        return "failed", str(record.get("error", ""))
    if run.started:
        return "partly", f"{len(run.history())} epochs done"
    return "to do", ""


def _is_locked(lock: Path) -> bool:
    """Whether a living process holds a lock file."""
    if not lock.is_file():
        return False
    try:
        import fcntl
    except ImportError:  # a system without advisory locks
        return False
    handle = os.open(lock, os.O_RDWR)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(handle)
    return False


def import_modules(names: Sequence[str]) -> None:
    """Import modules that register names of their own (``--import MODULE``).

    The current folder is searched as well, which the command's own path leaves out.

    Raises:
        UserError: Names a module that cannot be imported, and why.
    """
    if names and not {"", str(Path.cwd())} & set(sys.path):
        sys.path.append(str(Path.cwd()))
    for name in names:
        try:
            importlib.import_module(name)
        except Exception as error:
            raise UserError(
                f"cannot import the module {name!r}: {type(error).__name__}: {error}"
            ) from error


def run_job(job: RunJob, *, imports: Sequence[str] = (), patience: float = 20.0) -> JobResult:
    """Train a run in this process, continue it, or find it done. Errors become a result.

    Args:
        job: The run.
        imports: Modules to import first; they register names that the settings use.
        patience: Seconds to wait for another process that holds the run's lock; one that was
            killed may take a moment to let go.
    """
    from edgemask.engine.train import train

    folder = job.folder
    observer = _StartObserver()
    new = False
    deadline = time.monotonic() + patience
    try:
        import_modules(imports)
        config = resolve(job.settings)
        entries = list(folder.iterdir()) if folder.is_dir() else []
        new = not folder.is_file() and all(path.name[0] == "." for path in entries)
        while True:
            try:
                train(config, out=folder, observers=[observer])
                break
            except RunBusyError as error:
                if time.monotonic() > deadline:
                    return JobResult(folder, "busy", str(error))
                time.sleep(0.2)
        if observer.started:
            _record(folder, "done", cpu_seconds_per_epoch=observer.cpu_seconds_per_epoch)
    except Interrupted as stop:
        _record(folder, "stopped", str(stop))
        raise
    except Exception as error:  # noqa: BLE001 - a failed run must not end the others
        text = str(error) if isinstance(error, UserError) else f"{type(error).__name__}: {error}"
        if new or observer.started:  # otherwise it may be the folder of something else
            _record(folder, "failed", text, traceback=traceback.format_exc())
        return JobResult(folder, "failed", text)
    return JobResult(folder, "done")


class _StartObserver(Observer):
    """Records who works on a run, while the folder is locked, and the time of its epochs."""

    started = False

    def __init__(self) -> None:
        self._begin = self._now = time.process_time()
        self._epochs: list[float] = []

    @property
    def cpu_seconds_per_epoch(self) -> float | None:
        """Processor time from the start of an epoch to its last step: without evaluations."""
        return round(fmean(self._epochs), 6) if self._epochs else None

    def on_start(self, info: RunInfo) -> None:
        self.started = True
        _record(info.path, "running", pid=os.getpid(), commit=code_commit())
        self._begin = time.process_time()

    def on_step(self, **_: object) -> None:
        self._now = time.process_time()

    def on_epoch(self, metrics: Mapping[str, Any]) -> None:
        self._epochs.append(self._now - self._begin)
        self._begin = time.process_time()


def _record(folder: Path, state: str, error: str = "", **facts: Any) -> None:
    facts = {**job_record(folder), "traceback": "", **facts, "state": state, "error": error}
    write_json(folder / ".job.json", facts)


@functools.cache
def code_commit() -> str | None:
    """Return the commit of the code, with ``+`` if files differ from it; None outside git."""

    def git(*words: str) -> str:
        done = subprocess.run(  # noqa: S603
            ["git", *words],  # noqa: S607
            cwd=Path(__file__).parents[1],
            capture_output=True,
            text=True,
            check=True,
            timeout=20,
        )
        return done.stdout.strip()

    try:
        changed = git("status", "--porcelain", "--untracked-files=no", "--", ".")
        return git("rev-parse", "--short=12", "HEAD") + ("+" if changed else "")
    except (OSError, subprocess.SubprocessError):
        return None
