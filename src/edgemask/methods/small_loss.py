"""What Co-teaching and JoCoR have in common: two networks, and the large losses left out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

import torch
from torch import Tensor, nn

from edgemask._options import Range
from edgemask.methods.base import Feed, Method, Phase, Role, Task
from edgemask.methods.options import Augmentation, NoiseRate, Positive, options
from edgemask.methods.parts import SampleTable
from edgemask.methods.parts.schedules import drop_rate, known_rate

__all__ = ["SmallLoss"]


@options
class SmallLoss(Method):
    """Two networks see the same batch; a share of it, growing to the noise rate, is dropped.

    The selection is made within the (micro-)batches of all processes together.

    Args:
        forget_rate: The last drop rate; None takes the share of wrong labels.
        noise_rate: Which rate that share is where EdgeMask made the noise: ``realised``, the share
            of labels that are wrong, as the papers mean it, or ``nominal``, the rate that the
            noise was made with, which the released codes pass on.
        gradual: Epochs over which the drop rate rises.
        exponent: Shape of the rise.
        schedule: Form of the rise, ``paper`` or ``released``; see
            :func:`~edgemask.methods.parts.schedules.drop_rate`.
        views: The augmentation of the one view: ``none`` as published, ``weak`` or ``strong``.
    """

    networks = ("first", "second")
    roles: ClassVar[Mapping[str, tuple[Role, ...]]] = {"train": ("main", "main")}
    uses_criterion = False
    needs = "noise rate"

    forget_rate: NoiseRate | None = None
    noise_rate: Literal["realised", "nominal"] = "realised"
    gradual: Annotated[int, Range(0)] = 10
    exponent: Positive = 1.0
    schedule: Literal["paper", "released"] = "paper"
    views: Augmentation = "none"

    drop = 0.0
    """The drop rate of the running epoch."""

    def setup(self, task: Task, nets: dict[str, nn.Module]) -> None:
        """Make the table of votes."""
        super().setup(task, nets)
        rates = (task.realised_rate, task.nominal_rate)
        if self.noise_rate == "nominal":
            rates = rates[::-1]
        self.rate = known_rate(type(self).__name__, "forget_rate", self.forget_rate, *rates)
        # By sample: how often a network selected it, and how often it was in a batch.
        table = SampleTable(task.num_samples, 2, device=task.device)
        self.votes = self.remember("votes", table)

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
        feeds = {"train": Feed(views=(self.views,))}
        return Phase(name=phase, train=self.networks, feeds=feeds)

    def end_epoch(self, epoch: int) -> Mapping[str, float]:
        """Report the drop rate."""
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
        chosen, seen = self.votes.values.unbind(dim=1)
        if not bool((seen > 0).all()):
            return None
        return chosen / seen
