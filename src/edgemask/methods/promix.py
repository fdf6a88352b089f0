"""ProMix: as many trusted labels as possible, a second classifier for the others, no class bias."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from edgemask._options import Range
from edgemask.methods.base import Clock, Feed, Phase, Role, StepResult, Task, backbone
from edgemask.methods.options import NonNegative, Positive, Share, options
from edgemask.methods.parts.fmix import fmix
from edgemask.methods.parts.losses import full_precision
from edgemask.methods.parts.memory import ClassTable, SampleTable
from edgemask.methods.parts.mixing import mix_rows
from edgemask.methods.parts.pseudo_labels import sharpen
from edgemask.methods.parts.selection import smallest_by_class
from edgemask.methods.warmup import WarmupMethod, warmup_loss

if TYPE_CHECKING:
    from edgemask.data import Batch

__all__ = ["ProMix", "class_small_loss", "guess_more", "high_confidence", "unbiased"]

_PUBLISHED = 600  # epochs; what is given in epochs keeps its share of a run of other length


def class_small_loss(losses: Tensor, labels: Tensor, num_classes: int, share: float) -> Tensor:
    """Choose the ``ceil(share N / C)`` samples of smallest loss of each given class.

    At least one of a class is chosen, and all of a class that has fewer.

    Args:
        losses: ``(N,)``.
        labels: Given labels, ``(N,)``.
        num_classes: Number C of classes.
        share: ``rho``.

    Returns:
        ``(N,)`` bool.
    """
    quota = max(1, math.ceil(share * len(losses) / num_classes - 1e-9))
    return smallest_by_class(losses, labels, num_classes, quota)


def high_confidence(chosen: Tensor, probabilities: Tensor, labels: Tensor, tau: float) -> Tensor:
    """Return a selection with the samples whose given label has a probability above ``tau``.

    Args:
        chosen: ``(B,)`` bool.
        probabilities: ``(B, C)``.
        labels: Given labels, ``(B,)``.
        tau: The threshold.
    """
    return chosen | (probabilities.gather(1, labels[:, None]).squeeze(1) > tau)


def guess_more(
    chosen: Tensor, first: Tensor, second: Tensor, *, tau: float, share: float
) -> Tensor:
    """Return a selection with samples that both networks are sure to be of one and the same class.

    As many as fill the selection up to ``int(share B)``, the surest first.

    Args:
        chosen: ``(B,)`` bool.
        first: Probabilities of one network, ``(B, C)``.
        second: Those of the other.
        tau: Probability that both must exceed.
        share: Share of the batch up to which it is filled.
    """
    (p, a), (q, b) = first.max(dim=1), second.max(dim=1)
    candidates = ~chosen & (a == b) & (p > tau) & (q > tau)
    room = int(share * len(chosen)) - chosen.sum()
    surety = torch.where(candidates, (p + q) / 2, -1.0)
    # The place of each row among the surest, the surest first.
    place = torch.argsort(torch.argsort(surety, descending=True, stable=True))
    return chosen | (candidates & (place < room))


def unbiased(logits: Tensor, prior: Tensor, strength: float) -> Tensor:
    """Return ``softmax(z - strength log prior)``: predictions without the bias to some classes.

    Args:
        logits: z, ``(B, C)``.
        prior: How often each class has been predicted, ``(C,)``.
        strength: 0 leaves predictions as they are.
    """
    return F.softmax(logits.detach() - strength * prior.log(), dim=1)


def _sum_and_count(probabilities: Tensor, rows: Tensor) -> Tensor:
    chosen = rows.to(probabilities)
    return torch.cat([chosen @ probabilities, chosen.sum()[None]])


class _Outputs(NamedTuple):
    """Logits of both classifiers for both views."""

    weak: Tensor
    strong: Tensor
    weak_auxiliary: Tensor
    strong_auxiliary: Tensor


_PASSES: tuple[Role, ...] = ("main", "main", "main", "main", "auxiliary", "auxiliary")


@options
class ProMix(WarmupMethod):
    """Take many labels by class-wise small loss and confidence; a second head for the rest.

    Two networks, one optimiser; each has a classifier h and an auxiliary one h' on the same
    features. After a warm-up (CE of h), an epoch begins with each network's own selection: the
    ``ceil(rho N / C)`` labels of smallest loss of each class. In a step also those with
    ``p[y] > tau`` are chosen, and in the last epochs samples that both networks are sure of.
    ``L = y`` where the label is chosen, else the class predicted without bias,
    ``argmax(z - d log pi)``. With chosen rows S, a weak view x, a strong one xs, ``D(z) = z + d log
    pi`` and a ramp g:

    - ``L_h = CE(D(h(x)), L) + g [CE(D(h(xs)), L) + mix-up + FMix]`` over S, both mixes of x;
    - ``L_h'`` alike with its own mixes, plus ``w [CE(D(h'(x)), q) + g CE(D(h'(xs)), q)]`` over the
      other rows, q the sharpened unbiased prediction of h.

    ``pi`` is a running mean of the predictions, one for chosen rows and one for the others, by
    network. h' is not used at test.

    Args:
        warmup: Epochs of plain cross entropy; None takes the published share (10 of 600).
        rho: Share of samples that is chosen by small loss.
        tau: Confidence above which a label is chosen, and above which both networks are sure.
        debias: The weight d of the prior, in predictions and in losses.
        alpha: Parameter of the Beta distribution of the mix-up.
        fmix: Whether images are also joined by FMix.
        unlabelled: Weight w of the rows that are not chosen, reached over 100 of 600 epochs.
        temperature: Temperature of the sharpening.
        ramp: Epochs until g is 1, from the start of the run; None: 50 of 600.
        guess_epochs: Last epochs in which samples that both networks are sure of are chosen, too;
            None: 250 of 600.
        guess_share: Share of a batch up to which they are.
        prior_momentum: The share of ``pi`` that stays in a step.
        entropy_penalty: Whether the warm-up punishes sure predictions; None: where the noise is
            known to be asymmetric.
        rectified_penalty: Whether that penalty sees negative logits as 0, as in the released code.

    Reference:
        Xiao et al., ProMix: Combating Label Noise via Maximizing Clean Sample Utility, IJCAI 2023.
    """

    networks = ("first", "second")
    uses_criterion = False
    roles: ClassVar[Mapping[str, tuple[Role, ...]]] = {
        "warmup": ("main", "main"),
        "train": _PASSES * 2,
    }
    published_warmup = (10, _PUBLISHED)

    rho: Share = 0.5
    tau: Share = 0.99
    debias: NonNegative = 0.8
    alpha: NonNegative = 4.0
    fmix: bool = True
    unlabelled: NonNegative = 0.1
    temperature: Positive = 0.5
    ramp: NonNegative | None = None
    guess_epochs: Annotated[int, Range(0)] | None = None
    guess_share: Share = 0.9
    prior_momentum: Share = 0.9999
    entropy_penalty: bool | None = None
    rectified_penalty: bool = False

    def extend(self, name: str, net: nn.Module) -> nn.Module:
        """Add the auxiliary classifier."""
        net = backbone("promix", net)
        net.add_module("auxiliary", nn.Linear(net.num_features, net.num_classes))
        return net

    def optimisers(self) -> Mapping[str, tuple[str, ...]]:
        """Return the one optimiser of both networks."""
        return {"both": self.networks}

    def setup(self, task: Task, nets: dict[str, nn.Module]) -> None:
        """Make the selections, the counts of trust and the priors of the classes."""
        super().setup(task, nets)
        samples, device = task.num_samples, task.device
        self.selected: dict[str, SampleTable] = {}
        self.priors: dict[str, ClassTable] = {}
        for name in self.networks:
            table = SampleTable(samples, dtype=torch.int8, device=device)
            self.selected[name] = self.remember(f"selected/{name}", table)
            for rows in ("chosen", "others"):
                prior = ClassTable(task.num_classes, fill=1 / task.num_classes, device=device)
                self.priors[f"{name}/{rows}"] = self.remember(f"prior/{name}/{rows}", prior)
        # By sample: how often its label was chosen, and how often it was in a batch.
        self.votes = self.remember("votes", SampleTable(samples, 2, device=device))
        # Sums of predictions and numbers of rows of the running step, by prior.
        self._seen: list[Tensor] = []

    def begin(self, phase: str, epoch: int) -> Phase:
        """Let each network choose labels of small loss for itself."""
        if phase == "warmup":
            return Phase(name=phase, train=self.networks)

        def losses_of(batch: Batch) -> dict[str, Tensor]:
            return {
                name: F.cross_entropy(
                    self.logits(name, batch.views[0], "peer").float(),
                    batch.target,
                    reduction="none",
                )
                for name in self.networks
            }

        losses = self.task.score(losses_of)
        everyone = torch.arange(self.task.num_samples, device=self.task.device)
        for name in self.networks:
            chosen = class_small_loss(
                losses[name], self.task.labels, self.task.num_classes, self.rho
            )
            self.selected[name].write(everyone, chosen)
        feed = Feed(views=("weak", "strong"), drop_last=True)
        return Phase(name=phase, train=self.networks, feeds={"train": feed})

    def step(self, phase: Phase, batch: Mapping[str, Batch], clock: Clock) -> StepResult:
        """Return the sum of both networks' losses."""
        index, views, y = batch["train"]
        if phase.name == "warmup":
            return self._warm_up(views[0], y)
        outputs = {name: self._outputs(name, *views) for name in self.networks}
        p = {name: outputs[name].weak.detach().softmax(dim=1) for name in self.networks}
        terms: dict[str, Tensor] = {}
        sums = []
        for name in self.networks:
            trusted = high_confidence(self.selected[name][index] > 0, p[name], y, self.tau)
            self.votes.add(index, torch.stack([trusted, torch.ones_like(trusted)], dim=1))
            guess = unbiased(outputs[name].weak, self.priors[f"{name}/chosen"].values, self.debias)
            labels = torch.where(trusted, y, guess.argmax(dim=1))
            chosen = trusted
            if clock.epoch >= self.task.epochs - self._guess_epochs:
                chosen = self._guess_more(trusted, *p.values())
            terms[name] = self._loss(name, views[0], outputs[name], chosen, labels, clock.epoch)
            sums += [_sum_and_count(p[name], rows) for rows in (chosen, ~chosen)]
        self._seen.append(torch.stack(sums))
        share = self._seen[-1][::2, -1].mean() / len(y)
        return StepResult(torch.stack(list(terms.values())).sum(), {**terms, "selected": share})

    def _guess_more(self, trusted: Tensor, first: Tensor, second: Tensor) -> Tensor:
        """Fill the selection of the joint batch; return that of this process's part."""
        rows = self.task.joint.rows
        more = guess_more(
            rows(trusted), rows(first), rows(second), tau=self.tau, share=self.guess_share
        )
        return self.task.joint.own(more, len(trusted))

    def _warm_up(self, x: Tensor, y: Tensor) -> StepResult:
        losses = [
            warmup_loss(
                self.logits(name, x),
                y,
                self.task.noise_kind,
                penalty=self.entropy_penalty,
                rectified=self.rectified_penalty,
            )
            for name in self.networks
        ]
        return StepResult(torch.stack(losses).sum())

    def _outputs(self, name: str, weak: Tensor, strong: Tensor) -> _Outputs:
        """Return both classifiers' logits of both views, each view in a pass of its own."""

        def both(net: Any, x: Tensor) -> tuple[Tensor, Tensor]:
            features = net.embed(x)
            return full_precision(net.head(features)), full_precision(net.auxiliary(features))

        z, a = self.run(name, lambda net: both(net, weak))
        z_strong, a_strong = self.run(name, lambda net: both(net, strong))
        return _Outputs(z, z_strong, a, a_strong)

    def _loss(
        self, name: str, x: Tensor, outputs: _Outputs, chosen: Tensor, labels: Tensor, epoch: int
    ) -> Tensor:
        """Return the loss of one network: both classifiers on chosen rows, one on the others."""
        gain = self._ramp(epoch, self.ramp, 50)
        bias = self.debias * self.priors[f"{name}/chosen"].values.log()

        def learnt(weak: Tensor, strong: Tensor) -> Tensor:
            losses = F.cross_entropy(weak + bias, labels, reduction="none")
            losses = losses + gain * F.cross_entropy(strong + bias, labels, reduction="none")
            return self.task.joint.mean(losses, chosen)

        loss = learnt(outputs.weak, outputs.strong)
        loss = loss + learnt(outputs.weak_auxiliary, outputs.strong_auxiliary)
        if gain > 0:
            rows, target = x[chosen], F.one_hot(labels[chosen], self.task.num_classes).float()
            for auxiliary in (False, True):
                loss = loss + gain * self._mixed(name, rows, target, bias, auxiliary=auxiliary)
        weight = self.unlabelled * self._ramp(epoch, None, 100)
        prior = self.priors[f"{name}/others"].values
        goal = sharpen(unbiased(outputs.weak, prior, self.debias), self.temperature)
        bias = self.debias * prior.log()
        others = F.cross_entropy(outputs.weak_auxiliary + bias, goal, reduction="none")
        others = others + gain * F.cross_entropy(
            outputs.strong_auxiliary + bias, goal, reduction="none"
        )
        return loss + weight * self.task.joint.mean(others, ~chosen)

    def _mixed(
        self, name: str, x: Tensor, target: Tensor, bias: Tensor, *, auxiliary: bool
    ) -> Tensor:
        """Return the loss of one classifier on images mixed in one way and in the other."""
        generator = self.task.generator
        mixes = []
        if len(x) >= self.least_rows:
            mixes.append(mix_rows(x, target, alpha=self.alpha, generator=generator))
            if self.fmix:
                mixes.append(fmix(x, target, alpha=1.0, generator=generator))

        def logits_of(net: Any) -> Tensor:
            features = net.embed(mixed.inputs)
            logits: Tensor = net.auxiliary(features) if auxiliary else net.head(features)
            return full_precision(logits) + bias

        losses = torch.zeros(len(x) if mixes else 0, device=x.device)
        for mixed in mixes:
            logits = self.run(name, logits_of, "auxiliary" if auxiliary else "main")
            losses = losses + F.cross_entropy(logits, mixed.targets, reduction="none")
        return self.task.joint.mean(losses)

    def _ramp(self, epoch: int, length: float | None, published: float) -> float:
        if length is None:
            length = published * self.task.epochs / _PUBLISHED
        return min(epoch / length, 1.0) if length > 0 else 1.0

    @property
    def _guess_epochs(self) -> int:
        if self.guess_epochs is not None:
            return self.guess_epochs
        return round(250 * self.task.epochs / _PUBLISHED)

    def after_step(self, phase: Phase, clock: Clock) -> None:
        """Move the priors towards the mean predictions of the step, over all processes."""
        if not self._seen:
            return
        mine = torch.stack(self._seen).sum(dim=0)
        self._seen = []
        sums = self.task.joint.total(mine)
        for prior, row in zip(self.priors.values(), sums, strict=True):
            mean = (row[:-1] / row[-1].clamp(min=1)).to(prior.values)
            moved = torch.lerp(mean, prior.values, self.prior_momentum)
            prior.values = torch.where(row[-1] > 0, moved, prior.values)

    def end_epoch(self, epoch: int) -> Mapping[str, float]:
        """Report how uneven the predicted classes are: the largest prior over the smallest."""
        ratios = [table.values.max() / table.values.min() for table in self.priors.values()]
        return {"train/prior_ratio": float(max(ratios))}

    def trust(self) -> Tensor | None:
        """Return how often the label of each sample was chosen, by small loss or confidence."""
        chosen, seen = self.votes.values.unbind(dim=1)
        if not seen.any():
            return None
        return torch.where(seen > 0, chosen / seen.clamp(min=1), chosen.sum() / seen.sum())
