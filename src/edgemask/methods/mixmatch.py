"""What DivideMix and UNICON share: labels are guessed, all rows are mixed and learned from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from edgemask.methods.base import Clock, Phase, Role, StepResult
from edgemask.methods.division import Division
from edgemask.methods.options import Count, NonNegative, options
from edgemask.methods.parts.losses import prior_penalty
from edgemask.methods.parts.mixing import mix_rows
from edgemask.methods.parts.pseudo_labels import co_guess, sharpen
from edgemask.methods.parts.schedules import linear_ramp
from edgemask.methods.parts.selection import balanced_draw

if TYPE_CHECKING:
    from edgemask.data import Batch

__all__ = ["GUESSES", "MixMatch"]

GUESSES: tuple[Role, ...] = ("pseudo", "pseudo", "pseudo", "pseudo", "peer", "peer")
"""The passes of a step that targets are made from."""


@options
class MixMatch(Division):
    """Divide the training set, guess labels, mix all rows and learn from both parts.

    A step guesses labels from the first two views (no gradient), and mixes and learns from the last
    two:

    - labelled: ``t = sharpen(w onehot(y) + (1 - w) p)``, p the network's own mean over two views;
    - unlabelled: ``t = sharpen(mean of both networks over two views)``;
    - mix-up of all rows with ``lam' = max(lam, 1 - lam)``;
    - ``L = CE(labelled rows) + lambda_u ramp MSE(unlabelled rows) + prior penalty + more_terms``.

    With ``unlabelled_loss`` off only the labelled rows go through the network, and unlabelled
    samples appear as partners in the mix alone. A subclass writes :meth:`divide`.
    """

    roles: ClassVar[Mapping[str, tuple[Role, ...]]] = {
        **Division.roles,
        "train/first": (*GUESSES, "main"),
        "train/second": (*GUESSES, "main"),
    }
    views: ClassVar[tuple[str, ...]] = ("weak", "weak")
    """Four views, or two that serve for both: two to guess from, two to mix and learn from."""

    ramp: NonNegative = 16.0
    unlabelled_loss: bool = True
    subset: Count | None = None

    @property
    def unlabelled_weight(self) -> float:
        """The weight ``lambda_u`` of the unlabelled loss."""
        raise NotImplementedError

    def drawn(self, name: str, epoch: int, size: int | None = None) -> Tensor | None:
        """Return the samples that a network works with in an epoch; None means all of them.

        With the option ``subset`` it is a fresh class-balanced draw for each network.

        Args:
            name: The network.
            epoch: The epoch.
            size: How many samples instead of ``subset``.
        """
        if self.subset is None:
            return None
        stream = len(self.networks) * self.task.seed + self.networks.index(name)
        return balanced_draw(self.task.labels, size or self.subset, seed=stream, epoch=epoch)

    def warmup_samples(self, name: str, epoch: int) -> Tensor | None:
        """Return twice the subset, as published."""
        return self.drawn(name, epoch, 2 * self.subset if self.subset else None)

    def step(self, phase: Phase, batch: Mapping[str, Batch], clock: Clock) -> StepResult:
        """Return the loss of a warm-up batch, or of a labelled and an unlabelled one."""
        (name,), (peer,) = phase.train, phase.frozen
        if "train" in batch:
            return self.warmup_step(name, batch["train"])
        labelled, unlabelled = batch["labelled"], batch.get("unlabelled")
        inputs, targets = [*labelled.views[-2:]], [self.refined(name, labelled)] * 2
        terms: dict[str, Tensor] = {}
        if unlabelled is not None and len(unlabelled.index):
            inputs += unlabelled.views[-2:]
            targets += [self.guessed(name, peer, unlabelled)] * 2
            terms |= self.more_terms(name, unlabelled)
        rows = 2 * len(labelled.index)
        mixed, goal, *_ = mix_rows(
            torch.cat(inputs),
            torch.cat(targets),
            alpha=self.alpha,
            generator=self.task.generator,
            first=None if self.unlabelled_loss else rows,
        )
        logits = self.logits(name, mixed)
        terms["labelled"] = F.cross_entropy(logits[:rows], goal[:rows])
        terms["prior"] = prior_penalty(self.task.joint.rows(logits))
        if len(logits) > rows:
            gaps = F.mse_loss(logits[rows:].softmax(dim=1), goal[rows:], reduction="none")
            gap = self.task.joint.mean(gaps.mean(dim=1))
            weight = linear_ramp(clock.time, start=self.warmup_epochs, length=self.ramp)
            terms["unlabelled"] = self.unlabelled_weight * weight * gap
        return StepResult(torch.stack(list(terms.values())).sum(), terms)

    def more_terms(self, name: str, unlabelled: Batch) -> dict[str, Tensor]:
        """Return further terms of the loss by name."""
        return {}

    def guessed(self, name: str, peer: str, batch: Batch) -> Tensor:
        """Return the labels that both networks guess for an unlabelled batch, ``(B, C)``."""
        own = [self.logits(name, view, "pseudo") for view in batch.views[:2]]
        other = [self.logits(peer, view, "peer") for view in batch.views[:2]]
        return sharpen(co_guess([*own, *other]), self.temperature)
