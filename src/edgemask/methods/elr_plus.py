"""ELR+: early learning with two networks, each taught by the average of the other, and mix-up."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from edgemask._options import Range
from edgemask.losses.elr import elr_probabilities, elr_regulariser
from edgemask.methods.base import Clock, Feed, Method, Phase, Role, StepResult, Task
from edgemask.methods.options import Count, NonNegative, Share, options
from edgemask.methods.parts.losses import full_precision
from edgemask.methods.parts.memory import SampleTable, update_ema
from edgemask.methods.parts.mixing import mix, mix_rows

if TYPE_CHECKING:
    from edgemask.data import Batch

__all__ = ["ELRPlus", "average_momentum", "elr_plus_loss", "sigmoid_ramp"]

# Steps of the published ramps over those of the published runs, on CIFAR-10 and CIFAR-100.
_RAMP, _RAMP_100 = 40_000 / 70_400, 40_000 / 88_000


def sigmoid_ramp(step: float, length: float) -> float:
    """Return ``exp(-5 (1 - min(step, length) / length)^2)``, and 1 where the length is 0.

    Example:
        >>> round(sigmoid_ramp(0, 100), 4), sigmoid_ramp(100, 100), sigmoid_ramp(7, 0)
        (0.0067, 1.0, 1.0)
    """
    if length == 0:
        return 1.0
    return math.exp(-5.0 * (1.0 - min(step, length) / length) ** 2)


def average_momentum(
    step: int, *, momentum: float, ramp: float, rule: Literal["ramp", "mean"] = "ramp"
) -> float:
    """Return the share of the averaged weights that stays after a step.

    Args:
        step: Steps made, from 1.
        momentum: The share that it comes to.
        ramp: Steps over which it gets there by the rule ``ramp``.
        rule: ``ramp``: ``momentum exp(-5 (1 - min(s + 1, ramp) / ramp)^2)``; ``mean``:
            ``min(1 - 1 / (s + 1), momentum)``, a running mean at first.

    Example:
        >>> average_momentum(1, momentum=0.997, ramp=40_000, rule="mean")
        0.5
    """
    if rule == "mean":
        return min(1.0 - 1.0 / (step + 1), momentum)
    return momentum * sigmoid_ramp(step + 1, ramp)


def elr_plus_loss(
    logits: Tensor,
    target: Tensor,
    history: Tensor,
    *,
    weight: float,
    weighted_targets: bool,
    min_prob: float = 1e-4,
) -> Tensor:
    """Return ``CE(p, t) + weight mean log(1 - <q, p>)`` of a mixed batch.

    Args:
        logits: Scores of the mixed samples, ``(B, C)``.
        target: Their mixed labels t, ``(B, C)``.
        history: Their mixed running targets q, ``(B, C)``.
        weight: The weight of the regulariser.
        weighted_targets: Whether labels are multiplied by q first and scaled to sum to 1.
        min_prob: Probabilities are clipped to ``[min_prob, 1 - min_prob]`` in the regulariser.
    """
    if weighted_targets:
        product = target * history
        target = product / product.sum(dim=1, keepdim=True).clamp(min=1e-30)
    log_probs = F.log_softmax(logits, dim=1)
    regulariser = elr_regulariser(elr_probabilities(log_probs, min_prob), history).mean()
    return -(target * log_probs).sum(dim=1).mean() + weight * regulariser


@options
class ELRPlus(Method):
    """Two networks with early-learning regularisation, each taught by the other's average.

    First one network learns for an epoch, then the other. A step of network a, with the average of
    network b (a copy whose weights follow it):

    - mix-up of the batch, ``lam' = max(lam, 1 - lam)``: samples, labels t, and targets q below;
    - ``h_i <- beta h_i + (1 - beta) softmax(average of b on the unmixed sample)``, updated before
      it is used; q mixes the h of both partners;
    - ``L = CE(p, t) + lam_r ramp mean log(1 - <q, p>)``, p clipped to [1e-4, 1 - 1e-4].

    There is no warm-up. The mean of both networks' logits is reported.

    Args:
        beta: The share of a target that stays.
        lam: The weight lam_r of the regulariser.
        ramp: Steps over which that weight rises; 0: none. None: none but with 100 classes, where it
            takes the published share, 40,000 of 88,000 steps.
        mixup: Parameter of the Beta distribution of the mix; 0 mixes nothing.
        weighted_targets: Whether mixed labels are multiplied by q and scaled to sum to 1; None:
            with 100 classes, as released.
        momentum: The share of the averaged weights that stays, in the end.
        average: How it gets there: ``ramp`` as on CIFAR, ``mean`` as on WebVision and Clothing1M;
            see :func:`average_momentum`.
        average_ramp: Steps of that rise; None takes the published share, 40,000 of 70,400 steps
            (of 88,000 with 100 classes).
        subset: Samples of a class-balanced draw for each network, once for all, as on Clothing1M;
            None: all.

    Reference:
        Liu et al., Early-Learning Regularization Prevents Memorization of Noisy Labels,
        NeurIPS 2020.
    """

    networks = ("first", "second")
    copies: ClassVar[Mapping[str, str]] = {"first_average": "first", "second_average": "second"}
    roles: ClassVar[Mapping[str, tuple[Role, ...]]] = {
        "train/first": ("main", "teacher"),
        "train/second": ("main", "teacher"),
    }
    uses_criterion = False

    beta: Share = 0.7
    lam: NonNegative = 3.0
    ramp: Annotated[int, Range(0)] | None = None
    mixup: NonNegative = 1.0
    weighted_targets: bool | None = None
    momentum: Share = 0.997
    average: Literal["ramp", "mean"] = "ramp"
    average_ramp: Count | None = None
    subset: Count | None = None

    def setup(self, task: Task, nets: dict[str, nn.Module]) -> None:
        """Make a table of targets for each network."""
        super().setup(task, nets)
        self.targets: dict[str, SampleTable] = {}
        for name in self.networks:
            table = SampleTable(task.num_samples, task.num_classes, device=task.device)
            self.targets[name] = self.remember(f"targets/{name}", table)

    def phases(self, epoch: int) -> Sequence[str]:
        """Train one network, then the other."""
        return tuple(f"train/{name}" for name in self.networks)

    def begin(self, phase: str, epoch: int) -> Phase:
        """Train a network on one weak view; the other's average predicts, in ``train()`` mode."""
        name = phase.split("/")[1]
        indices = None
        if self.subset is not None and self.subset < self.task.num_samples:
            from edgemask.data import BalancedSubset

            labels, number = self.task.labels.cpu().numpy(), self.networks.index(name)
            seed = len(self.networks) * self.task.seed + number
            indices = torch.from_numpy(BalancedSubset(labels, self.subset, seed=seed)(0))
        feeds = {"train": Feed(views=("weak",), indices=indices)}
        return Phase(name=phase, train=(name,), shadow=(self._teacher(name),), feeds=feeds)

    def _teacher(self, name: str) -> str:
        first, second = self.networks
        return f"{second if name == first else first}_average"

    def step(self, phase: Phase, batch: Mapping[str, Batch], clock: Clock) -> StepResult:
        """Return the loss of the network that learns."""
        (name,) = phase.train
        index, (x,), y = batch["train"]
        labels = F.one_hot(y, self.task.num_classes).to(x.dtype)
        mixed = mix_rows(x, labels, alpha=self.mixup, generator=self.task.generator)
        logits = full_precision(self.logits(name, mixed.inputs))
        taught = full_precision(self.logits(self._teacher(name), x, "teacher")).softmax(dim=1)
        table = self.targets[name]
        history = self.beta * table[index] + (1 - self.beta) * taught
        table.write(index, history)
        loss = elr_plus_loss(
            logits,
            mixed.targets,
            mix(history, history[mixed.pairs], mixed.share),
            weight=self.lam * sigmoid_ramp(_steps_made(clock), self._weight_ramp(clock)),
            weighted_targets=self._weighted,
        )
        return StepResult(loss)

    @property
    def _weighted(self) -> bool:
        chosen = self.weighted_targets
        return self._hundred if chosen is None else chosen

    @property
    def _hundred(self) -> bool:
        return self.task.num_classes == 100

    def _weight_ramp(self, clock: Clock) -> float:
        if self.ramp is not None:
            return self.ramp
        return _RAMP_100 * self.task.epochs * clock.steps if self._hundred else 0.0

    def _average_ramp(self, clock: Clock) -> float:
        share = _RAMP_100 if self._hundred else _RAMP
        return self.average_ramp or share * self.task.epochs * clock.steps

    def after_step(self, phase: Phase, clock: Clock) -> None:
        """Move the average of the network that learnt; its statistics are those of its passes."""
        (name,) = phase.train
        momentum = average_momentum(
            _steps_made(clock),
            momentum=self.momentum,
            ramp=self._average_ramp(clock),
            rule=self.average,
        )
        update_ema(self.nets[f"{name}_average"], self.nets[name], momentum, buffers=False)

    def trust(self) -> Tensor | None:
        """Return the share of the given label in the targets, the mean of both networks: a score.

        Samples that were never drawn get the mean of the others.
        """
        column = self.task.labels[:, None]
        shares = []
        for table in self.targets.values():
            total = table.values.sum(dim=1)
            given = table.values.gather(1, column).squeeze(1) / total.clamp(min=1e-12)
            shares.append(torch.where(total > 0, given, torch.nan))
        trust = torch.stack(shares).nanmean(dim=0)
        return None if trust.isnan().all() else trust.nan_to_num(float(trust.nanmean()))


def _steps_made(clock: Clock) -> int:
    """Return the steps that each network has made, the running one included."""
    return clock.epoch * clock.steps + clock.step + 1
