"""Labels verified by the predictions of the nearest samples, and corrected by their labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from edgemask.methods.base import Clock, Phase, Role, StepResult, Task, backbone
from edgemask.methods.division import Division
from edgemask.methods.options import Count, NonNegative, Share, options
from edgemask.methods.parts.losses import js_divergence, prior_penalty
from edgemask.methods.parts.memory import SampleTable
from edgemask.methods.parts.mixing import mix_rows
from edgemask.methods.parts.neighbours import nearest_samples

if TYPE_CHECKING:
    from edgemask.data import Batch

__all__ = ["NeighborhoodCollectiveEstimation", "corrected_labels", "label_disagreement"]

_STEPS: tuple[Role, ...] = ("pseudo", "pseudo", "main", "main")
_LEAST_CANDIDATES = 200
_TINY = 1e-4


def _nearly_one_hot(labels: Tensor, num_classes: int) -> Tensor:
    """Return 0.9999 on the label and 0.0001 on every other class, as released."""
    rows = torch.full((len(labels), num_classes), _TINY, device=labels.device)
    return rows.scatter_(1, labels[:, None], 1 - _TINY)


def label_disagreement(features: Tensor, logits: Tensor, labels: Tensor, count: int) -> Tensor:
    """Return the mean divergence of the neighbours' predictions from each given label.

    ``s_i = mean_k JS_2(softmax(z_k), y~_i)`` over the samples k nearest to i, i excluded.

    Args:
        features: Features of all samples, ``(N, D)``.
        logits: Their logits z, ``(N, C)``.
        labels: Their given labels, ``(N,)``.
        count: Number of neighbours.

    Returns:
        ``(N,)``: about 0 where the neighbours say what the label says, about 1 where they do not.
    """
    around = nearest_samples(features, count)
    predictions = logits.float().softmax(dim=1)
    target = _nearly_one_hot(labels, logits.shape[1])
    total = torch.zeros(len(labels), device=labels.device)
    for place, found in zip(around.position.unbind(1), around.found.unbind(1), strict=True):
        total += torch.where(found, js_divergence(predictions[place], target, base=2), 0.0)
    return total / around.found.sum(dim=1).clamp(min=1)


def corrected_labels(
    features: Tensor,
    logits: Tensor,
    labels: Tensor,
    *,
    unlabelled: Tensor,
    candidates: Tensor,
    count: int,
    threshold: float,
) -> Tensor:
    """Return new labels for samples whose prediction agrees with the labels around them.

    For sample i and its nearest candidates k, ``c_k = JS_2(softmax(z_i), y~_k)``; the label is
    ``argmax_c sum_k (1 - c_k) y~_k``, accepted where ``mean_k c_k <= threshold``.

    Args:
        features: Features of all samples, ``(N, D)``.
        logits: Their logits z, ``(N, C)``.
        labels: Their given labels, ``(N,)``.
        unlabelled: The samples i, as positions ``(U,)``.
        candidates: The samples whose labels are trusted, as positions.
        count: Number of neighbours.
        threshold: ``theta_c``.

    Returns:
        ``(U,)``: a class, or -1 where no label is accepted.
    """
    around = nearest_samples(features, count, queries=unlabelled, keys=candidates).position
    predictions = logits[unlabelled].float().softmax(dim=1)
    votes = torch.zeros_like(predictions)
    doubt = votes.new_zeros(len(unlabelled))
    for place in around.unbind(1):
        label = _nearly_one_hot(labels[place], logits.shape[1])
        divergence = js_divergence(predictions, label, base=2)
        votes += (1 - divergence)[:, None] * label
        doubt += divergence
    accepted = doubt / max(around.shape[1], 1) <= threshold
    return torch.where(accepted, votes.argmax(dim=1), -1)


@options
class NeighborhoodCollectiveEstimation(Division):
    """Verify labels by the neighbours' predictions, correct others by the neighbours' labels.

    Two networks in turn, after a warm-up. At the start of an epoch each network, in ``eval()``,
    scores every sample as stored: the mean divergence s of the label from the predictions of the 20
    nearest samples. Where ``s < theta_v`` the label is kept for the other network, with weight
    ``w = 1 - s``. Before a network learns, each of its unlabelled samples is compared with the 20
    nearest kept ones of ``w > 0.5`` (both networks' features and logits summed): their weighted
    label is taken where prediction and labels differ by ``theta_c`` at most, else none. A step:

    - labelled: two weak views with ``t = sharpen(w onehot(y) + (1 - w) p)``, p the network's own
      mean over both, mixed with ``lam' = max(lam, 1 - lam)``;
    - ``L = CE(mixed rows) + prior penalty + mean([corrected] CE(strong view, new label))``.

    Its networks have a linear layer between features and classifier (``model.options.neck``).

    Args:
        warmup: Epochs of plain cross entropy; None takes the published share (10 of 300).
        theta_v: Divergence below which a label is kept.
        theta_c: Divergence up to which a correction is accepted; 0 corrects nothing.
        correct_above: Nothing is corrected where the noise rate is known to be this or less.
        strong_labelled: Whether the strong views of labelled samples are learned from with their
            given labels, too, as published for CIFAR-100 with 20 and 50 % noise.
        entropy_penalty: Whether the warm-up punishes sure predictions; None: where the noise is
            known to be asymmetric.
        temperature: Temperature of the sharpening.
        alpha: Parameter of the Beta distribution of the mix.
        neighbours: Number of nearest samples.

    Reference:
        Li et al., Neighborhood Collective Estimation for Noisy Label Identification and Correction,
        ECCV 2022.
    """

    roles: ClassVar[Mapping[str, tuple[Role, ...]]] = {
        **Division.roles,
        "train/first": _STEPS,
        "train/second": _STEPS,
    }
    views: ClassVar[tuple[str, ...]] = ("weak", "weak", "strong")
    published_warmup = (10, 300)
    neck = "linear"

    theta_v: Share = 0.75
    theta_c: NonNegative = 0.002
    correct_above: Share = 0.2
    strong_labelled: bool = False
    neighbours: Count = 20

    def extend(self, name: str, net: nn.Module) -> nn.Module:
        """See that the features of the network can be read."""
        return backbone("neighborhood-collective-estimation", net)

    def setup(self, task: Task, nets: dict[str, nn.Module]) -> None:
        """Make the tables of corrected labels: -1 where there is none."""
        super().setup(task, nets)
        self.corrections: dict[str, SampleTable] = {}
        for name in self.networks:
            table = SampleTable(task.num_samples, fill=-1, dtype=torch.long, device=task.device)
            self.corrections[name] = self.remember(f"corrections/{name}", table)
        rate = task.nominal_rate if task.nominal_rate is not None else task.realised_rate
        self.corrects = self.theta_c > 0 and (rate is None or rate > self.correct_above)

    def begin(self, phase: str, epoch: int) -> Phase:
        """Give a phase the length of its longer part."""
        planned = super().begin(phase, epoch)
        kind, name = phase.split("/")
        if kind == "warmup":
            return planned
        longest = max(len(self.labelled(name)), len(self.unlabelled(name)))
        return replace(planned, steps=longest // self.task.batch_size + 1)

    def divide(self, name: str, epoch: int) -> None:
        """Let both networks score before either learns; then correct for the one that does."""
        if name != self.networks[0] and not self.corrects:
            return
        outputs = self.task.score(self._outputs)
        features = {net: outputs[f"features/{net}"] for net in self.networks}
        logits = {net: outputs[f"logits/{net}"] for net in self.networks}
        if name == self.networks[0]:
            for scorer, learner in zip(self.networks, reversed(self.networks), strict=True):
                score = label_disagreement(
                    features[scorer], logits[scorer], self.task.labels, self.neighbours
                )
                trust = (1 - score).clamp(0, 1)
                self.keep(learner, score < self.theta_v, trust)
                everyone = torch.arange(len(trust), device=trust.device)
                self.trusts[scorer].write(everyone, trust)
        if self.corrects:
            first, second = self.networks
            self._correct(name, features[first] + features[second], logits[first] + logits[second])

    def _outputs(self, batch: Batch) -> dict[str, Tensor]:
        """Return features and logits of both networks."""

        def both(net: Any) -> tuple[Tensor, Tensor]:
            features = net.embed(batch.views[0])
            return features.float(), net.head(features).float()

        found: dict[str, Tensor] = {}
        for name in self.networks:
            found[f"features/{name}"], found[f"logits/{name}"] = self.run(name, both, "peer")
        return found

    def _correct(self, name: str, features: Tensor, logits: Tensor) -> None:
        kept, left = self.labelled(name), self.unlabelled(name)
        labels = torch.full_like(self.task.labels, -1)
        candidates = kept[self.weights[name][kept] > 0.5]
        if len(candidates) > _LEAST_CANDIDATES:
            labels[left] = corrected_labels(
                features,
                logits,
                self.task.labels,
                unlabelled=left,
                candidates=candidates,
                count=self.neighbours,
                threshold=self.theta_c,
            )
        self.corrections[name].write(torch.arange(len(labels), device=labels.device), labels)

    def step(self, phase: Phase, batch: Mapping[str, Batch], clock: Clock) -> StepResult:
        """Return the loss of a warm-up batch, or of a labelled and an unlabelled one."""
        (name,) = phase.train
        if "train" in batch:
            return self.warmup_step(name, batch["train"])
        labelled, unlabelled = batch["labelled"], batch.get("unlabelled")
        mixed = mix_rows(
            torch.cat(labelled.views[:2]),
            torch.cat([self.refined(name, labelled)] * 2),
            alpha=self.alpha,
            generator=self.task.generator,
        )
        logits = self.logits(name, mixed.inputs)
        terms = {
            "labelled": F.cross_entropy(logits, mixed.targets),
            "prior": prior_penalty(self.task.joint.rows(logits)),
        }
        views, labels = [], []
        if self.corrects and unlabelled is not None:
            views.append(unlabelled.views[2])
            labels.append(self.corrections[name][unlabelled.index])
        if self.strong_labelled:
            views.append(labelled.views[2])
            labels.append(labelled.target)
        if labels:
            target = torch.cat(labels)
            losses = logits.new_zeros(0)
            if len(target) >= self.least_rows:
                logits = self.logits(name, torch.cat(views))
                losses = F.cross_entropy(logits, target, ignore_index=-1, reduction="none")
            # The mean is over all rows, those without a label included.
            terms["corrected"] = self.task.joint.mean(losses)
        return StepResult(torch.stack(list(terms.values())).sum(), terms)

    def end_epoch(self, epoch: int) -> Mapping[str, float]:
        """Report the shares of labels that were kept and that were corrected."""
        numbers = dict(super().end_epoch(epoch))
        if numbers:
            tables = torch.stack([table.values for table in self.corrections.values()])
            numbers["train/corrected"] = float((tables >= 0).float().mean())
        return numbers
