"""Watching a run: what a live display or a callback of one's own implements."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgemask.engine.config import Config

__all__ = ["Observer", "RunInfo"]


@dataclass(frozen=True, kw_only=True)
class RunInfo:
    """What is known when training starts."""

    path: Path
    """The run's folder."""

    config: Config
    """The resolved config."""

    samples: int
    """Training samples."""

    classes: int
    """Classes."""

    noise: str
    """The labels, in one line."""

    parameters: int
    """Weights of the networks that learn."""

    device: str
    """Where the run computes."""

    processes: int
    """How many processes share the work."""

    start_epoch: int
    """The epoch that comes first: above 0 when the run goes on."""

    notes: tuple[str, ...] = ()
    """What the person should know, such as a number format that does not work here."""


class Observer:
    """Base of all watchers: every hook may be left out. Called in the first process only."""

    def on_start(self, info: RunInfo) -> None:
        """Training begins or goes on."""

    def on_step(self, *, epoch: int, phase: str, step: int, steps: int, loss: float) -> None:
        """An optimiser step was made (``step`` of ``steps`` in this phase, from 1)."""

    def on_epoch(self, metrics: Mapping[str, Any]) -> None:
        """An epoch ended; these are its line of ``metrics.jsonl``."""

    def on_end(self, summary: Mapping[str, Any]) -> None:
        """The run has finished."""
