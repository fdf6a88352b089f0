"""The position of a run, and the sums of its running epoch."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from edgemask.methods import Phase

__all__ = ["Progress", "Sums"]


@dataclass(kw_only=True)
class Progress:
    """The position of a run; all of it is in the checkpoint."""

    epoch: int = 0
    """The running epoch, from 0."""

    phase_number: int = 0
    """Phases of this epoch that are done."""

    phase: Phase | None = None
    """The running phase; None between two phases."""

    step: int = 0
    """Optimiser steps made in this phase."""

    total_steps: int = 0
    """Optimiser steps made in the run."""

    retention: float | None = None
    """The share of edges that the head kept in its last step; None for a head without masks."""

    seconds: float = 0.0
    """Seconds that the finished epochs took."""

    history: list[dict[str, Any]] = field(default_factory=list)
    """The metrics of the finished epochs."""

    def state_dict(self) -> dict[str, Any]:
        """Return the fields as tensors and plain values."""
        state = dict(vars(self))
        return state | {"phase": None if self.phase is None else self.phase.state_dict()}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Progress:
        """Make the progress that :meth:`state_dict` described."""
        phase = state["phase"]
        return cls(**{**state, "phase": None if phase is None else Phase.from_state(phase)})


class Sums:
    """Weighted sums by name that stay on the device until they are read.

    Adding waits for nothing. Sums are double precision where the device has it, so that they do
    not depend on how often they were read or stored in between.

    Args:
        device: Device of the numbers.

    Example:
        >>> sums = Sums(torch.device("cpu"))
        >>> sums.add("loss", torch.tensor(2.0), 3)
        >>> sums.add("loss", torch.tensor(4.0), 1)
        >>> sums.mean("loss")
        2.5
    """

    def __init__(self, device: torch.device):
        dtype = torch.float32 if device.type == "mps" else torch.float64
        self._zero = torch.zeros((), device=device, dtype=dtype)
        self._totals: dict[str, Tensor] = {}
        self._counts: dict[str, int] = {}

    def add(self, name: str, value: Tensor | float, count: int) -> None:
        """Add a mean over ``count`` samples."""
        if name not in self._totals:
            self._totals[name] = self._zero.clone()
            self._counts[name] = 0
        self._totals[name].add_(value, alpha=count)
        self._counts[name] += count

    def mean(self, name: str) -> float:
        """Return a mean so far, 0 if nothing was added; waits for the device."""
        if name not in self._totals:
            return 0.0
        return self._totals[name].item() / max(self._counts[name], 1)

    def clear(self) -> None:
        """Forget all sums."""
        self._totals, self._counts = {}, {}

    def state_dict(self) -> dict[str, list[float]]:
        """Return sum and count of each name; waits for the device."""
        if not self._totals:
            return {}
        values = torch.stack(list(self._totals.values())).tolist()
        return {
            name: [value, self._counts[name]]
            for name, value in zip(self._totals, values, strict=True)
        }

    def load_state_dict(self, state: Mapping[str, Sequence[float]]) -> None:
        """Take back what :meth:`state_dict` gave."""
        self._totals = {name: self._zero + total for name, (total, _) in state.items()}
        self._counts = {name: int(count) for name, (_, count) in state.items()}


def joint_means(parts: Sequence[Mapping[str, Sequence[float]]]) -> dict[str, float]:
    """Return the means over all processes from the sums and counts of each, sorted by name."""
    joined = add_sums(parts)
    return {name: total / count if count else math.nan for name, (total, count) in joined.items()}


def add_sums(parts: Sequence[Mapping[str, Sequence[float]]]) -> dict[str, list[float]]:
    """Return the sums and counts of all processes together, sorted by name."""
    return {
        name: [sum(part[name][place] for part in parts if name in part) for place in (0, 1)]
        for name in sorted({name for part in parts for name in part})
    }
