"""The parts of an epoch, as plain data.

An epoch is a list of phases. A phase names the networks that learn, those that only predict and
the loaders that feed it; the loop does the rest. Being plain data, a phase is stored in the
checkpoint, so that a run killed in the middle of an epoch continues with the same split.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

__all__ = ["Clock", "Feed", "Phase", "StepResult"]


@dataclass(frozen=True, kw_only=True)
class Feed:
    """What one loader of a phase delivers."""

    views: tuple[str, ...] = ("weak",)
    """The augmentation of each view: ``none``, ``weak`` or ``strong``."""

    indices: Tensor | None = None
    """The training samples to draw from, as positions; None means all of them. A position that
    comes several times is drawn as often in a pass, as in class-balanced oversampling."""

    batch_size: int | None = None
    """Samples of one step over all processes; None means ``train.batch_size``."""

    shuffle: bool = True
    """Whether the order is drawn anew for each epoch."""

    drop_last: bool = False
    """Whether an incomplete last batch is left out; never the only batch."""

    def state_dict(self) -> dict[str, Any]:
        """Return the feed as tensors and plain values."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


@dataclass(frozen=True, kw_only=True)
class Phase:
    """One part of an epoch: which networks learn, which only predict, and from which samples.

    Example:
        >>> Phase(name="train", train=("net",)).feeds["train"].views
        ('weak',)
    """

    name: str
    """The name that :meth:`Method.step` tells phases apart by."""

    train: tuple[str, ...]
    """Networks that learn, or dotted parts of them (``net.head``): in ``train()`` mode."""

    frozen: tuple[str, ...] = ()
    """Networks that only predict, in ``eval()`` mode."""

    shadow: tuple[str, ...] = ()
    """Networks that no optimiser moves but that stay in ``train()`` mode (momentum copies)."""

    feeds: Mapping[str, Feed] = field(default_factory=lambda: {"train": Feed()})
    """Loaders by name. The first one sets the length of the phase; the others start again when
    they run out, and are missing from the batch where they have no sample at all."""

    steps: int | None = None
    """Steps of the phase; None means one pass over the first feed. With a number, the first feed
    starts again when it runs out, like the others."""

    lr: float | None = None
    """A fixed learning rate for this phase instead of the schedule's."""

    sam_radius: float = 0.0
    """Radius of sharpness-aware minimisation: above 0, each step takes its gradient at the
    weights moved by that far uphill, with the same mask in both passes."""

    @property
    def learners(self) -> tuple[str, ...]:
        """The networks that have a part which learns, each once."""
        return tuple(dict.fromkeys(name.split(".", 1)[0] for name in self.train))

    def state_dict(self) -> dict[str, Any]:
        """Return the phase as tensors and plain values."""
        state = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return state | {"feeds": {name: feed.state_dict() for name, feed in self.feeds.items()}}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Phase:
        """Make the phase that :meth:`state_dict` described."""
        feeds = {
            name: Feed(**{**feed, "views": tuple(feed["views"])})
            for name, feed in state["feeds"].items()
        }
        tuples = {name: tuple(state[name]) for name in ("train", "frozen", "shadow")}
        return cls(**{**state, **tuples, "feeds": feeds})


@dataclass(frozen=True)
class Clock:
    """The position of the run."""

    epoch: int
    """Epoch, from 0."""

    step: int
    """Step of the phase, from 0."""

    steps: int
    """Steps of the phase."""

    @property
    def time(self) -> float:
        """Epochs gone by, with the part of the running one."""
        return self.epoch + self.step / max(self.steps, 1)


@dataclass(frozen=True)
class StepResult:
    """What one step of a method gives back to the loop."""

    loss: Tensor
    """The scalar to minimise: the sum over the networks that learn. Where two networks learn from
    two losses, each loss must reach one network only (detach what comes from the other)."""

    logs: Mapping[str, Tensor | float] = field(default_factory=dict)
    """Numbers to average over the epoch, as ``train/<name>``."""

    def __post_init__(self) -> None:
        if self.loss.ndim != 0:
            raise ValueError(
                f"StepResult.loss must be a scalar, got shape {tuple(self.loss.shape)}"
            )
