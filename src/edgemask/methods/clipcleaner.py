"""CLIPCleaner: CLIP chooses samples to begin with, the network absorbs and relabels the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from edgemask._random import torch_stream
from edgemask.audit import fit_two_components
from edgemask.errors import UserError
from edgemask.methods.base import Clock, Feed, Method, Phase, Role, StepResult, Task
from edgemask.methods.options import NonNegative, Positive, Share, options
from edgemask.methods.parts.clip import (
    ClipModel,
    class_prompts,
    linear_probe,
    load_clip,
    read_features,
    read_texts,
    zero_shot,
)
from edgemask.methods.parts.memory import SampleTable
from edgemask.methods.parts.mixing import mix_rows
from edgemask.methods.parts.selection import balanced_indices, min_max

if TYPE_CHECKING:
    from edgemask.data import Batch

__all__ = [
    "CLIPCleaner",
    "absorb",
    "class_posterior",
    "class_scores",
    "clip_selection",
    "consistent",
    "refill",
]


def class_scores(probabilities: Tensor, labels: Tensor) -> Tensor:
    """Return ``log p[y]``, scaled to [0, 1] among the samples of each given class, ``(N,)``.

    Args:
        probabilities: ``(N, C)``.
        labels: Given labels, ``(N,)``.
    """
    own = probabilities.gather(1, labels[:, None]).squeeze(1)
    scores = own.clamp(min=torch.finfo(own.dtype).tiny).log()
    for label in labels.unique():
        scores[labels == label] = min_max(scores[labels == label])
    return scores


def class_posterior(scores: Tensor, labels: Tensor) -> Tensor:
    """Fit two Gaussians to the scores of each given class; return the posterior of the upper one.

    Scores that do not differ all have 1.

    Args:
        scores: What :func:`class_scores` returned, ``(N,)``.
        labels: Given labels, ``(N,)``.
    """
    posterior = torch.ones_like(scores)
    for label in labels.unique():
        mine = labels == label
        values = scores[mine].double().cpu().numpy()
        fit = fit_two_components(values, normalise=False, max_iter=100, tol=1e-3, reg_covar=1e-6)
        if not fit.degenerate:
            posterior[mine] = torch.from_numpy(1.0 - fit.posterior_low).to(posterior)
    return posterior


def consistent(probabilities: Tensor, labels: Tensor, threshold: float) -> Tensor:
    """Return whether ``p[y] / max p >= threshold``, ``(N,)``.

    Args:
        probabilities: ``(N, C)``.
        labels: Given labels, ``(N,)``.
        threshold: 1 means that y is (one of) the likeliest.
    """
    own = probabilities.gather(1, labels[:, None]).squeeze(1)
    return own / probabilities.amax(dim=1) >= threshold


def clip_selection(
    predictions: Sequence[Tensor], labels: Tensor, *, posterior: float, consistency: float
) -> Tensor:
    """Return the samples that every prediction finds right, by both criteria, ``(N,)``.

    Args:
        predictions: Probabilities, each ``(N, C)``: zero-shot, linear probe.
        labels: Given labels, ``(N,)``.
        posterior: The threshold of :func:`class_posterior`.
        consistency: The threshold of :func:`consistent`.
    """
    chosen = torch.ones_like(labels, dtype=torch.bool)
    for probabilities in predictions:
        by_class = class_posterior(class_scores(probabilities, labels), labels)
        chosen &= (by_class >= posterior) & consistent(probabilities, labels, consistency)
    return chosen


def refill(chosen: Tensor, labels: Tensor, scores: Tensor, num_classes: int) -> Tensor:
    """Return a selection in which no given class is empty.

    A class without a chosen sample gets its samples of the largest score: as many as the smallest
    class that has some, and at least ``int(N / C^2)``.

    Args:
        chosen: The selection, ``(N,)``.
        labels: Given labels, ``(N,)``.
        scores: Higher where a label is likelier right, ``(N,)``.
        num_classes: Number of classes.
    """
    counts = torch.bincount(labels[chosen], minlength=num_classes)
    some = counts[counts > 0]
    size = max(int(some.min()) if len(some) else 1, len(labels) // num_classes**2, 1)
    chosen = chosen.clone()
    for label in labels.unique():
        if not counts[label]:
            mine = (labels == label).nonzero().flatten()
            best = torch.argsort(scores[mine], descending=True, stable=True)[:size]
            chosen[mine[best]] = True
    return chosen


def absorb(
    probabilities: Tensor, labels: Tensor, chosen: Tensor, *, keep: float, relabel: float
) -> tuple[Tensor, Tensor]:
    """Return the samples to learn from, and their labels (MixFix).

    With the likeliest class l and its probability s: a sample is absorbed where ``l = y`` and
    ``s >= keep``, and relabelled to l where ``l != y`` and ``s >= relabel``; both join the chosen
    ones. Chosen samples may be relabelled, too.

    Args:
        probabilities: The network's predictions, ``(N, C)``.
        labels: Given labels, ``(N,)``.
        chosen: The samples that CLIP chose, ``(N,)``.
        keep: Threshold of samples whose label is predicted.
        relabel: Threshold of samples for which another one is.
    """
    sure, likeliest = probabilities.max(dim=1)
    agrees = likeliest == labels
    joined = torch.where(agrees, sure >= keep, sure >= relabel)
    return chosen | joined, torch.where(joined, likeliest, labels)


@options
class CLIPCleaner(Method):
    """Let CLIP choose samples before training, then absorb and relabel what the network is sure of.

    Once, before the first epoch, from CLIP's image features v: ``P0``, zero-shot from prompts for
    each class, and ``P1``, a balanced logistic regression of the given labels on v. For each of
    them a sample must pass two tests: the posterior of the upper of two Gaussians on ``log P[y]``
    of its class, and ``P[y] / max P``. The samples that pass all four are chosen; an empty class is
    refilled with its likeliest samples.

    Then, in each epoch, ``int(N / B)`` steps on a strong view of the chosen samples, repeated until
    classes are balanced: ``CE`` of a mix with ``lam' = max(lam, 1 - lam)``. From the second epoch
    on the samples of which the network is sure join them (:func:`absorb`).

    Args:
        features: A ``.npy`` file with CLIP's image features, one row per training sample of the
            dataset.
        text: A ``.npy`` file with text features, ``(classes, width)`` or ``(classes, prompts,
            width)``.
        model: The CLIP model that computes what no file gives: ``hf:NAME`` for both, ``timm:NAME``
            for images alone.
        prompts: A TOML file with a list of sentences for each class, for ``model``; None takes
            sentences of our own.
        temperature: Temperature of the zero-shot prediction.
        posterior: Threshold of the first test.
        consistency: Threshold of the second test.
        keep: Probability from which on a sample whose label is predicted is absorbed.
        relabel: Probability from which on a sample gets the predicted label instead of its own.
        alpha: Parameter of the Beta distribution of the mix.

    Reference:
        Feng et al., CLIPCleaner: Cleaning Noisy Labels with CLIP, ACM Multimedia 2024.
    """

    roles: ClassVar[Mapping[str, tuple[Role, ...]]] = {"train": ("main",)}
    needs = "CLIP features, or a CLIP model"
    uses_criterion = False
    files = ("features", "text", "prompts")

    features: str | None = None
    text: str | None = None
    model: str | None = None
    prompts: str | None = None
    temperature: Positive = 0.07
    posterior: Share = 0.5
    consistency: Share = 0.8
    keep: Share = 0.8
    relabel: Share = 0.8
    alpha: NonNegative = 1.0

    def setup(self, task: Task, nets: dict[str, nn.Module]) -> None:
        """Make the tables."""
        super().setup(task, nets)
        if self.model is None and (self.features is None or self.text is None):
            raise UserError(
                "clipcleaner needs image and text features of CLIP: give method.options.model="
                "hf:openai/clip-vit-base-patch32 (or a local folder), or files with both, "
                "method.options.features=IMAGES.npy and method.options.text=TEXTS.npy"
            )
        size, device = task.num_samples, task.device
        # What CLIP chose, its posterior by the zero-shot prediction, and the labels of this epoch.
        self.chosen = SampleTable(size, dtype=torch.int8, device=device)
        self.trusted = SampleTable(size, fill=torch.nan, device=device)
        for name in ("chosen", "trusted"):
            self.remember(name, getattr(self, name))
        self.labels = self.remember("labels", SampleTable(size, dtype=torch.long, device=device))

    def begin(self, phase: str, epoch: int) -> Phase:
        """Choose samples and labels, and feed them in balance."""
        task = self.task
        if epoch == 0:
            self._choose()
        chosen, labels = self.chosen.values.bool(), task.labels
        if epoch > 0:
            predicted = task.score(self._predict)["probabilities"]
            chosen, labels = absorb(predicted, labels, chosen, keep=self.keep, relabel=self.relabel)
        self.labels.values = labels.clone()
        generator = torch_stream(task.seed, epoch)  # the same in all processes
        positions = chosen.nonzero().flatten()
        indices = balanced_indices(positions, labels[positions], generator)
        # A last batch of one sample is left out: batch normalisation cannot work on it.
        feed = Feed(
            views=("strong",), indices=indices, drop_last=len(indices) % task.batch_size == 1
        )
        steps = max(1, task.num_samples // task.batch_size)
        return Phase(name=phase, train=("net",), feeds={"train": feed}, steps=steps)

    def _predict(self, batch: Batch) -> dict[str, Tensor]:
        logits = self.logits("net", batch.views[0], "peer")
        return {"probabilities": logits.float().softmax(dim=1)}

    def _choose(self) -> None:
        """Let CLIP choose the samples to begin with."""
        task = self.task
        images, texts = self._clip_features()
        if any(row.shape[-1] != images.shape[-1] for row in texts):
            raise UserError(
                f"CLIP's image features are {images.shape[-1]} wide and its text features "
                f"{texts[0].shape[-1]}: they must come from one model"
            )
        labels = task.labels.cpu()
        predictions = [
            zero_shot(images, texts, temperature=self.temperature),
            linear_probe(images, labels, task.num_classes),
        ]
        chosen = clip_selection(
            predictions, labels, posterior=self.posterior, consistency=self.consistency
        )
        scores = class_scores(predictions[0], labels)
        chosen = refill(chosen, labels, scores, task.num_classes)
        self.chosen.values = chosen.to(self.chosen.values)
        self.trusted.values = class_posterior(scores, labels).to(self.trusted.values)

    def _clip_features(self) -> tuple[Tensor, list[Tensor]]:
        """Return image features ``(N, D)`` and the text features of each class."""
        task = self.task
        wanted = self.model is not None and (self.features is None or self.text is None)
        clip = load_clip(str(self.model), task.device) if wanted else None
        if self.features is not None:
            images = read_features(
                self.features, task.num_samples, task.positions, what="image features"
            )
        else:
            assert clip is not None
            images = self._images(clip)
        if self.text is not None:
            return images, read_texts(self.text, task.num_classes)
        assert clip is not None
        sentences = class_prompts(task.class_names, task.dataset, self.prompts)
        return images, [clip.texts(words, task.device).cpu() for words in sentences]

    def _images(self, clip: ClipModel) -> Tensor:
        """Compute the features of all samples, as stored."""
        mean, std = (torch.tensor(values).view(1, -1, 1, 1) for values in self.task.normalisation)

        def features(batch: Batch) -> dict[str, Tensor]:
            x = batch.views[0]
            return {"features": clip.images(x * std.to(x) + mean.to(x))}

        return self.task.score(features)["features"].cpu()

    def step(self, phase: Phase, batch: Mapping[str, Batch], clock: Clock) -> StepResult:
        """Return the loss of a mixed batch, with the labels of this epoch."""
        index, (x,), _ = batch["train"]
        target = F.one_hot(self.labels[index], self.task.num_classes).to(x.dtype)
        mixed = mix_rows(x, target, alpha=self.alpha, generator=self.task.generator)
        return StepResult(F.cross_entropy(self.logits("net", mixed.inputs), mixed.targets))

    def end_epoch(self, epoch: int) -> Mapping[str, float]:
        """Report what CLIP chose and how many labels were changed in this epoch."""
        changed = self.labels.values != self.task.labels
        return {
            "train/chosen_share": float(self.chosen.values.float().mean()),
            "train/relabelled_share": float(changed.float().mean()),
        }

    def trust(self) -> Tensor | None:
        """Return the posterior of the zero-shot prediction: a score of CLIP, not of the network."""
        return None if self.trusted.values.isnan().any() else self.trusted.values
