"""Learning-rate schedules: pure functions of the epoch, so that there is no state to store.

A schedule maps the epoch to a factor on the learning rate (and may change the first-moment decay
of Adam). The factor changes once per epoch, as in the published code; only the linear warm-up
changes it at every step.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass

from edgemask._options import check_options
from edgemask._registry import Registry
from edgemask.engine.config import ScheduleConfig
from edgemask.errors import UserError

__all__ = ["SCHEDULES", "Schedule", "build_schedule"]


@dataclass(frozen=True)
class Schedule:
    """A factor on the learning rate by epoch, after a linear warm-up."""

    factor: Callable[[float], float]
    """Epoch -> factor."""

    beta1: Callable[[float], float | None] = lambda _epoch: None
    """Epoch -> first-moment decay of Adam, None for the optimiser's own."""

    warmup: float = 0.0
    """Epochs of linear warm-up."""

    def at(self, epoch: int, time: float) -> float:
        """Return the factor at an epoch, ``time`` being the epoch with its fraction."""
        if time < self.warmup:
            return self.factor(float(epoch)) * time / self.warmup
        return self.factor(float(epoch))


def constant(*, epochs: int) -> Schedule:
    """A constant learning rate."""
    del epochs
    return Schedule(lambda _epoch: 1.0)


def cosine(
    *, epochs: int, minimum: float = 0.0, start: float = 0.0, period: float | None = None
) -> Schedule:
    """Half a cosine from 1 down to ``minimum``: ``m + (1 - m) (1 + cos(pi t / T)) / 2``.

    Args:
        epochs: Epochs of the run.
        minimum: The lowest factor.
        start: Epochs at the full rate before the descent.
        period: Epochs T of the descent; None ends it with the run. Later the factor rises again.
    """
    span = period if period is not None else epochs - start
    if span <= 0:
        raise UserError(f"cosine schedule: start {start} leaves no epoch of {epochs} to descend in")

    def factor(epoch: float) -> float:
        t = max(epoch - start, 0.0) / span
        return minimum + (1 - minimum) * (1 + math.cos(math.pi * t)) / 2

    return Schedule(factor)


def step(*, epochs: int, size: int, gamma: float = 0.1) -> Schedule:
    """Multiply by ``gamma`` every ``size`` epochs: StepLR(s, gamma) of Table S6."""
    del epochs
    if size < 1:
        raise UserError(f"step schedule: size must be at least 1, got {size}")
    return Schedule(lambda epoch: gamma ** (int(epoch) // size))


def milestones(*, epochs: int, at: list[int], gamma: float = 0.1) -> Schedule:
    """Multiply by ``gamma`` at each of the epochs ``at``."""
    del epochs
    marks = sorted(at)
    return Schedule(lambda epoch: gamma ** bisect_right(marks, epoch))


def restarts(*, epochs: int, period: int, growth: int = 1, minimum: float = 0.0) -> Schedule:
    """Cosine with warm restarts: periods of ``period``, ``period * growth`` ... epochs.

    Args:
        epochs: Epochs of the run.
        period: Epochs of the first period.
        growth: Factor from one period to the next.
        minimum: The lowest factor.
    """
    del epochs
    if period < 1 or growth < 1:
        raise UserError(f"restarts schedule: period {period} and growth {growth} must be >= 1")

    def factor(epoch: float) -> float:
        length, past = float(period), epoch
        while past >= length:
            past -= length
            length *= growth
        return minimum + (1 - minimum) * (1 + math.cos(math.pi * past / length)) / 2

    return Schedule(factor)


def linear(*, epochs: int, start: int = 0, beta1: float | None = None) -> Schedule:
    """Full rate until ``start``, then down to 0 at the end: ``(E - e) / (E - start)``.

    Args:
        epochs: Epochs E of the run.
        start: First epoch of the descent.
        beta1: First-moment decay of Adam from ``start`` on (0.1 in Co-teaching, JoCoR, Jo-SRC).
    """
    if not 0 <= start < epochs:
        raise UserError(f"linear schedule: start must lie in [0, {epochs}), got {start}")
    return Schedule(
        lambda epoch: min(1.0, max(0.0, (epochs - epoch) / (epochs - start))),
        lambda epoch: beta1 if epoch >= start else None,
    )


SCHEDULES: Registry[Callable[..., Schedule]] = Registry(
    "schedule",
    {
        "constant": constant,
        "cosine": cosine,
        "step": step,
        "milestones": milestones,
        "restarts": restarts,
        "linear": linear,
    },
)


def build_schedule(config: ScheduleConfig, epochs: int) -> Schedule:
    """Build the schedule that a config names.

    Example:
        >>> build_schedule(ScheduleConfig(name="step", options={"size": 5}), 10).at(7, 7.0)
        0.1
    """
    factory = SCHEDULES[config.name]
    options = check_options(factory, config.options, "optim.schedule.options", provided=("epochs",))
    made = factory(epochs=epochs, **options)
    return Schedule(made.factor, made.beta1, config.warmup)
