"""What DivideMix and UNICON share: two networks in turn, a divided training set, MixMatch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from edgemask.methods.base import Clock, Feed, Phase, Role, StepResult, Task
from edgemask.methods.options import Count, NonNegative, Positive, options
from edgemask.methods.parts.losses import negative_entropy, prior_penalty
from edgemask.methods.parts.memory import SampleTable
from edgemask.methods.parts.mixing import mix_rows
from edgemask.methods.parts.pseudo_labels import co_guess, refine_labels, sharpen
from edgemask.methods.parts.schedules import is_asymmetric, linear_ramp
from edgemask.methods.parts.selection import balanced_draw, filled, mean_where_unknown
from edgemask.methods.warmup import WarmupMethod

if TYPE_CHECKING:
    from edgemask.data import Batch

__all__ = ["GUESSES", "MixMatch"]

_APART, _UNLABELLED, _LABELLED = 0, 1, 2
GUESSES: tuple[Role, ...] = ("pseudo", "pseudo", "pseudo", "pseudo", "peer", "peer")
"""The passes of a step that targets are made from."""


@options
class MixMatch(WarmupMethod):
    """Two networks that divide the training set and learn from both parts, one after the other.

    After a warm-up on all given labels, each epoch and each network: :meth:`divide` decides which
    labels to keep and how far to trust them; the network then learns from the labelled part and
    from the unlabelled one, whose labels are ignored. A step guesses labels from the first two
    views (no gradient), and mixes and learns from the last two:

    - labelled: ``t = sharpen(w onehot(y) + (1 - w) p)``, p the network's own mean over two views;
    - unlabelled: ``t = sharpen(mean of both networks over two views)``;
    - mix-up of all rows with ``lam' = max(lam, 1 - lam)``;
    - ``L = CE(labelled rows) + lambda_u ramp MSE(unlabelled rows) + prior penalty + more_terms``.

    With ``unlabelled_loss`` off only the labelled rows go through the network, and unlabelled
    samples appear as partners in the mix alone.

    A subclass writes :meth:`divide`. A selection of less than a batch is filled up with the labels
    that are trusted most, so that an epoch always has a step; an unlabelled set may be empty.
    """

    networks = ("first", "second")
    uses_criterion = False
    roles: ClassVar[Mapping[str, tuple[Role, ...]]] = {
        "warmup/first": ("main",),
        "warmup/second": ("main",),
        "train/first": (*GUESSES, "main"),
        "train/second": (*GUESSES, "main"),
    }
    views: ClassVar[tuple[str, ...]] = ("weak", "weak")
    """Four views, or two that serve for both: two to guess from, two to mix and learn from."""

    warmup_batch = 2
    """Samples of a step of the warm-up, in batches of the config."""

    drop_last: ClassVar[bool] = False
    """Whether incomplete last batches of the two parts are left out."""

    entropy_penalty: bool | None = None
    temperature: Positive = 0.5
    alpha: NonNegative = 4.0
    ramp: NonNegative = 16.0
    unlabelled_loss: bool = True
    subset: Count | None = None

    def setup(self, task: Task, nets: dict[str, nn.Module]) -> None:
        """Make the tables: the part each sample is in and the trust in its label, by network."""
        super().setup(task, nets)
        size, device = task.num_samples, task.device
        self.parts: dict[str, SampleTable] = {}
        self.weights: dict[str, SampleTable] = {}
        self.trusts: dict[str, SampleTable] = {}
        for name in self.networks:
            parts = SampleTable(size, dtype=torch.int8, device=device)
            weights = SampleTable(size, fill=1.0, device=device)
            trust = SampleTable(size, fill=torch.nan, device=device)
            self.parts[name] = self.remember(f"parts/{name}", parts)
            self.weights[name] = self.remember(f"weights/{name}", weights)
            self.trusts[name] = self.remember(f"trust/{name}", trust)

    def phases(self, epoch: int) -> Sequence[str]:
        """Train one network, then the other."""
        kind = "warmup" if self.warms_up(epoch) else "train"
        return tuple(f"{kind}/{name}" for name in self.networks)

    def begin(self, phase: str, epoch: int) -> Phase:
        """Divide the training set where the epoch needs it, and feed the network its parts."""
        kind, name = phase.split("/")
        peers = tuple(other for other in self.networks if other != name)
        if kind == "warmup":
            feeds = {"train": self._everything(name, epoch)}
        else:
            if kind == "train":
                self.divide(name, epoch)
            feeds = self._feeds(name)
        role = "warmup" if kind == "warmup" else "train"
        return Phase(name=f"{role}/{name}", train=(name,), frozen=peers, feeds=feeds)

    @property
    def unlabelled_weight(self) -> float:
        """The weight ``lambda_u`` of the unlabelled loss."""
        raise NotImplementedError

    def divide(self, name: str, epoch: int) -> None:
        """Score the samples and call :meth:`keep` for the network that is about to learn."""
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

    def keep(self, name: str, labelled: Tensor, weights: Tensor, drawn: Tensor | None) -> None:
        """Store how the samples are divided for a network.

        Args:
            name: The network that learns from it.
            labelled: Whether a sample keeps its label, ``(N,)``.
            weights: Trust in the labels, for refinement, ``(N,)``.
            drawn: The samples that take part; None means all.
        """
        everyone = torch.arange(self.task.num_samples, device=self.task.device)
        chosen = everyone if drawn is None else drawn
        labelled = filled(labelled[chosen], weights[chosen], self.task.batch_size)
        self.parts[name].write(everyone, torch.full_like(everyone, _APART))
        self.parts[name].write(chosen, torch.where(labelled, _LABELLED, _UNLABELLED))
        self.weights[name].write(chosen, weights[chosen])

    def unlabelled_batch(self, labelled: int, unlabelled: int) -> int:
        """Return the samples of the unlabelled feed in a step: as many as labelled ones."""
        return self.task.batch_size

    def _everything(self, name: str, epoch: int) -> Feed:
        """Feed the warm-up: a larger batch (and twice the subset), as published."""
        indices = self.drawn(name, epoch, 2 * self.subset if self.subset else None)
        return Feed(indices=indices, batch_size=self.warmup_batch * self.task.batch_size)

    def _feeds(self, name: str) -> dict[str, Feed]:
        parts = self.parts[name].values.cpu()
        labelled = (parts == _LABELLED).nonzero().flatten()
        unlabelled = (parts == _UNLABELLED).nonzero().flatten()
        if len(unlabelled) < 2:
            # A single sample would make a batch that batch normalisation cannot work on.
            unlabelled = unlabelled[:0]
        size = self.unlabelled_batch(len(labelled), len(unlabelled))
        return {
            "labelled": Feed(views=self.views, indices=labelled, drop_last=self.drop_last),
            "unlabelled": Feed(
                views=self.views, indices=unlabelled, batch_size=size, drop_last=self.drop_last
            ),
        }

    def step(self, phase: Phase, batch: Mapping[str, Batch], clock: Clock) -> StepResult:
        """Return the loss of a warm-up batch, or of a labelled and an unlabelled one."""
        (name,), (peer,) = phase.train, phase.frozen
        if "train" in batch:
            return self._warmup_step(name, batch["train"])
        labelled, unlabelled = batch["labelled"], batch.get("unlabelled")
        inputs, targets = self._refined(name, labelled)
        rows = len(inputs)
        terms: dict[str, Tensor] = {}
        if unlabelled is not None and len(unlabelled.index):
            more = self._guessed(name, peer, unlabelled)
            inputs, targets = torch.cat([inputs, more[0]]), torch.cat([targets, more[1]])
            terms |= self.more_terms(name, unlabelled)
        mixed, goal, *_ = mix_rows(
            inputs,
            targets,
            alpha=self.alpha,
            generator=self.task.generator,
            first=None if self.unlabelled_loss else rows,
        )
        logits = self.logits(name, mixed)
        terms["labelled"] = F.cross_entropy(logits[:rows], goal[:rows])
        terms["prior"] = prior_penalty(logits)
        if len(logits) > rows:
            gap = F.mse_loss(logits[rows:].softmax(dim=1), goal[rows:])
            weight = linear_ramp(clock.time, start=self.warmup_epochs, length=self.ramp)
            terms["unlabelled"] = self.unlabelled_weight * weight * gap
        return StepResult(torch.stack(list(terms.values())).sum(), terms)

    def more_terms(self, name: str, unlabelled: Batch) -> dict[str, Tensor]:
        """Return further terms of the loss by name."""
        return {}

    def _warmup_step(self, name: str, batch: Batch) -> StepResult:
        """Return CE on the given labels; under asymmetric noise also keep predictions unsure."""
        logits = self.logits(name, batch.views[0])
        loss = F.cross_entropy(logits, batch.target)
        penalised = self.entropy_penalty
        if penalised is None:
            penalised = is_asymmetric(self.task.noise_kind)
        return StepResult(loss + negative_entropy(logits).mean() if penalised else loss)

    def _refined(self, name: str, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the labelled rows to mix, both views, with refined labels."""
        guess = co_guess([self.logits(name, view, "pseudo") for view in batch.views[:2]])
        weights = self.weights[name][batch.index]
        target = sharpen(refine_labels(batch.target, weights, guess), self.temperature)
        return torch.cat(batch.views[-2:]), torch.cat([target, target])

    def _guessed(self, name: str, peer: str, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the unlabelled rows to mix, both views, with labels that both networks guess."""
        own = [self.logits(name, view, "pseudo") for view in batch.views[:2]]
        other = [self.logits(peer, view, "peer") for view in batch.views[:2]]
        target = sharpen(co_guess([*own, *other]), self.temperature)
        return torch.cat(batch.views[-2:]), torch.cat([target, target])

    def end_epoch(self, epoch: int) -> Mapping[str, float]:
        """Report the share of labels that were kept."""
        if self.warms_up(epoch):
            return {}
        shares = []
        for name in self.networks:
            parts = self.parts[name].values
            shares.append(float((parts == _LABELLED).sum() / (parts != _APART).sum()))
        return {"train/selected": sum(shares) / len(shares)}

    def trust(self) -> Tensor | None:
        """Return the mean of the networks' trust; samples never scored get the mean of all."""
        trust = torch.stack([table.values for table in self.trusts.values()]).nanmean(dim=0)
        return mean_where_unknown(trust)
