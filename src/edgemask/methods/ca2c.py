"""CA2C: one network learns what a sample may be, the other one what it is not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from edgemask.errors import UserError
from edgemask.methods.base import Clock, Feed, Phase, Role, StepResult, Task
from edgemask.methods.options import Count, Share, options
from edgemask.methods.parts import SampleTable
from edgemask.methods.parts.losses import negative_entropy, negative_learning
from edgemask.methods.parts.pseudo_labels import count_labels, top_classes
from edgemask.methods.warmup import WarmupMethod

if TYPE_CHECKING:
    from edgemask.data import Batch

__all__ = ["CA2C"]


@options
class CA2C(WarmupMethod):
    """Count which classes two networks name again and again, and learn from the counts.

    Warm-up: each network on the weak view with ``CE(y) + sum_c p_c log p_c``; each puts one vote
    for its ``top_k`` likeliest classes into the counts M. Then the given labels are not used any
    more. In each step, with network P (partial labels) and N (negative labels):

    - N votes; the soft label is ``s = M_i / sum M_i``, its confidence ``c = max s``, the hard label
      ``h = argmax M_i``;
    - ``L_pll = lam mean(c CE(P(x), h)) + (1 - lam) mean(c CE(P(x), s))``;
    - ``L_nl = -mean sum_j log(1 - N(x)_j)`` over the classes j outside P's ``top_k``;
    - both learn their own predicted class for the strong view: ``CE(P(xs), argmax P(x))``, N alike;
    - ``L_P = (1 - w) L_pll + w CE(...)``, ``L_N = (1 - w) L_nl + w CE(...)``.

    No noise rate is needed. Reported is the mean of both networks' logits.

    Args:
        warmup: Epochs of warm-up; None takes the published share, 400 of 700.
        top_k: Classes that get a vote, and classes that are not called wrong.
        hard_weight: The weight lam of the hard label.
        consistency: The weight w of the strong view.
        rectified_penalty: Whether the penalty sees negative logits as 0, as in the released code.

    Reference:
        Sheng et al., CA2C: A Prior-Knowledge-Free Approach for Robust Label Noise Learning via
        Asymmetric Co-learning and Co-training, ICCV 2025.
    """

    networks = ("partial", "negative")
    roles: ClassVar[Mapping[str, tuple[Role, ...]]] = {
        "warmup": ("main", "main"),
        "train": ("main", "main", "main", "main"),
    }
    uses_criterion = False

    published_warmup = (400, 700)

    top_k: Count = 2
    hard_weight: Share = 0.99
    consistency: Share = 0.2
    rectified_penalty: bool = False

    def setup(self, task: Task, nets: dict[str, nn.Module]) -> None:
        """Make the table of counts."""
        super().setup(task, nets)
        if self.top_k >= task.num_classes:
            raise UserError(
                f"CA2C: top_k={self.top_k} leaves none of {task.num_classes} classes to call "
                "wrong; choose fewer"
            )
        table = SampleTable(task.num_samples, task.num_classes, device=task.device)
        self.counts = self.remember("counts", table)

    def begin(self, phase: str, epoch: int) -> Phase:
        """Train both networks on all samples: a weak view, later a strong one beside it."""
        views = ("weak",) if phase == "warmup" else ("weak", "strong")
        return Phase(name=phase, train=self.networks, feeds={"train": Feed(views=views)})

    def step(self, phase: Phase, batch: Mapping[str, Batch], clock: Clock) -> StepResult:
        """Return the sum of both networks' losses."""
        if phase.name == "warmup":
            return self._warm_up(batch["train"])
        index, (x, strong), _ = batch["train"]
        z_p, z_n = self.logits("partial", x), self.logits("negative", x)
        self._count(index, z_n)
        hard, soft, confidence = count_labels(self.counts[index].to(z_p.device))
        by_hard = (confidence * F.cross_entropy(z_p, hard, reduction="none")).mean()
        by_soft = (confidence * F.cross_entropy(z_p, soft, reduction="none")).mean()
        partial = self.hard_weight * by_hard + (1 - self.hard_weight) * by_soft
        negative = negative_learning(z_n, ~top_classes(z_p, self.top_k)).mean()
        agree_p = F.cross_entropy(self.logits("partial", strong), z_p.detach().argmax(dim=1))
        agree_n = F.cross_entropy(self.logits("negative", strong), z_n.detach().argmax(dim=1))
        w = self.consistency
        loss = (1 - w) * (partial + negative) + w * (agree_p + agree_n)
        logs = {"partial": partial, "negative": negative, "confidence": confidence.mean()}
        return StepResult(loss, logs)

    def _warm_up(self, batch: Batch) -> StepResult:
        index, (x,), y = batch
        loss = torch.zeros((), device=y.device)
        for name in self.networks:
            logits = self.logits(name, x)
            penalty = negative_entropy(logits, rectified=self.rectified_penalty).mean()
            loss = loss + F.cross_entropy(logits, y) + penalty
            self._count(index, logits)
        return StepResult(loss)

    def _count(self, index: Tensor, logits: Tensor) -> None:
        self.counts.add(index, top_classes(logits, self.top_k).float())

    def trust(self) -> Tensor | None:
        """Return the votes for the given label against those for its strongest rival."""
        counts, labels = self.counts.values, self.task.labels.to(self.counts.values.device)
        given = counts.gather(1, labels[:, None]).squeeze(1)
        rival = counts.scatter(1, labels[:, None], -1.0).amax(dim=1)
        return (given + 0.5) / (given + rival + 1.0)
