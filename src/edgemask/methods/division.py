"""What DivideMix, UNICON and others share: two networks in turn on a divided training set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor, nn

from edgemask.methods.base import Feed, Phase, Role, StepResult, Task
from edgemask.methods.options import NonNegative, Positive, options
from edgemask.methods.parts.memory import SampleTable
from edgemask.methods.parts.pseudo_labels import co_guess, refine_labels, sharpen
from edgemask.methods.parts.selection import filled, mean_where_unknown
from edgemask.methods.warmup import WarmupMethod, warmup_loss

if TYPE_CHECKING:
    from edgemask.data import Batch

__all__ = ["Division"]

_APART, _UNLABELLED, _LABELLED = 0, 1, 2


@options
class Division(WarmupMethod):
    """Two networks that divide the training set and learn from both parts, one after the other.

    After a warm-up on all given labels, each epoch and each network: :meth:`divide` decides which
    labels to keep and how far to trust them; the network then learns from the labelled part and
    from the unlabelled one, whose labels are ignored. A kept label becomes ``sharpen(w onehot(y) +
    (1 - w) p)``, p the network's own mean over two views.

    A subclass writes :meth:`divide` and the step. A selection of less than a batch is filled up
    with the labels that are trusted most, so that an epoch always has a step; an unlabelled set may
    be empty.
    """

    networks = ("first", "second")
    uses_criterion = False
    roles: ClassVar[Mapping[str, tuple[Role, ...]]] = {
        "warmup/first": ("main",),
        "warmup/second": ("main",),
    }
    views: ClassVar[tuple[str, ...]] = ("weak", "weak")
    """The views of both parts; labels are guessed from the first two."""

    warmup_batch = 2
    """Samples of a step of the warm-up, in batches of the config."""

    drop_last: ClassVar[bool] = False
    """Whether incomplete last batches of the two parts are left out."""

    entropy_penalty: bool | None = None
    temperature: Positive = 0.5
    alpha: NonNegative = 4.0

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

    def divide(self, name: str, epoch: int) -> None:
        """Score the samples and call :meth:`keep` for the network that is about to learn."""
        raise NotImplementedError

    def warmup_samples(self, name: str, epoch: int) -> Tensor | None:
        """Return the samples of an epoch of warm-up; None means all of them."""
        return None

    def keep(
        self, name: str, labelled: Tensor, weights: Tensor, drawn: Tensor | None = None
    ) -> None:
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
        """Feed the warm-up: a larger batch, as published."""
        size = self.warmup_batch * self.task.batch_size
        return Feed(indices=self.warmup_samples(name, epoch), batch_size=size)

    def labelled(self, name: str) -> Tensor:
        """Return the positions of the samples whose labels a network learns from."""
        return (self.parts[name].values == _LABELLED).nonzero().flatten()

    def unlabelled(self, name: str) -> Tensor:
        """Return the positions of the samples whose labels are ignored."""
        return (self.parts[name].values == _UNLABELLED).nonzero().flatten()

    def _feeds(self, name: str) -> dict[str, Feed]:
        labelled, unlabelled = self.labelled(name).cpu(), self.unlabelled(name).cpu()
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

    def warmup_step(self, name: str, batch: Batch) -> StepResult:
        """Return CE on the given labels; under asymmetric noise also keep predictions unsure."""
        logits = self.logits(name, batch.views[0])
        penalty = self.entropy_penalty
        return StepResult(warmup_loss(logits, batch.target, self.task.noise_kind, penalty=penalty))

    def refined(self, name: str, batch: Batch) -> Tensor:
        """Return the labels of a labelled batch as far as they are trusted, ``(B, C)``."""
        guess = co_guess([self.logits(name, view, "pseudo") for view in batch.views[:2]])
        weights = self.weights[name][batch.index]
        return sharpen(refine_labels(batch.target, weights, guess), self.temperature)

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

    def kept_labels(self) -> Tensor | None:
        """Return the share of networks for which a label is in the labelled part."""
        kept = [table.values == _LABELLED for table in self.parts.values()]
        return torch.stack(kept).float().mean(dim=0)
