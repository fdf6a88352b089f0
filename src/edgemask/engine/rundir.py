"""The folder of a run: its files by name, its lock, and the decision to run at all."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from edgemask._files import write_text
from edgemask.engine.config import Config, build
from edgemask.engine.config_file import dump_yaml
from edgemask.engine.identity import UNKNOWN, config_hash
from edgemask.errors import UserError
from edgemask.runs import SCHEMA, is_finished, read_config, read_history

__all__ = ["RunBusyError", "RunDir", "default_name"]

_FILES = (
    "config.yaml",
    "noise.npz",
    "metrics.jsonl",
    "summary.json",
    "model.safetensors",
    "samples.npz",
    "head.npz",
    "thumbnails.npz",
    "dynamics.npz",
)
_FOLDERS = ("checkpoints", "events")


class RunBusyError(UserError):
    """Another process holds the folder of the run."""


class RunDir:
    """Paths and small files of one run.

    Args:
        path: The folder itself; it need not exist.
    """

    def __init__(self, path: str | Path):
        self.path = Path(path)
        self._lock: int | None = None

    def __repr__(self) -> str:
        return f"RunDir({str(self.path)!r})"

    def __truediv__(self, name: str) -> Path:
        return self.path / name

    @property
    def checkpoints(self) -> Path:
        """The folder of checkpoints."""
        return self.path / "checkpoints"

    @property
    def finished(self) -> bool:
        """Whether the run has come to its end."""
        return is_finished(self.path)

    @property
    def started(self) -> bool:
        """Whether the folder holds a run, finished or not."""
        return (self.path / "config.yaml").is_file()

    def config(self) -> Config:
        """Read the config that the run was started with."""
        if not self.started:
            raise UserError(f"{self.path} holds no run: there is no config.yaml in it")
        try:
            _, values = read_config(self.path)
        except UserError as error:
            raise UserError(f"{self.path}: {error}") from error
        return build(values)

    def check_schema(self) -> None:
        """Refuse to continue a run of an earlier schema version, which can only be read."""
        if self.started and (schema := read_config(self.path)[0]) < SCHEMA:
            raise UserError(
                f"{self.path} was written by an older version of EdgeMask (schema {schema}): "
                "report, eval and predict read it, but it cannot be resumed"
            )

    def write_config(self, config: Config) -> None:
        """Store the resolved config."""
        write_text(self.path / "config.yaml", dump_yaml(config))

    def check_same(self, config: Config) -> None:
        """Refuse a folder that holds another run, or files that are none."""
        if self.started:
            self._check_same_run(config)
        elif self.path.exists() and not self.path.is_dir():
            raise UserError(f"{self.path} is a file; a run needs a folder")
        elif self.path.is_dir() and any(_foreign(entry) for entry in self.path.iterdir()):
            raise UserError(f"{self.path} is not empty and holds no run; give another folder")

    def _check_same_run(self, config: Config) -> None:
        self.check_schema()
        there = self.config()
        if config_hash(there) == config_hash(config):
            return
        way_out = "give another folder, or start over with fresh=True (--fresh)"
        for kind, found in config.contents.items():
            if found.startswith(UNKNOWN):
                raise UserError(
                    f"{self.path} holds a run, and whether its {kind} was the same as this one "
                    f"cannot be known; {way_out}"
                )
        same = there.model_copy(update={"contents": config.contents})
        if config_hash(same) == config_hash(config):
            kinds = [k for k, v in config.contents.items() if there.contents.get(k) != v]
            raise UserError(
                f"{self.path} holds another run: the contents differ ({', '.join(kinds)}); "
                f"{way_out}"
            )
        raise UserError(
            f"{self.path} holds another run (config hash {config_hash(there)}, this one has "
            f"{config_hash(config)}); {way_out}"
        )

    def clear(self) -> None:
        """Remove what a run writes, and nothing else; the config last, since it claims the rest."""
        for name in _FOLDERS:
            shutil.rmtree(self.path / name, ignore_errors=True)
        for name in reversed(_FILES):
            (self.path / name).unlink(missing_ok=True)

    def history(self) -> list[dict[str, Any]]:
        """Read the metrics of the finished epochs."""
        return read_history(self.path)

    def write_history(self, history: Iterable[Mapping[str, Any]]) -> None:
        """Write the metrics of all finished epochs."""
        text = "".join(json.dumps(row, allow_nan=False) + "\n" for row in history)
        write_text(self.path / "metrics.jsonl", text)

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Make the folder and hold it against other processes; the lock dies with its process.

        Nothing in the folder is changed before the lock is held. Then the temporary files of
        writers that were killed are removed.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"cannot make the run folder {self.path}: {error.strerror}") from error
        try:
            handle = os.open(self.path / ".lock", os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise UserError(
                f"cannot write in the run folder {self.path}: {error.strerror}"
            ) from error
        try:
            _lock_file(handle, self.path)
            self._lock = handle
            for folder in (self.path, self.checkpoints):
                for leftover in folder.glob(".*.tmp"):
                    leftover.unlink(missing_ok=True)
            yield
        finally:
            self._lock = None
            os.close(handle)

    def check_there(self) -> None:
        """Refuse to go on where the folder was removed, moved or replaced while it was held."""
        if self._lock is None:
            return
        try:
            there = os.path.samestat((self.path / ".lock").stat(), os.fstat(self._lock))
        except OSError:
            there = False
        if not there:
            raise UserError(
                f"the run folder {self.path} was removed or replaced while the run was going on; "
                "put it back and run the same command again, or start over"
            )


def _lock_file(handle: int, folder: Path) -> None:
    try:
        import fcntl
    except ImportError:  # a system without advisory locks
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise RunBusyError(
            f"another process is working on {folder}; wait for it, or give another folder"
        ) from None


def _foreign(entry: Path) -> bool:
    """Whether a run would never have made this file or folder."""
    return not entry.name.startswith(".") and entry.name not in (*_FILES, *_FOLDERS)


def default_name(config: Config) -> str:
    """Return the folder name of a run: its name, or what it does, and the hash of its config."""
    parts = [config.data.spec.rstrip("/").split(":")[-1], config.loss.name, config.head.name]
    if config.method.name != "supervised":
        parts[1] = config.method.name
    name = config.name or "-".join(parts)
    safe = "".join(c if c.isalnum() or c in "._+-" else "-" for c in name).strip(".-")
    return f"{safe or 'run'}-{config_hash(config)}"
