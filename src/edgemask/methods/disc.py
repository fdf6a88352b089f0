"""DISC: each sample has thresholds of its own, which follow how sure the network is of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from edgemask.losses import GCELoss
from edgemask.methods.base import Clock, Feed, Phase, Role, StepResult, Task
from edgemask.methods.options import Count, NonNegative, Positive, Share, options
from edgemask.methods.parts.losses import full_precision
from edgemask.methods.parts.memory import SampleTable
from edgemask.methods.parts.mixing import mix_rows
from edgemask.methods.parts.schedules import is_asymmetric
from edgemask.methods.warmup import WarmupMethod

if TYPE_CHECKING:
    from edgemask.data import Batch

__all__ = ["DISC", "SampleKinds", "divide_samples", "moved_thresholds"]

_REST, _CLEAN, _HARD, _CORRECTED = range(4)
_EPOCHS = 200  # of the published run


class SampleKinds(NamedTuple):
    """What DISC takes each sample for at the end of an epoch; each ``(N,)``."""

    clean: Tensor
    """The given label is likely in both views."""

    hard: Tensor
    """It is likely in one of them."""

    corrected: Tensor
    """It is likely in none, and another class is very likely."""

    labels: Tensor
    """The given label, and for corrected samples the likeliest class."""


def divide_samples(
    weak: Tensor,
    strong: Tensor,
    labels: Tensor,
    tau_weak: Tensor,
    tau_strong: Tensor,
    *,
    sigma: float = 0.5,
    highest: float = 0.99,
) -> SampleKinds:
    """Sort samples by the probability of their labels against thresholds of their own.

    Clean: ``p_w[y] > tau_w`` and ``p_s[y] > tau_s``; hard: exactly one of them. Of the others,
    those with ``max (p_w + p_s) / 2 > min((tau_w + tau_s) / 2 + sigma, highest)`` are corrected.

    Args:
        weak: Probabilities of the weak view, ``(N, C)``.
        strong: Those of the strong view.
        labels: Given labels, ``(N,)``.
        tau_weak: Thresholds of the weak view, ``(N,)``.
        tau_strong: Those of the strong view.
        sigma: How far above the thresholds a corrected sample must be.
        highest: The largest threshold of a correction.
    """
    column = labels[:, None]
    by_weak = weak.gather(1, column).squeeze(1) > tau_weak
    by_strong = strong.gather(1, column).squeeze(1) > tau_strong
    likelihood, likeliest = ((weak + strong) / 2).max(dim=1)
    bound = ((tau_weak + tau_strong) / 2 + sigma).clamp(max=highest)
    corrected = (likelihood > bound) & ~by_weak & ~by_strong
    return SampleKinds(
        clean=by_weak & by_strong,
        hard=by_weak ^ by_strong,
        corrected=corrected,
        labels=torch.where(corrected, likeliest, labels),
    )


def moved_thresholds(tau: Tensor, probabilities: Tensor, momentum: float) -> Tensor:
    """Return ``momentum tau + (1 - momentum) max p``, the thresholds of the next epoch.

    Args:
        tau: Thresholds of one view, ``(N,)``.
        probabilities: Probabilities of that view, ``(N, C)``.
        momentum: The share that stays.
    """
    return momentum * tau + (1 - momentum) * probabilities.amax(dim=1)


@options
class DISC(WarmupMethod):
    """Select, relearn or relabel each sample by thresholds that follow how sure the network is.

    A weak and a strong view of each sample go through the network in one pass; their probabilities
    ``p_w``, ``p_s`` are remembered. At the end of every epoch, warm-up included,
    :func:`divide_samples` sorts the samples into clean, hard, corrected ones and the rest; then
    ``tau <- M tau + (1 - M) max p`` for each view.

    - Warm-up: ``CE(p_w, y) + CE(p_s, y)``.
    - Then, in a batch of B and for both views: ``(sum over clean CE + lam sum over hard GCE) / B``,
      plus the cross entropy of clean, hard and corrected samples mixed among each other, in a pass
      of its own.

    Args:
        warmup: Epochs of plain training; None takes the published share (20 of 200).
        momentum: The share M of a threshold that stays; None takes the published one, 0.99 in a run
            of 200 epochs (0.95 under asymmetric noise and at a nominal rate of 0.6 and above),
            scaled to the length of the run.
        hard_weight: The weight lam of hard samples; None takes the published one, 1 (0.2 at a
            nominal rate of 0.6 and above).
        sigma: How far above its thresholds a sample must be to be relabelled.
        q: The exponent of the loss of hard samples (GCE).
        alpha: Parameter of the Beta distribution of the mix.
        subset: Samples of a fresh class-balanced draw for each epoch, as on Clothing1M; None: all.

    Reference:
        Li et al., DISC: Learning from Noisy Labels via Dynamic Instance-Specific Selection and
        Correction, CVPR 2023.
    """

    roles: ClassVar[Mapping[str, tuple[Role, ...]]] = {
        "warmup": ("main",),
        "train": ("main", "main", "main"),
    }
    uses_criterion = False
    published_warmup = (20, _EPOCHS)

    momentum: Share | None = None
    hard_weight: NonNegative | None = None
    sigma: Share = 0.5
    q: Positive = 0.7
    alpha: NonNegative = 5.0
    subset: Count | None = None

    def setup(self, task: Task, nets: dict[str, nn.Module]) -> None:
        """Settle what depends on the noise, and make the tables."""
        super().setup(task, nets)
        rate = task.nominal_rate if task.nominal_rate is not None else task.realised_rate
        much = (rate or 0.0) >= 0.6
        published = 0.95 if much or is_asymmetric(task.noise_kind) else 0.99
        self.stay = published ** (_EPOCHS / task.epochs)
        if self.momentum is not None:
            self.stay = self.momentum
        published = 0.2 if much else 1.0
        self.hardness = published if self.hard_weight is None else self.hard_weight
        self.gce = GCELoss(q=self.q, reduction="none")
        size, device = task.num_samples, task.device
        # By view (weak, strong): the last probabilities and the threshold.
        self.probabilities = SampleTable(size, 2, task.num_classes, device=device)
        self.tau = SampleTable(size, 2, fill=1.0 / size, device=device)
        # What a sample was taken for at the end of the last epoch and its label in the mix; whether
        # it was in a batch of this one.
        self.kinds = SampleTable(size, dtype=torch.int8, device=device)
        self.labels = SampleTable(size, dtype=torch.long, device=device)
        self.seen = SampleTable(size, dtype=torch.int8, device=device)
        for name in ("probabilities", "tau", "kinds", "labels", "seen"):
            self.remember(name, getattr(self, name))

    def begin(self, phase: str, epoch: int) -> Phase:
        """Train on a weak and a strong view of all samples, or of a balanced draw."""
        indices = None
        if self.subset is not None and self.subset < self.task.num_samples:
            from edgemask.data import BalancedSubset

            labels = self.task.labels.cpu().numpy()
            drawn = BalancedSubset(labels, self.subset, seed=self.task.seed)(epoch)
            indices = torch.from_numpy(drawn)
        feeds = {"train": Feed(views=("weak", "strong"), indices=indices)}
        return Phase(name=phase, train=("net",), feeds=feeds)

    def step(self, phase: Phase, batch: Mapping[str, Batch], clock: Clock) -> StepResult:
        """Return the loss of a batch, both views in one forward pass."""
        index, views, y = batch["train"]
        logits = full_precision(self.logits("net", torch.cat(views))).chunk(2)
        probabilities = torch.stack([z.softmax(dim=1) for z in logits], dim=1)
        self.probabilities.write(index, probabilities)
        self.seen.write(index, torch.ones_like(index))
        if phase.name == "warmup":
            return StepResult(F.cross_entropy(logits[0], y) + F.cross_entropy(logits[1], y))
        kinds = self.kinds[index]
        clean, hard, chosen = kinds == _CLEAN, kinds == _HARD, kinds != _REST
        loss = torch.zeros((), device=y.device)
        for z, view in zip(logits, views, strict=True):
            known = torch.where(clean, F.cross_entropy(z, y, reduction="none"), 0.0)
            unsure = torch.where(hard, self.gce(z, y), 0.0)
            loss = loss + (known + self.hardness * unsure).mean()
            loss = loss + self._mixed(view[chosen], self.labels[index][chosen])
        return StepResult(loss, {"clean": clean.float().mean(), "hard": hard.float().mean()})

    def _mixed(self, x: Tensor, labels: Tensor) -> Tensor:
        losses = x.new_zeros(0)
        if len(x) >= self.least_rows:
            target = F.one_hot(labels, self.task.num_classes).to(x.dtype)
            mixed = mix_rows(x, target, alpha=self.alpha, generator=self.task.generator)
            logits = self.logits("net", mixed.inputs)
            losses = F.cross_entropy(logits, mixed.targets, reduction="none")
        return self.task.joint.mean(losses)

    def end_epoch(self, epoch: int) -> Mapping[str, float]:
        """Sort the samples of the epoch, then move their thresholds."""
        rows = self.seen.values.bool()
        weak, strong = self.probabilities.values[rows].unbind(dim=1)
        tau_weak, tau_strong = self.tau.values[rows].unbind(dim=1)
        labels = self.task.labels[rows]
        found = divide_samples(weak, strong, labels, tau_weak, tau_strong, sigma=self.sigma)
        kinds = _CLEAN * found.clean + _HARD * found.hard + _CORRECTED * found.corrected
        self.kinds.values[rows] = kinds.to(self.kinds.values)
        self.labels.values[rows] = found.labels
        views = ((tau_weak, weak), (tau_strong, strong))
        moved = [moved_thresholds(tau, p, self.stay) for tau, p in views]
        self.tau.values[rows] = torch.stack(moved, dim=1)
        self.seen.values.zero_()
        return {
            f"train/{name}_share": float(flags.float().mean())
            for name, flags in zip(("clean", "hard", "corrected"), found[:3], strict=True)
        }

    def trust(self) -> Tensor | None:
        """Return ``p[y] / (p[y] + tau)``, the mean of both views: 1/2 is at the threshold.

        A score, not a probability. Samples that were never drawn get the mean of the others.
        """
        known = self.probabilities.values.flatten(1).any(dim=1)
        if not known.any():
            return None
        column = self.task.labels[:, None, None].expand(-1, 2, 1)
        given = self.probabilities.values.gather(2, column).squeeze(2)
        trust = (given / (given + self.tau.values).clamp(min=1e-12)).mean(dim=1)
        return torch.where(known, trust, trust[known].mean())
