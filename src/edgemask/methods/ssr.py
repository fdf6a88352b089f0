"""SSR: relabel what the network is sure of, keep what the neighbours agree with."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from edgemask._random import torch_stream
from edgemask.methods.base import Clock, Feed, Method, Phase, Role, StepResult, Task, backbone
from edgemask.methods.options import Count, NonNegative, Positive, Share, options
from edgemask.methods.parts.losses import negative_cosine
from edgemask.methods.parts.memory import SampleTable
from edgemask.methods.parts.mixing import mix_rows
from edgemask.methods.parts.neighbours import balanced_votes, nearest_samples
from edgemask.methods.parts.selection import (
    balanced_draw,
    balanced_indices,
    filled,
    mean_where_unknown,
)
from edgemask.models import Projector

if TYPE_CHECKING:
    from edgemask.data import Batch

__all__ = ["SSR", "relabel", "selected_by_votes"]

_APART, _LEFT, _KEPT = 0, 1, 2


def relabel(probabilities: Tensor, labels: Tensor, threshold: float) -> Tensor:
    """Return the predicted class where its probability is above the threshold, else the label.

    Args:
        probabilities: Predictions, ``(N, C)``.
        labels: The given labels, ``(N,)``.
        threshold: ``theta_r``.
    """
    surety, guess = probabilities.max(dim=1)
    return torch.where(surety > threshold, guess, labels)


def selected_by_votes(votes: Tensor, labels: Tensor, threshold: float) -> Tensor:
    """Return which labels have at least ``threshold`` times the votes of the winning class.

    Args:
        votes: Votes of the neighbours, ``(N, C)``.
        labels: ``(N,)``.
        threshold: ``theta_s``; 1 keeps labels that are (one of) the winners.
    """
    return _share_of_winner(votes, labels) >= threshold


def _share_of_winner(votes: Tensor, labels: Tensor) -> Tensor:
    return votes.gather(1, labels[:, None]).squeeze(1) / votes.amax(dim=1).clamp(min=1e-30)


@options
class SSR(Method):
    """Relabel by the classifier, select by the neighbours' labels, oversample small classes.

    At the start of an epoch the network, in ``eval()``, sees every sample in its weak view:

    - ``y' = argmax p`` where ``max p > theta_r``, else the given label;
    - ``v_c``, the share of class c among the labels y' of the nearest samples divided by its share
      of all; y' is kept where ``v[y'] / max v >= theta_s``.

    A step takes kept samples, small classes repeated to the size of the largest, in two strong
    views mixed by ``lam' = max(lam, 1 - lam)``, and any samples u in a weak and a strong view:

    ``L = CE(mixed rows) + consistency * mean(-cos(h2(h1(u_strong)), stopgrad h1(u_weak)))``

    with a projector h1 and a predictor h2 on the features. There is no warm-up. SSR is without the
    last term (``consistency=0``), SSR+ with it.

    Args:
        theta_s: Share of the winning class's votes that a kept label needs.
        theta_r: Probability above which a sample is relabelled.
        neighbours: Number of nearest samples that vote; None: 200 of 50,000 samples and in
            proportion, but 5 at least and 200 at most.
        itself: Whether a sample votes for its own label, as in the released code.
        consistency: Weight of the last term.
        alpha: Parameter of the Beta distribution of the mix.
        projection: Width of the projection.
        hidden: Hidden width of projector and predictor.
        initial_std: Standard deviation of the initial weights of classifier, projector and
            predictor, whose biases then are 0, as on Clothing1M; None leaves them as they are.
        subset: Samples of a fresh class-balanced draw for each epoch, as on Clothing1M; None means
            all.

    Reference:
        Feng et al., SSR: An Efficient and Robust Framework for Learning with Unknown Label Noise,
        BMVC 2022.
    """

    uses_criterion = False
    roles: ClassVar[Mapping[str, tuple[Role, ...]]] = {"train": ("main", "pseudo", "auxiliary")}

    theta_s: Share = 1.0
    theta_r: Share = 0.9
    neighbours: Count | None = None
    itself: bool = False
    consistency: NonNegative = 1.0
    alpha: NonNegative = 4.0
    projection: Count = 128
    hidden: Count = 256
    initial_std: Positive | None = None
    subset: Count | None = None

    def __post_init__(self) -> None:
        """Request a projector where there is a consistency term."""
        if self.consistency:
            self.projector = {"hidden": self.hidden, "out": self.projection, "normalise": False}

    def extend(self, name: str, net: nn.Module) -> nn.Module:
        """Add the predictor."""
        net = backbone("ssr", net)
        added = [net.head]
        if self.consistency:
            width = self.projection
            predictor = Projector(width, hidden=self.hidden, out=width, normalise=False)
            net.add_module("predictor", predictor)
            added += [net.get_submodule("projector"), predictor]
        if self.initial_std is not None:
            for module in (inner for part in added for inner in part.modules()):
                if isinstance(module, nn.Linear):
                    nn.init.normal_(module.weight, std=self.initial_std)
                    nn.init.zeros_(module.bias)
        return net

    def setup(self, task: Task, nets: dict[str, nn.Module]) -> None:
        """Make the tables of labels and trust."""
        super().setup(task, nets)
        labels = SampleTable(task.num_samples, dtype=torch.long, device=task.device)
        labels.values.copy_(task.labels)
        self.labels = self.remember("labels", labels)
        trust = SampleTable(task.num_samples, fill=torch.nan, device=task.device)
        self.votes = self.remember("trust", trust)
        parts = SampleTable(task.num_samples, dtype=torch.int8, device=task.device)
        self.parts = self.remember("parts", parts)

    def begin(self, phase: str, epoch: int) -> Phase:
        """Relabel and select; feed all samples, and the selected ones class by class alike."""
        task = self.task
        drawn = balanced_draw(task.labels, self.subset, seed=task.seed, epoch=epoch)
        self._select(drawn, epoch)
        kept = (self.parts.values == _KEPT).nonzero().flatten()
        oversampled = balanced_indices(kept, self.labels[kept], torch_stream(task.seed, epoch))
        feeds = {"labelled": Feed(views=("strong", "strong"), indices=oversampled, drop_last=True)}
        if self.consistency:
            feeds = {"all": Feed(views=("weak", "strong"), indices=drawn, drop_last=True), **feeds}
        # An epoch is a pass over all samples, whatever the number of selected ones.
        samples = task.num_samples if drawn is None else len(drawn)
        steps = None if self.consistency else max(1, samples // task.batch_size)
        return Phase(name=phase, train=self.networks, feeds=feeds, steps=steps)

    def _select(self, drawn: Tensor | None, epoch: int) -> None:
        """Store the labels of the epoch, which of them are kept, and trust in the given ones."""

        def outputs(batch: Batch) -> dict[str, Tensor]:
            net: Any = self.nets["net"]
            features = net.encode(batch.views[0])
            return {"features": features.float(), "logits": net.head(net.neck(features)).float()}

        scores = self.task.score(
            outputs, views=("weak",), indices=drawn, whole=drawn is None, epoch=epoch
        )
        everyone = torch.arange(self.task.num_samples, device=self.task.device)
        chosen = everyone if drawn is None else drawn.to(self.task.device)
        given = self.task.labels[chosen]
        labels = relabel(scores["logits"].softmax(dim=1), given, self.theta_r)
        share = min(1.0, len(chosen) / 50_000)
        around = nearest_samples(
            scores["features"],
            self.neighbours or max(5, round(200 * share)),
            itself=self.itself,
            seed=self.task.seed,
        )
        votes = balanced_votes(around, labels, self.task.num_classes)
        kept = selected_by_votes(votes, labels, self.theta_s)
        kept = filled(kept, _share_of_winner(votes, labels), self.task.batch_size)
        self.labels.write(chosen, labels)
        self.votes.write(chosen, _share_of_winner(votes, given))
        self.parts.write(everyone, torch.full_like(everyone, _APART))
        self.parts.write(chosen, torch.where(kept, _KEPT, _LEFT))

    def step(self, phase: Phase, batch: Mapping[str, Batch], clock: Clock) -> StepResult:
        """Return the loss of the mixed rows, and how well strong views predict weak ones."""
        labelled = batch["labelled"]
        target = F.one_hot(self.labels[labelled.index], self.task.num_classes).float()
        mixed = mix_rows(
            torch.cat(labelled.views),
            torch.cat([target, target]),
            alpha=self.alpha,
            generator=self.task.generator,
        )
        losses = F.cross_entropy(self.logits("net", mixed.inputs), mixed.targets, reduction="none")
        terms = {"labelled": self.task.joint.mean(losses)}
        if self.consistency:
            weak, strong = batch["all"].views
            target = self.run("net", operator.methodcaller("project", weak), "pseudo")

            def predicted(net: Any) -> Tensor:
                prediction: Tensor = net.predictor(net.project(strong))
                return prediction

            prediction = self.run("net", predicted, "auxiliary")
            terms["consistency"] = self.consistency * negative_cosine(prediction, target).mean()
        return StepResult(torch.stack(list(terms.values())).sum(), terms)

    def end_epoch(self, epoch: int) -> Mapping[str, float]:
        """Report the shares of samples that were selected and relabelled."""
        parts = self.parts.values
        relabelled = (self.labels.values != self.task.labels) & (parts != _APART)
        count = (parts != _APART).sum()
        return {
            "train/selected": float((parts == _KEPT).sum() / count),
            "train/relabelled": float(relabelled.sum() / count),
        }

    def trust(self) -> Tensor | None:
        """Return the neighbours' votes for the given label against those for the winner."""
        return mean_where_unknown(self.votes.values)

    def kept_labels(self) -> Tensor | None:
        """Return 1 for the samples that were selected with their given label."""
        kept = (self.parts.values == _KEPT) & (self.labels.values == self.task.labels)
        return kept.float()
