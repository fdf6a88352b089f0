"""Run folders read back, whatever state they are in."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from edgemask.errors import UserError, one_line
from edgemask.runs.files import (
    Array,
    attempt,
    finite_number,
    parse_yaml,
    read_arrays,
    read_text,
)
from edgemask.runs.find import find_runs, is_run
from edgemask.runs.samples import (
    MAX_CLASSES,
    SamplesState,
    are_labels,
    is_integer,
    read_samples,
    read_thumbnails,
    samples_state,
)

__all__ = [
    "SCHEMA",
    "RunRecord",
    "is_finished",
    "read_config",
    "read_history",
    "read_run",
    "read_summary",
]

SCHEMA = 2
"""The schema version of the run folders that this version writes; it reads all up to this one."""

_WRITTEN = (
    "It is written after the first epoch that ends with a pass over the training samples "
    "(train.record_every)"
)
_MAX_EPOCHS = 10_000_000


@dataclass(frozen=True, kw_only=True)
class RunRecord:
    """The contents of a run folder; what is missing is empty."""

    path: Path
    schema: int = 1
    """Schema version of the folder."""
    config: Mapping[str, Any] = field(default_factory=dict)
    """The resolved config."""
    config_text: str = ""
    """The text of ``config.yaml``."""
    summary: Mapping[str, Any] = field(default_factory=dict)
    """``summary.json``, which only a finished run has."""
    history: tuple[Mapping[str, float | None], ...] = ()
    """The metrics of each finished epoch, in order."""
    noise: Mapping[str, Any] = field(default_factory=dict)
    """``noise.npz``: ``noisy`` and ``clean`` labels, kind, protocol, rate, seed, num_classes."""
    samples: Mapping[str, Array] = field(default_factory=dict)
    """Columns of ``samples.npz``, all of one length."""
    state: SamplesState = field(default_factory=SamplesState)
    """After which epoch they are so, where the run has not come to its end."""
    head: Mapping[str, Array] = field(default_factory=dict)
    """Scores, histograms and retention over time from ``head.npz``."""
    thumbnails: Mapping[str, Array] = field(default_factory=dict)
    """``index`` and ``images`` of the samples of lowest trust."""
    problems: tuple[str, ...] = ()
    """What is missing or could not be read, one sentence each."""

    @property
    def finished(self) -> bool:
        """Whether the run reached its end."""
        return self.summary.get("status") == "finished"

    @property
    def epochs(self) -> int | None:
        """The epochs that the run was planned for."""
        train = self.config.get("train")
        epochs = train.get("epochs") if isinstance(train, Mapping) else None
        return epochs if isinstance(epochs, int) else None

    @property
    def so_far(self) -> str:
        """Of which moment the samples tell, in words; empty at the end of a run."""
        if self.finished or self.state.after is None:
            return ""
        return f"after epoch {self.state.after} of {self.epochs or '?'}"

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
    def num_classes(self) -> int:
        """The number of classes, as far as any file tells."""
        counts = [len(self._class_names)]
        if isinstance(self.noise.get("num_classes"), int):
            counts.append(self.noise["num_classes"])
        if "scores" in self.head:
            counts.append(self.head["scores"].shape[1])
        labels = [self.samples[key] for key in ("given", "predicted") if key in self.samples]
        counts += [int(column.max()) + 1 for column in labels if len(column)]
        return max(counts)

    def class_name(self, label: int) -> str:
        """Return the name of a class, its number where it has none; -1 is outside all classes."""
        if label < 0:
            return "none of the classes"
        names = self._class_names
        return str(names[label] if label < len(names) else label)

    @property
    def _class_names(self) -> Sequence[Any]:
        names = self.summary.get("class_names")
        return names if isinstance(names, list) else self.state.class_names


def is_finished(folder: Path) -> bool:
    """Return whether a folder holds a finished run; a damaged summary counts as unfinished."""
    try:
        return read_summary(folder).get("status") == "finished"
    except UserError:
        return False


def read_run(path: str | Path) -> RunRecord:
    """Read a run folder, finished or not.

    Raises:
        UserError: If the folder does not exist or is no run.
    """
    folder = Path(path)
    if not is_run(folder):
        find_runs([folder])  # raises for all but a folder that holds runs
        raise UserError(
            f"the folder {str(path)!r} is no run itself, but holds runs; name one of them"
        )
    problems: list[str] = []
    text = attempt(problems, read_text, folder / "config.yaml")
    stored = None if text is None else attempt(problems, _parse_config, text)
    schema, config = stored or (1, {})
    summary: dict[str, Any] = {}
    if (folder / "summary.json").is_file():
        summary = attempt(problems, read_summary, folder) or {}
    else:
        problems.append("There is no summary.json: the run is unfinished.")
    history = tuple(read_history(folder, problems))
    samples: dict[str, Array] = {}
    if (folder / "samples.npz").is_file():
        samples = attempt(problems, read_samples, folder) or {}
    else:
        later = "" if summary else f" {_WRITTEN}."
        problems.append(f"There is no samples.npz: the trust in each label is not known.{later}")
    state = samples_state(samples)
    scored = any(row.get("head/retention") is not None for row in history)
    head = attempt(problems, _read_head, folder / "head.npz", expected=scored) or {}
    thumbnails = attempt(problems, read_thumbnails, folder / "thumbnails.npz") or {}
    return RunRecord(
        path=folder,
        schema=schema,
        config=config,
        config_text=text or "",
        summary=summary,
        history=history,
        noise=_read_noise(folder / "noise.npz", problems),
        samples=samples,
        state=state,
        head=head,
        thumbnails=thumbnails,
        problems=tuple(problems),
    )


def read_config(folder: Path) -> tuple[int, dict[str, Any]]:
    """Return the schema version of a run folder and the config that is stored in it.

    Raises:
        UserError: If ``config.yaml`` is missing, damaged or of a later schema version.
    """
    return _parse_config(read_text(folder / "config.yaml"))


def _parse_config(text: str) -> tuple[int, dict[str, Any]]:
    value = parse_yaml(text, "config.yaml")
    if not isinstance(value, dict):
        raise UserError("config.yaml holds no mapping.")
    config = {str(key): item for key, item in value.items()}
    schema = config.pop("schema", 1)
    if not isinstance(schema, int) or not 1 <= schema <= SCHEMA:
        raise UserError(
            f"config.yaml has schema version {str(schema)[:20]!r}, and this version of EdgeMask "
            f"reads 1 to {SCHEMA}; update EdgeMask."
        )
    return schema, config


def read_summary(folder: Path) -> dict[str, Any]:
    """Return the final numbers of a run.

    Raises:
        UserError: If ``summary.json`` is missing or damaged.
    """
    text = read_text(folder / "summary.json")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"summary.json is not valid JSON ({one_line(error)}).") from error
    if not isinstance(value, dict):
        raise UserError(f"summary.json holds a {type(value).__name__} instead of an object.")
    return value


def read_history(folder: Path, problems: list[str] | None = None) -> list[dict[str, float | None]]:
    """Return the metrics of each finished epoch, in order; damaged lines are left out.

    Args:
        folder: The run folder.
        problems: Gets a sentence for each problem.
    """
    problems = [] if problems is None else problems
    text = attempt(problems, read_text, folder / "metrics.jsonl") or ""
    epochs: dict[int, dict[str, float | None]] = {}
    damaged = 0
    for line in filter(str.strip, text.splitlines()):
        try:
            row = json.loads(line)
            epoch = int(row["epoch"])
            values = {str(key): finite_number(value) for key, value in row.items()}
        except (ArithmeticError, AttributeError, KeyError, RecursionError, TypeError, ValueError):
            epoch = -1
        if 0 <= epoch < _MAX_EPOCHS:
            epochs[epoch] = values
        else:
            damaged += 1
    if damaged:
        problems.append(f"{damaged} line(s) of metrics.jsonl could not be read and are left out.")
    if not epochs:
        problems.append("No epoch has been finished yet.")
    return [epochs[epoch] for epoch in sorted(epochs)]


def _read_noise(path: Path, problems: list[str]) -> dict[str, Any]:
    """Return the labels and how they were made; a clean label of -1 is outside all classes."""
    arrays = attempt(problems, read_arrays, path)
    if not arrays:
        return {}
    noise: dict[str, Any] = {}
    try:
        record = json.loads(str(arrays.get("meta", "{}")))
        for key in ("num_classes", "kind", "protocol", "rate", "seed"):
            if record.get(key) is not None:
                noise[key] = record[key]
        if not 0 < int(noise.get("num_classes", 1)) <= MAX_CLASSES:
            del noise["num_classes"]
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError):
        noise.pop("num_classes", None)
        problems.append("noise.npz: the record of how the labels were made cannot be read.")
    if are_labels(arrays.get("noisy"), least=0):
        noise["noisy"] = arrays["noisy"]
    else:
        problems.append("noise.npz holds no usable noisy labels.")
    clean = arrays.get("clean")
    if clean is None:
        problems.append(
            "The clean labels are not known, so nothing is said about memorised labels or the true "
            "noise rate."
        )
    elif "noisy" in noise and are_labels(clean, least=-1) and clean.shape == noise["noisy"].shape:
        noise["clean"] = clean
    else:
        problems.append("noise.npz: the clean labels do not fit the noisy ones and are left out.")
    return noise


def _read_head(path: Path, *, expected: bool) -> dict[str, Array]:
    """Return scores, histograms and retention over time; many heads have none of them."""
    if not path.is_file() and not expected:
        return {}
    head = read_arrays(path)
    head = {key: value for key, value in head.items() if value.dtype.kind in "iuf"}
    epochs = head.get("epochs", np.zeros(0))
    series = {
        key: head[key]
        for key, dimensions in (("scores", 3), ("histogram", 2), ("retention", 1))
        if key in head
        and head[key].ndim == dimensions
        and head[key].shape[:1] == epochs.shape
        and head[key].size
    }
    if not series or not is_integer(epochs):
        raise UserError("head.npz holds no scores over time; it is left out.")
    if "histogram" in series:
        bins = series["histogram"].shape[1]
        edges = head.get("edges", np.zeros(0))
        fits = edges.shape == (bins + 1,) and bool(np.isfinite(edges).all())
        if not fits or not (np.diff(edges) > 0).all():
            edges = np.linspace(0, 1, bins + 1)
        series["edges"] = edges
    columns = head.get("columns", np.zeros(0))
    if "scores" in series and columns.shape == series["scores"].shape[2:] and is_integer(columns):
        series["columns"] = columns
    return {"epochs": epochs, **series}
