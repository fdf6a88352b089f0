"""The folder of a run: its files by name, its lock, and the decision to run at all."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from edgemask.engine.config import Config
from edgemask.engine.files import leftovers, read_json, write_text
from edgemask.engine.identity import config_hash
from edgemask.engine.schema import build, dump_yaml, load_yaml
from edgemask.errors import UserError

__all__ = ["RunDir", "default_name"]

_FILES = (
    "config.yaml",
    "noise.npz",
    "metrics.jsonl",
    "summary.json",
    "model.safetensors",
    "samples.npz",
    "head.npz",
    "thumbnails.npz",
)
_FOLDERS = ("checkpoints", "events")


class RunDir:
    """Paths and small files of one run.

    Args:
        path: The folder itself; it need not exist.
    """

    def __init__(self, path: str | Path):
        self.path = Path(path)

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
        summary = self.path / "summary.json"
        return summary.is_file() and read_json(summary).get("status") == "finished"

    @property
    def started(self) -> bool:
        """Whether the folder holds a run, finished or not."""
        return (self.path / "config.yaml").is_file()

    def config(self) -> Config:
        """Read the config that the run was started with."""
        if not self.started:
            raise UserError(f"{self.path} holds no run: there is no config.yaml in it")
        return build(load_yaml(self.path / "config.yaml"))

    def write_config(self, config: Config) -> None:
        """Store the resolved config."""
        write_text(self.path / "config.yaml", dump_yaml(config))

    def check_same(self, config: Config) -> None:
        """Refuse a folder that holds another run, or files that are none."""
        if self.started:
            there = config_hash(self.config())
            if there != config_hash(config):
                raise UserError(
                    f"{self.path} holds another run (config hash {there}, this one has "
                    f"{config_hash(config)}); give another folder, or start over with fresh"
                )
        elif self.path.exists() and not self.path.is_dir():
            raise UserError(f"{self.path} is a file; a run needs a folder")
        elif self.path.is_dir() and any(_foreign(entry) for entry in self.path.iterdir()):
            raise UserError(f"{self.path} is not empty and holds no run; give another folder")

    def prepare(self) -> None:
        """Make the folder and see that it can be written."""
        try:
            self.checkpoints.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"cannot make the run folder {self.path}: {error.strerror}") from error
        for folder in (self.path, self.checkpoints):
            for path in leftovers(folder):
                path.unlink(missing_ok=True)

    def clear(self) -> None:
        """Remove what a run writes, and nothing else; the config last, since it claims the rest."""
        for name in _FOLDERS:
            shutil.rmtree(self.path / name, ignore_errors=True)
        for name in reversed(_FILES):
            (self.path / name).unlink(missing_ok=True)

    def history(self) -> list[dict[str, Any]]:
        """Read the metrics of the finished epochs."""
        path = self.path / "metrics.jsonl"
        if not path.is_file():
            return []
        lines = path.read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines if line.strip()]

    def write_history(self, history: Iterable[Mapping[str, Any]]) -> None:
        """Write the metrics of all finished epochs."""
        text = "".join(json.dumps(row, allow_nan=False) + "\n" for row in history)
        write_text(self.path / "metrics.jsonl", text)

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the run against other processes; the lock dies with its process."""
        try:
            import fcntl
        except ImportError:  # a system without advisory locks
            yield
            return
        path = self.path / ".lock"
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise UserError(
                f"cannot write in the run folder {self.path}: {error.strerror}"
            ) from error
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise UserError(
                    f"another process is working on {self.path}; wait for it, or give another "
                    "folder"
                ) from None
            yield
        finally:
            os.close(handle)


def _foreign(entry: Path) -> bool:
    """Whether a run would never have made this file or folder."""
    return not entry.name.startswith(".") and entry.name not in (*_FILES, *_FOLDERS)


def default_name(config: Config) -> str:
    """Return the folder name of a run: its name, or what it does, and the hash of its config."""
    parts = [config.data.spec.split(":")[-1], config.loss.name, config.head.name]
    if config.method.name != "supervised":
        parts[1] = config.method.name
    name = config.name or "-".join(parts)
    safe = "".join(c if c.isalnum() or c in "._+-" else "-" for c in name).strip(".-")
    return f"{safe or 'run'}-{config_hash(config)}"
