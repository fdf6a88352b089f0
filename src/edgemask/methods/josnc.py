"""Jo-SNC: labels judged by the prediction and by the neighbours', with thresholds by class."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from edgemask.errors import UserError
from edgemask.methods.base import Clock, Feed, Phase, Role, StepResult, Task
from edgemask.methods.consistency import ConsistencyMethod
from edgemask.methods.options import Count, Positive, Share, options
from edgemask.methods.parts.losses import (
    full_precision,
    info_nce,
    js_divergence,
    negative_learning,
    neighbour_consistency,
    symmetric_kl,
)
from edgemask.methods.parts.memory import ClassTable, RingQueue, SampleTable, class_means
from edgemask.methods.parts.neighbours import Neighbours, nearest_neighbours
from edgemask.methods.parts.pseudo_labels import least_likely, neighbour_target, partial_labels
from edgemask.methods.parts.selection import cleanness
from edgemask.models import Backbone

if TYPE_CHECKING:
    from edgemask.data import Batch

__all__ = ["JoSNC"]

_PUBLISHED_WARMUP, _PUBLISHED_REST = 10, 190  # epochs
_TEMPERATURE = 0.1  # of the out-of-class score and of the contrast
_SMALL_QUEUE = 0.64  # 32,000 keys for 50,000 images


@options
class JoSNC(ConsistencyMethod):
    """Sort each batch by its own predictions and its neighbours', each kind with a loss of its own.

    A network q, its momentum copy k and a queue of the last keys ``k(x1)`` with q's logits. With a
    weak view x1, a strong view x2 and the given label smoothed to ``y~``:

    - ``p_clean = 1 - JS_2(p(x1), y~)``; ``p_ood = JS_2`` of the two views' sharpened predictions;
    - clean: ``p_clean >= tau_c[y]``, or the same of the ``neighbours`` nearest keys on average;
      of the others, out-of-class if ``p_ood > tau_o[y]``, in-class otherwise;
    - clean samples learn ``y~``; in-class ones the teacher's ``top_k`` classes as partial labels;
      out-of-class ones that they are not the teacher's least likely class (both views, half each);
    - ``L = L_cls + alpha KL_2(views) + gamma InfoNCE + beta NCR``, the first and the last of these
      on clean and in-class samples;
    - after each epoch ``tau <- max(tau, a tau + (1 - a) (1 + delta) mean over the class)``; without
      options ``a = 0.75^(10 / W)`` in W epochs of warm-up and ``0.975^(190 / (E - W))`` afterwards,
      so that thresholds get as far in a short run as in the published one of 10 + 190 epochs.

    The warm-up learns ``CE(p(x1), y~)`` alone. The network q is reported.

    Args:
        warmup: Epochs of warm-up; None takes the published share, 10 of 200.
        warmup_heads_only: Whether only classifier and projector learn in the warm-up (published
            for networks that are pretrained).
        smoothing: The share of the given label that goes to the other classes.
        alpha: The weight of the agreement between views.
        beta: The weight of neighbour consistency.
        gamma: The weight of the contrast.
        neighbours: Number of nearest neighbours that vote.
        queue: Keys that are remembered, but at most 0.64 of the number of training samples (the
            published share on CIFAR), so that a small set does not meet itself over and over.
        top_k: Candidates of a partial label.
        top_k_decay: Epochs after which ``top_k`` is halved, again and again; None never.
        temperature: The temperature on the candidates.
        warmup_tau_momentum: The share a of a threshold that stays in an epoch of the warm-up; None
            takes that of the published 10 epochs, 0.75, scaled to the length of the warm-up.
        tau_momentum: The same after the warm-up; None takes that of the published 190 epochs,
            0.975, scaled to the epochs that are left.
        delta: Added share of the mean that thresholds move to.
        thresholds: ``class``, a mean for each class, or ``global``, one for all.
        momentum: The share of k that stays in each step.
        features: Width of the projection.
        contrast: ``same``: q and k see the same view, as in the released code; ``cross``: q sees
            the strong one.
        remembered: Whose logits the queue holds: ``query`` as in the released code, or ``key``.
        neighbour_gradient: Whether neighbour consistency also moves the features, through the
            similarities that weigh the neighbours, as in the released code.

    Reference:
        Sun et al., Jo-SNC: Combating Noisy Labels by Self- and Neighbor-Consistency, IEEE TPAMI
        2026.
    """

    copies: ClassVar[Mapping[str, str]] = {"key": "net"}
    # In the warm-up the second view enters no loss; as a main pass it shares the mask of the
    # first, so that their difference is that of the views.
    roles: ClassVar[Mapping[str, tuple[Role, ...]]] = {
        "warmup": ("main", "main", "teacher"),
        "train": ("main", "main", "teacher"),
    }

    warmup_heads_only: bool = False
    alpha: float = 0.3
    beta: float = 0.1
    gamma: float = 1e-4
    neighbours: Count = 10
    queue: Count = 32_000
    top_k: Count = 5
    top_k_decay: Count | None = None
    temperature: Positive = 0.1
    warmup_tau_momentum: Share | None = None
    tau_momentum: Share | None = None
    delta: float = 0.0
    thresholds: Literal["class", "global"] = "class"
    features: Count = 256
    contrast: Literal["same", "cross"] = "same"
    remembered: Literal["query", "key"] = "query"
    neighbour_gradient: bool = True

    def __post_init__(self) -> None:
        """Request a projector."""
        self.projector = {"kind": "mlp", "out": self.features}

    def extend(self, name: str, net: nn.Module) -> nn.Module:
        """Check that the network has a projector."""
        if not isinstance(net, Backbone) or net.projector is None:
            raise UserError(
                "JoSNC needs a network with a projector beside its classifier: name one of "
                f"EdgeMask's models, or timm:NAME, instead of giving a {type(net).__name__}"
            )
        return net

    def setup(self, task: Task, nets: dict[str, nn.Module]) -> None:
        """Make the queue, the tables by sample and the thresholds by class."""
        super().setup(task, nets)
        samples, classes, device = task.num_samples, task.num_classes, task.device
        size = max(1, min(self.queue, int(_SMALL_QUEUE * samples)))
        fields = {
            "key": torch.empty(self.features),
            "logits": torch.empty(classes),
            "index": torch.empty((), dtype=torch.long),
        }
        self.memory = RingQueue(size, fields, device=device)
        self.outside = SampleTable(samples, fill=torch.nan, device=device)
        self.tau_clean = ClassTable(classes, device=device)
        self.tau_outside = ClassTable(classes, device=device)
        for name in ("memory", "outside", "tau_clean", "tau_outside"):
            self.remember(name, getattr(self, name))
        rest = task.epochs - self.warmup_epochs
        self._tau_momenta = {
            True: _scaled(self.warmup_tau_momentum, 0.75, _PUBLISHED_WARMUP, self.warmup_epochs),
            False: _scaled(self.tau_momentum, 0.975, _PUBLISHED_REST, rest),
        }
        # Keys and logits of the micro-batches of the running step.
        self._seen: list[dict[str, Tensor]] = []

    def begin(self, phase: str, epoch: int) -> Phase:
        """Train q on a weak and a strong view of all samples."""
        parts: tuple[str, ...] = ("net",)
        if phase == "warmup" and self.warmup_heads_only:
            parts = ("net.neck", "net.head", "net.projector")
        feeds = {"train": Feed(views=("weak", "strong"))}
        return Phase(name=phase, train=parts, shadow=("key",), feeds=feeds)

    def step(self, phase: Phase, batch: Mapping[str, Batch], clock: Clock) -> StepResult:
        """Return the loss of q."""
        index, (x1, x2), y = batch["train"]
        z1, f1 = self.run("net", lambda net: _logits_and_projection(net, x1))
        z2, f2 = self.run("net", lambda net: _logits_and_projection(net, x2))
        z_k, key = self.run("key", lambda net: _logits_and_projection(net, x1), "teacher")
        logits = z1 if self.remembered == "query" else z_k
        self._seen.append({"key": key, "logits": logits.detach(), "index": index})
        given, p_clean = self.judge(index, z1, y)
        p_outside = js_divergence(*(F.softmax(z.detach() / _TEMPERATURE, dim=1) for z in (z1, z2)))
        self.outside.write(index, p_outside)
        if phase.name == "warmup":
            return StepResult(F.cross_entropy(z1, given))

        around = self._around(f1, index)
        clean = p_clean >= self.tau_clean[y]
        clean = clean | (self._neighbours_cleanness(around, given) > self.tau_clean[y])
        outside = ~clean & (p_outside > self.tau_outside[y])
        teacher = F.softmax(z_k, dim=1)
        partial, trust = partial_labels(teacher, self._candidates(clock.epoch), self.temperature)
        wrong, surety = least_likely(teacher)

        def learnt(z: Tensor) -> Tensor:
            by_label = F.cross_entropy(z, given, reduction="none")
            by_parts = trust * F.cross_entropy(z, partial, reduction="none")
            by_exclusion = surety * negative_learning(z, wrong)
            return torch.where(clean, by_label, torch.where(outside, by_exclusion, by_parts))

        view = f1 if self.contrast == "same" else f2
        contrast = info_nce(view, key, self.memory["key"], temperature=_TEMPERATURE).mean()
        joint = self.task.joint
        agreement = joint.mean(symmetric_kl(z1, z2, base=2), ~outside)
        if self.neighbour_gradient:
            around = around.with_gradient(f1, self.memory["key"])
        target, found = neighbour_target(around, self.memory["logits"])
        consistency = joint.mean(neighbour_consistency(z1, target), ~outside & found)
        loss = (
            ((learnt(z1) + learnt(z2)) / 2).mean()
            + self.alpha * agreement
            + self.gamma * contrast
            + self.beta * consistency
        )
        logs = {
            "clean": clean.float().mean(),
            "outside": outside.float().mean(),
            "agreement": agreement,
            "contrast": contrast,
            "consistency": consistency,
        }
        return StepResult(loss, logs)

    def _around(self, features: Tensor, index: Tensor) -> Neighbours:
        """Find the neighbours of a batch; an earlier key of a sample is not its neighbour."""
        return nearest_neighbours(
            features,
            self.memory["key"],
            self.neighbours,
            index=index,
            key_index=self.memory["index"],
        )

    def _neighbours_cleanness(self, around: Neighbours, given: Tensor) -> Tensor:
        """Return the mean cleanness of the neighbours' predictions; 0 where there are none."""
        predictions = F.softmax(self.memory["logits"][around.position], dim=2)
        fit = cleanness(predictions, given[:, None, :])
        count = around.found.sum(dim=1)
        return torch.where(around.found, fit, 0.0).sum(dim=1) / count.clamp(min=1)

    def _candidates(self, epoch: int) -> int:
        if self.top_k_decay is None:
            return self.top_k
        return max(1, self.top_k >> ((epoch - self.warmup_epochs) // self.top_k_decay))

    def after_step(self, phase: Phase, clock: Clock) -> None:
        """Move k, and put the keys of the step into the queue."""
        super().after_step(phase, clock)
        parts, self._seen = self._seen, []
        rows = {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
        self.memory.push(**{name: self.task.joint.rows(values) for name, values in rows.items()})

    def end_epoch(self, epoch: int) -> Mapping[str, float]:
        """Raise the thresholds towards the means of their classes."""
        warm = self.warms_up(epoch)
        stay = self._tau_momenta[warm]
        scale = 1.0 if warm else 1.0 + self.delta
        for values, tau in ((self.clean, self.tau_clean), (self.outside, self.tau_outside)):
            means = self._means(values.values)
            tau.raise_to(stay * tau.values + (1 - stay) * scale * means)
        return {
            "tau_clean": float(self.tau_clean.values.mean()),
            "tau_outside": float(self.tau_outside.values.mean()),
        }

    def _means(self, values: Tensor) -> Tensor:
        if self.thresholds == "class":
            return class_means(values, self.task.labels, self.task.num_classes)
        return values.nanmean().expand(self.task.num_classes)


def _scaled(given: float | None, published: float, epochs: int, now: int) -> float:
    """Return a momentum: as given, or one that leaves as much over the epochs of this run."""
    return published ** (epochs / max(now, 1)) if given is None else given


def _logits_and_projection(net: nn.Module, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return logits and projection of a batch from one pass of the encoder."""
    assert isinstance(net, Backbone)
    features = net.encode(x)
    logits: Tensor = net.head(net.neck(features))
    return full_precision(logits), full_precision(net.project(features=features))
