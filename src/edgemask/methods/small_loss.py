"""What Co-teaching and JoCoR have in common: two networks, and the large losses left out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from edgemask.methods.base import Feed, Method, Phase, Role, Task
from edgemask.methods.parts import SampleTable
from edgemask.methods.parts.checks import above_zero, at_least, one_of
from edgemask.methods.parts.rates import drop_rate, known_rate

__all__ = ["SmallLoss"]


class SmallLoss(Method):
    """Two networks see the same batch; a share of it, growing to the noise rate, is dropped.

    The selection is made within the samples that one process has in a (micro-)batch.

    Args:
        forget_rate: The last drop rate; None takes the noise rate of the labels.
        gradual: Epochs over which the drop rate rises.
        exponent: Shape of the rise.
        schedule: Form of the rise, ``paper`` or ``released``; see
            :func:`~edgemask.methods.parts.rates.drop_rate`.
        views: The augmentation of the one view: ``none`` as published, ``weak`` or ``strong``.
    """

    name: ClassVar[str]
    """The method's name in messages."""

    networks = ("first", "second")
    roles: ClassVar[Mapping[str, tuple[Role, ...]]] = {"train": ("main", "main")}
    uses_criterion = False

    def __init__(
        self,
        *,
        forget_rate: float | None = None,
        gradual: int = 10,
        exponent: float = 1.0,
        schedule: Literal["paper", "released"] = "paper",
        views: str = "none",
    ):
        at_least(self.name, 0, gradual=gradual)
        above_zero(self.name, exponent=exponent)
        one_of(self.name, ("paper", "released"), schedule=schedule)
        self.forget_rate = forget_rate
        self.gradual = gradual
        self.exponent = exponent
        self.schedule = schedule
        self.views = views
        self.drop = 0.0

    def setup(self, task: Task, nets: dict[str, nn.Module]) -> None:
        """Make the table of votes."""
        super().setup(task, nets)
        self.rate = known_rate(self.name, "forget_rate", self.forget_rate, self.known_rate(task))
        # By sample: how often a network selected it, and how often one looked at it.
        self.votes = SampleTable(task.num_samples, 2, device=task.device)
        self.remember("votes", self.votes)

    def known_rate(self, task: Task) -> float | None:
        """Return the drop rate that suits the labels, where their noise is known."""
        return task.noise_rate

    def start_epoch(self, epoch: int) -> None:
        """Set the drop rate."""
        self.drop = drop_rate(
            epoch,
            self.rate,
            gradual=self.gradual,
            exponent=self.exponent,
            form=self.schedule,
        )

    def begin(self, phase: str, epoch: int) -> Phase:
        """Train both networks on all samples with one view."""
        del epoch
        feeds = {"train": Feed(views=(self.views,))}
        return Phase(name=phase, train=self.networks, feeds=feeds)

    def end_epoch(self, epoch: int) -> Mapping[str, float]:
        """Report the drop rate."""
        del epoch
        return {"drop_rate": self.drop}

    def vote(self, index: Tensor, selected: Tensor) -> None:
        """Note which samples of a batch were selected, once the drop rate has risen fully."""
        if self.drop < self.rate:
            return
        votes = torch.zeros(len(index), 2, device=index.device)
        votes[selected, 0] = 1.0
        votes[:, 1] = 1.0
        self.votes.add(index, votes)

    def trust(self) -> Tensor | None:
        """Return how often each sample was selected since the drop rate stopped rising."""
        chosen, looks = self.votes.values.unbind(dim=1)
        if not bool((looks > 0).all()):
            return None
        return chosen / looks
