"""Jo-SNC: a sample is judged by itself and by its neighbours, thresholds by their class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from edgemask.errors import UserError
from edgemask.methods.base import Clock, Feed, Method, Phase, Role, Step, Task
from edgemask.methods.parts import SampleTable
from edgemask.methods.parts.averages import follow
from edgemask.methods.parts.checks import above_zero, at_least, one_of, shares
from edgemask.methods.parts.classes import ClassTable, class_means
from edgemask.methods.parts.divergences import js_divergence, symmetric_kl
from edgemask.methods.parts.queue import RingQueue
from edgemask.methods.parts.rates import warmup_epochs
from edgemask.methods.parts.refine import (
    least_likely,
    neighbour_target,
    partial_labels,
    smoothed_labels,
)
from edgemask.methods.parts.select import Neighbours, cleanness, nearest
from edgemask.methods.parts.terms import (
    info_nce,
    negative_learning,
    neighbour_consistency,
    safe_mean,
)
from edgemask.methods.parts.trust import trust_from_cleanness
from edgemask.models import Backbone

if TYPE_CHECKING:
    from edgemask.data import Batch

__all__ = ["JoSNC"]

_PUBLISHED = (10, 200)
_WARMUP_DECAY = 0.75
_TEMPERATURE = 0.1  # of the out-of-class score and of the contrast
_SMALL_QUEUE = 0.64  # 32,000 keys for 50,000 images


class JoSNC(Method):
    """Sort each batch by its own answers and its neighbours', and teach each kind its own way.

    A network q, its momentum copy k and a queue of the last keys ``k(x1)`` with q's logits. With a
    weak view x1, a strong view x2 and the given label smoothed to ``y~``:

    - ``p_clean = 1 - JS_2(p(x1), y~)``; ``p_ood = JS_2`` of the two views' sharpened answers;
    - clean: ``p_clean >= tau_c[y]``, or the same of the ``neighbours`` nearest keys on average;
      of the others, out-of-class if ``p_ood > tau_o[y]``, in-class otherwise;
    - clean samples learn ``y~``; in-class ones the teacher's ``top_k`` classes as partial labels;
      out-of-class ones that they are not the teacher's least likely class (both views, half each);
    - ``L = L_cls + alpha KL_2(views) + gamma InfoNCE + beta NCR``, the first and the last of these
      on clean and in-class samples;
    - after each epoch ``tau <- max(tau, a tau + (1 - a) (1 + delta) mean over the class)``.

    The warm-up learns ``CE(p(x1), y~)`` alone. The network q is reported.

    Args:
        warmup: Epochs of warm-up; None takes the published share, 10 of 200.
        warmup_heads_only: Whether only classifier and projector learn in the warm-up (published
            for networks that are pretrained).
        smoothing: The share of the given label that goes to the other classes.
        alpha: The weight of the agreement between views.
        beta: The weight of neighbour consistency.
        gamma: The weight of the contrast.
        neighbours: Neighbours that are asked.
        queue: Keys that are remembered, but at most 0.64 of the number of training samples (the
            published share on CIFAR), so that a small set does not meet itself over and over.
        top_k: Candidates of a partial label.
        top_k_decay: Epochs after which ``top_k`` is halved, again and again; None never.
        temperature: The temperature on the candidates.
        tau_momentum: The share a of a threshold that stays after the warm-up (0.75 within it).
        delta: Added share of the mean that thresholds move to.
        thresholds: ``class``, a mean for each class, or ``global``, one for all.
        momentum: The share of k that stays in each step.
        features: Width of the projection.
        contrast: ``same``: q and k see the same view, as in the released code; ``cross``: q sees
            the strong one.
        remembered: Whose logits the queue holds: ``query`` as in the released code, or ``key``.

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
    uses_criterion = False

    def __init__(
        self,
        *,
        warmup: int | None = None,
        warmup_heads_only: bool = False,
        smoothing: float = 0.6,
        alpha: float = 0.3,
        beta: float = 0.1,
        gamma: float = 1e-4,
        neighbours: int = 10,
        queue: int = 32_000,
        top_k: int = 5,
        top_k_decay: int | None = None,
        temperature: float = 0.1,
        tau_momentum: float = 0.975,
        delta: float = 0.0,
        thresholds: Literal["class", "global"] = "class",
        momentum: float = 0.99,
        features: int = 256,
        contrast: Literal["same", "cross"] = "same",
        remembered: Literal["query", "key"] = "query",
    ):
        shares("josnc", smoothing=smoothing, tau_momentum=tau_momentum, momentum=momentum)
        above_zero("josnc", temperature=temperature)
        at_least("josnc", 1, neighbours=neighbours, queue=queue, top_k=top_k, features=features)
        at_least("josnc", 1, top_k_decay=top_k_decay)
        one_of("josnc", ("class", "global"), thresholds=thresholds)
        one_of("josnc", ("same", "cross"), contrast=contrast)
        one_of("josnc", ("query", "key"), remembered=remembered)
        self.warmup = warmup
        self.warmup_heads_only = warmup_heads_only
        self.smoothing = smoothing
        self.alpha = alpha
        self.beta = beta
        self.gamma = gamma
        self.neighbours = neighbours
        self.queue = queue
        self.top_k = top_k
        self.top_k_decay = top_k_decay
        self.temperature = temperature
        self.tau_momentum = tau_momentum
        self.delta = delta
        self.thresholds = thresholds
        self.momentum = momentum
        self.contrast = contrast
        self.remembered = remembered
        self.features = features
        self.projector: Mapping[str, Any] = {"kind": "mlp", "out": features}

    def extend(self, name: str, net: nn.Module) -> nn.Module:
        """Check that the network has a projector."""
        del name
        if not isinstance(net, Backbone) or net.projector is None:
            raise UserError(
                "josnc needs a network with a projector beside its classifier: name one of "
                f"EdgeMask's models, or timm:NAME, instead of giving a {type(net).__name__}"
            )
        return net

    def setup(self, task: Task, nets: dict[str, nn.Module]) -> None:
        """Make the queue, the tables by sample and the thresholds by class."""
        super().setup(task, nets)
        samples, classes, device = task.num_samples, task.num_classes, task.device
        self.warmup_epochs = warmup_epochs("josnc", self.warmup, task.epochs, _PUBLISHED)
        size = max(1, min(self.queue, int(_SMALL_QUEUE * samples)))
        fields = {
            "key": torch.empty(self.features),
            "logits": torch.empty(classes),
            "index": torch.empty((), dtype=torch.long),
        }
        self.memory = RingQueue(size, fields, device=device)
        self.clean = SampleTable(samples, fill=torch.nan, device=device)
        self.outside = SampleTable(samples, fill=torch.nan, device=device)
        self.tau_clean = ClassTable(classes, device=device)
        self.tau_outside = ClassTable(classes, device=device)
        for name in ("memory", "clean", "outside", "tau_clean", "tau_outside"):
            self.remember(name, getattr(self, name))
        # Keys and logits of the micro-batches of the running step.
        self._seen: list[dict[str, Tensor]] = []

    def phases(self, epoch: int) -> Sequence[str]:
        """Warm up first."""
        return ("warmup",) if epoch < self.warmup_epochs else ("train",)

    def begin(self, phase: str, epoch: int) -> Phase:
        """Train q on a weak and a strong view of all samples."""
        del epoch
        parts: tuple[str, ...] = ("net",)
        if phase == "warmup" and self.warmup_heads_only:
            parts = ("net.neck", "net.head", "net.projector")
        feeds = {"train": Feed(views=("weak", "strong"))}
        return Phase(name=phase, train=parts, shadow=("key",), feeds=feeds)

    def step(self, phase: Phase, batch: Mapping[str, Batch], clock: Clock) -> Step:
        """Return the loss of q."""
        index, (x1, x2), y = batch["train"]
        z1, f1 = self.run("net", lambda net: _answer(net, x1))
        z2, f2 = self.run("net", lambda net: _answer(net, x2))
        z_k, key = self.run("key", lambda net: _answer(net, x1), "teacher")
        logits = z1 if self.remembered == "query" else z_k
        self._seen.append({"key": key, "logits": logits.detach(), "index": index})
        given = smoothed_labels(y, self.task.num_classes, self.smoothing)
        p_clean = cleanness(F.softmax(z1, dim=1), given)
        p_outside = js_divergence(*(F.softmax(z.detach() / _TEMPERATURE, dim=1) for z in (z1, z2)))
        self.clean.write(index, p_clean)
        self.outside.write(index, p_outside)
        if phase.name == "warmup":
            return Step(F.cross_entropy(z1, given))

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
        agreement = safe_mean(symmetric_kl(z1, z2, base=2), ~outside)
        target, found = neighbour_target(around, self.memory["logits"])
        consistency = safe_mean(neighbour_consistency(z1, target), ~outside & found)
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
        return Step(loss, logs)

    def _around(self, features: Tensor, index: Tensor) -> Neighbours:
        """Find the neighbours of a batch; an earlier key of a sample is not its neighbour."""
        return nearest(
            features,
            self.memory["key"],
            self.neighbours,
            index=index,
            key_index=self.memory["index"],
        )

    def _neighbours_cleanness(self, around: Neighbours, given: Tensor) -> Tensor:
        """Return how well the neighbours' answers fit the given label; 0 where there are none."""
        answers = F.softmax(self.memory["logits"][around.position], dim=2)
        fit = cleanness(answers, given[:, None, :])
        count = around.found.sum(dim=1)
        return torch.where(around.found, fit, 0.0).sum(dim=1) / count.clamp(min=1)

    def _candidates(self, epoch: int) -> int:
        if self.top_k_decay is None:
            return self.top_k
        return max(1, self.top_k >> ((epoch - self.warmup_epochs) // self.top_k_decay))

    def after_step(self, phase: Phase, clock: Clock) -> None:
        """Let k follow, and remember the keys of the step."""
        del phase, clock
        follow(self.nets["key"], self.nets["net"], self.momentum)
        parts, self._seen = self._seen, []
        rows = {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
        self.memory.push(**{name: self.task.gather(values) for name, values in rows.items()})

    def end_epoch(self, epoch: int) -> Mapping[str, float]:
        """Raise the thresholds towards the means of their classes."""
        warm = epoch < self.warmup_epochs
        stay = _WARMUP_DECAY if warm else self.tau_momentum
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

    def trust(self) -> Tensor | None:
        """Return the trust in each label by its cleanness when it was last seen."""
        return trust_from_cleanness(self.clean.values)


def _answer(net: nn.Module, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return logits and projection of a batch from one pass of the encoder."""
    assert isinstance(net, Backbone)
    features = net.encode(x)
    logits: Tensor = net.head(net.neck(features))
    return logits.float(), net.project(features=features).float()
