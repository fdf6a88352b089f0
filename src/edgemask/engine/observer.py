"""Observers of a run: the base class of live displays and of your own callbacks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgemask.engine.config import Config

__all__ = ["Observer", "RunInfo"]


@dataclass(frozen=True, kw_only=True)
class RunInfo:
    """Facts about a run, known when training starts."""

    path: Path
    """The run's folder."""

    config: Config
    """The resolved config."""

    samples: int
    """Training samples."""

    classes: int
    """Classes."""

    noise: str
    """The label noise, in one line."""

    parameters: int
    """Number of parameters of the networks that learn."""

    device: str
    """The device."""

    processes: int
    """Number of processes."""

    start_epoch: int
    """The first epoch to run: above 0 when the run is resumed."""

    notes: tuple[str, ...] = ()
    """Messages for the user, such as a number format that does not work on this machine."""


class Observer:
    """Base class of observers; every method may be left out. Called in the main process only."""

    def on_start(self, info: RunInfo) -> None:
        """Training starts or is resumed."""

    def on_step(self, *, epoch: int, phase: str, step: int, steps: int, loss: float) -> None:
        """An optimiser step was made.

        Args:
            epoch: The epoch, from 0.
            phase: The name of the running phase.
            step: The step of this phase, from 1.
            steps: Steps of this phase.
            loss: The epoch's mean loss, fetched from the device at most twice per second; in
                between it is the last value fetched.
        """

    def on_epoch(self, metrics: Mapping[str, Any]) -> None:
        """An epoch ended; ``metrics`` is its line of ``metrics.jsonl``."""

    def on_end(self, summary: Mapping[str, Any]) -> None:
        """The run has finished."""
