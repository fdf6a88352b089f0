"""Jo-SRC: clean, wrongly labelled or of no class at all, judged by two views and a slow teacher."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from edgemask.methods.base import Clock, Feed, Method, Phase, Role, Step, Task
from edgemask.methods.parts import SampleTable
from edgemask.methods.parts.averages import follow
from edgemask.methods.parts.checks import above_zero, one_of, shares
from edgemask.methods.parts.divergences import symmetric_kl
from edgemask.methods.parts.rates import threshold, warmup_epochs
from edgemask.methods.parts.refine import flattened, smoothed_labels
from edgemask.methods.parts.select import cleanness
from edgemask.methods.parts.terms import safe_mean
from edgemask.methods.parts.trust import trust_from_cleanness

if TYPE_CHECKING:
    from edgemask.data import Batch

__all__ = ["JoSRC"]

_PUBLISHED = (10, 200)


class JoSRC(Method):
    """Sort each batch into clean, in-class noise and out-of-class noise; a teacher labels the rest.

    With q the given label smoothed by ``smoothing`` and two weak views of a sample,
    ``P_clean = 1 - JS_2(p(x1), q)``. A sample is clean if ``P_clean >= tau(e)``, where tau rises
    from 0 to ``tau`` in the warm-up and on to ``tau_end``; of the others, those whose two views
    get the same answer are in-class noise.

    - Warm-up: ``mean over clean of CE(p(x1), q) + CE(p(x2), q)``.
    - Then ``(1 - alpha) mean(CE(p(x1), t) + CE(p(x2), t)) + alpha mean(s KL_2)``: the target t is q
      for clean samples, the teacher's mean answer for in-class noise and that mean, flattened, for
      the rest; the symmetric KL between the views has the sign s, -1 for out-of-class noise.

    The teacher is a momentum copy; the student is reported. A sure prediction fits a smoothed label
    badly, so the method keeps its network about as unsure as ``1 - smoothing``: heads that sharpen
    the logits push right samples below the threshold.

    Args:
        warmup: Epochs of warm-up; None takes the published share, 10 of 200.
        smoothing: The share of the given label that goes to the other classes.
        tau: The threshold at the end of the warm-up.
        tau_end: The threshold at the end of the run.
        alpha: The weight of the agreement between views.
        momentum: The share of the teacher that stays in each step.
        flatness: The temperature of targets for out-of-class noise.
        teacher_mode: ``train`` gives the teacher the batch's statistics in batch normalisation, as
            the released code does; ``eval`` the running ones.

    Reference:
        Yao et al., Jo-SRC: A Contrastive Approach for Combating Noisy Labels, CVPR 2021.
    """

    copies: ClassVar[Mapping[str, str]] = {"teacher": "net"}
    roles: ClassVar[Mapping[str, tuple[Role, ...]]] = {
        "warmup": ("main", "main"),
        "train": ("main", "main", "teacher", "teacher"),
    }
    uses_criterion = False

    def __init__(
        self,
        *,
        warmup: int | None = None,
        smoothing: float = 0.6,
        tau: float = 0.75,
        tau_end: float = 0.95,
        alpha: float = 0.5,
        momentum: float = 0.99,
        flatness: float = 10.0,
        teacher_mode: Literal["train", "eval"] = "train",
    ):
        shares("josrc", smoothing=smoothing, tau=tau, tau_end=tau_end, alpha=alpha)
        shares("josrc", momentum=momentum)
        above_zero("josrc", flatness=flatness)
        one_of("josrc", ("train", "eval"), teacher_mode=teacher_mode)
        self.warmup = warmup
        self.smoothing = smoothing
        self.tau = tau
        self.tau_end = tau_end
        self.alpha = alpha
        self.momentum = momentum
        self.flatness = flatness
        self.teacher_mode = teacher_mode
        self.threshold = 0.0

    def setup(self, task: Task, nets: dict[str, nn.Module]) -> None:
        """Make the table of cleanness."""
        super().setup(task, nets)
        self.warmup_epochs = warmup_epochs("josrc", self.warmup, task.epochs, _PUBLISHED)
        self.clean = SampleTable(task.num_samples, fill=torch.nan, device=task.device)
        self.remember("clean", self.clean)

    def start_epoch(self, epoch: int) -> None:
        """Set the threshold."""
        self.threshold = threshold(
            epoch,
            start=self.tau,
            end=self.tau_end,
            warmup=self.warmup_epochs,
            epochs=self.task.epochs,
        )

    def phases(self, epoch: int) -> Sequence[str]:
        """Warm up first."""
        return ("warmup",) if epoch < self.warmup_epochs else ("train",)

    def begin(self, phase: str, epoch: int) -> Phase:
        """Train the student on two weak views of all samples."""
        del epoch
        shadow, frozen = (("teacher",), ()) if self.teacher_mode == "train" else ((), ("teacher",))
        feeds = {"train": Feed(views=("weak", "weak"))}
        return Phase(name=phase, train=("net",), shadow=shadow, frozen=frozen, feeds=feeds)

    def step(self, phase: Phase, batch: Mapping[str, Batch], clock: Clock) -> Step:
        """Return the loss of the student."""
        del clock
        index, (x1, x2), y = batch["train"]
        z1, z2 = self.logits("net", x1).float(), self.logits("net", x2).float()
        given = smoothed_labels(y, self.task.num_classes, self.smoothing)
        p_clean = cleanness(F.softmax(z1, dim=1), given)
        self.clean.write(index, p_clean)
        clean = p_clean >= self.threshold
        logs = {"clean": clean.float().mean()}
        if phase.name == "warmup":
            return Step(safe_mean(_both(z1, z2, given), clean), logs)
        inside = ~clean & (z1.argmax(dim=1) == z2.argmax(dim=1))
        outside = ~clean & ~inside
        target = self._targets(x1, x2, given, inside, outside)
        sign = torch.where(outside, -1.0, 1.0)
        agreement = (sign * symmetric_kl(z1, z2, base=2)).mean()
        loss = (1 - self.alpha) * _both(z1, z2, target).mean() + self.alpha * agreement
        return Step(loss, logs | {"outside": outside.float().mean(), "agreement": agreement})

    def _targets(
        self, x1: Tensor, x2: Tensor, given: Tensor, inside: Tensor, outside: Tensor
    ) -> Tensor:
        """Return the given label, the teacher's or a flat one, by the kind of each sample."""
        answers = [self.logits("teacher", x, "teacher").float() for x in (x1, x2)]
        teacher = torch.stack([F.softmax(z, dim=1) for z in answers]).mean(dim=0)
        target = torch.where(inside[:, None], teacher, given)
        return torch.where(outside[:, None], flattened(teacher, self.flatness), target)

    def after_step(self, phase: Phase, clock: Clock) -> None:
        """Let the teacher follow."""
        del phase, clock
        follow(self.nets["teacher"], self.nets["net"], self.momentum)

    def end_epoch(self, epoch: int) -> Mapping[str, float]:
        """Report the threshold."""
        del epoch
        return {"threshold": self.threshold}

    def trust(self) -> Tensor | None:
        """Return the trust in each label by its cleanness when it was last seen."""
        return trust_from_cleanness(self.clean.values)


def _both(z1: Tensor, z2: Tensor, target: Tensor) -> Tensor:
    """Return the cross entropy of both views, ``(B,)``."""
    first = F.cross_entropy(z1, target, reduction="none")
    return first + F.cross_entropy(z2, target, reduction="none")
