"""A run directory read back, whatever state it is in."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from edgemask.errors import MissingExtraError, UserError
from edgemask.report.arrays import Array, read_head, read_noise, read_samples, read_thumbnails

__all__ = ["RunRecord", "known", "load_run"]

_HUGE = 1e100
_MOST_EPOCHS = 10_000_000
_MARKS = ("config.yaml", "metrics.jsonl", "summary.json")


@dataclass(frozen=True, kw_only=True)
class RunRecord:
    """Everything that a run left on disk; what is absent is empty or ``None``."""

    path: Path
    config: Mapping[str, Any] = field(default_factory=dict)
    """The resolved config."""
    config_text: str = ""
    """``config.yaml`` as it stands in the file."""
    summary: Mapping[str, Any] = field(default_factory=dict)
    """``summary.json``, which only a finished run has."""
    history: tuple[Mapping[str, float | None], ...] = ()
    """One mapping per finished epoch, in order."""
    noise: Mapping[str, Any] = field(default_factory=dict)
    """The manifest of ``noise.npz``: ``noisy``, ``clean``, kind, protocol, rate, seed, classes."""
    samples: Mapping[str, Array] = field(default_factory=dict)
    """Columns of ``samples.npz``, all of one length."""
    head: Mapping[str, Array] = field(default_factory=dict)
    """Scores, histograms and retention over time from ``head.npz``."""
    thumbnails: Mapping[str, Array] = field(default_factory=dict)
    """``index`` and ``images`` of the most doubtful samples."""
    missing: tuple[str, ...] = ()
    """What could not be read, in sentences for the reader of the report."""

    @property
    def finished(self) -> bool:
        """Whether the run reached its end."""
        return self.summary.get("status") == "finished"

    @property
    def name(self) -> str:
        """The run's own name, or that of its folder."""
        return str(self.config.get("name") or self.path.name)

    @property
    def seed(self) -> int | None:
        """The seed of the training."""
        train = self.config.get("train")
        seed = self.summary.get("seed", train.get("seed") if isinstance(train, Mapping) else None)
        return seed if isinstance(seed, int) else None

    @cached_property
    def class_names(self) -> list[str]:
        """Names of the classes; their numbers where there are no names."""
        names = self.summary.get("class_names")
        if isinstance(names, list) and names:
            return [str(name) for name in names]
        return [str(place) for place in range(self.num_classes)]

    @cached_property
    def num_classes(self) -> int:
        """How many classes there are, as far as any file tells."""
        names = self.summary.get("class_names")
        counts = [len(names) if isinstance(names, list) else 0]
        if isinstance(self.noise.get("num_classes"), int):
            counts.append(self.noise["num_classes"])
        if "scores" in self.head:
            counts.append(self.head["scores"].shape[1])
        labels = [self.samples[key] for key in ("given", "predicted") if key in self.samples]
        counts += [int(column.max()) + 1 for column in labels if len(column)]
        return max(counts)

    def class_name(self, label: int) -> str:
        """Return the name of one class; -1 stands for none of them."""
        names = self.class_names
        if label < 0:
            return "none of the classes"
        return names[label] if label < len(names) else str(label)


def load_run(path: str | Path) -> RunRecord:
    """Read a run directory.

    An unfinished or killed run, or one without scores, samples or clean labels, is read as far as
    it goes; ``missing`` then says what is not there. Nothing in the folder is executed: arrays are
    read without pickle and YAML by the safe loader.

    Raises:
        UserError: If the folder does not exist or is no run.
    """
    path = Path(path)
    if not path.is_dir():
        what = "is a file" if path.is_file() else "does not exist"
        raise UserError(f"the run {str(path)!r} {what}; expected the folder that a run has written")
    if not any((path / mark).is_file() for mark in _MARKS):
        inside = sorted(
            child.name
            for child in path.iterdir()
            if child.is_dir() and any((child / mark).is_file() for mark in _MARKS)
        )
        hint = f"; it holds runs, name them instead: {', '.join(inside[:5])}" if inside else ""
        raise UserError(
            f"the folder {str(path)!r} is no run: it has none of {', '.join(_MARKS)}{hint}"
        )
    notes: list[str] = []
    config, text = _read_config(path / "config.yaml", notes)
    summary = _read_summary(path / "summary.json", notes)
    history = _read_history(path / "metrics.jsonl", notes)
    scored = any(row.get("head/retention") is not None for row in history)
    return RunRecord(
        path=path,
        config=config,
        config_text=text,
        summary=summary,
        history=history,
        noise=read_noise(path / "noise.npz", notes),
        samples=read_samples(path / "samples.npz", notes, finished=bool(summary)),
        head=read_head(path / "head.npz", notes, expected=scored),
        thumbnails=read_thumbnails(path / "thumbnails.npz", notes),
        missing=tuple(notes),
    )


def _read_text(path: Path, notes: list[str]) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        notes.append(f"There is no {path.name}.")
    except OSError as error:
        notes.append(f"{path.name} cannot be read: {error.strerror}.")
    return ""


def _read_config(path: Path, notes: list[str]) -> tuple[dict[str, Any], str]:
    try:
        import yaml
    except ImportError as error:
        raise MissingExtraError("pyyaml", "app", "to read the config of a run", error) from error
    text = _read_text(path, notes)
    try:
        value = yaml.safe_load(text) if text else {}
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        notes.append(f"config.yaml is not valid YAML: {str(error).splitlines()[0]}.")
        value = {}
    if not isinstance(value, dict):
        notes.append("config.yaml holds no mapping.")
        value = {}
    return value, text


def _read_summary(path: Path, notes: list[str]) -> dict[str, Any]:
    if not path.is_file():
        notes.append("There is no summary.json: the run is unfinished.")
        return {}
    try:
        value = json.loads(_read_text(path, notes))
    except (ValueError, RecursionError) as error:
        notes.append(f"summary.json is not valid JSON: {error}.")
        return {}
    if not isinstance(value, dict):
        notes.append("summary.json holds no object.")
        return {}
    return value


def _read_history(path: Path, notes: list[str]) -> tuple[dict[str, float | None], ...]:
    """Read the finished epochs; the last line of a killed run may be cut off."""
    epochs: dict[int, dict[str, float | None]] = {}
    broken = 0
    for line in _read_text(path, notes).splitlines():
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            epoch = int(row["epoch"])
            if not 0 <= epoch < _MOST_EPOCHS:
                broken += 1
                continue
            epochs[epoch] = {str(key): known(value) for key, value in row.items()}
        except (ArithmeticError, AttributeError, KeyError, RecursionError, TypeError, ValueError):
            broken += 1
    if broken:
        notes.append(f"{broken} line(s) of metrics.jsonl could not be read and were left out.")
    if not epochs:
        notes.append("No epoch has been finished yet.")
    return tuple(epochs[epoch] for epoch in sorted(epochs))


def known(value: object) -> float | None:
    """Return a number as a float; ``None`` for anything else, and for one too large to draw."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < _HUGE:
        return None
    return float(value)
