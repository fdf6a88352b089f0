"""Jo-SRC: clean, wrongly labelled or of no class, judged by two views and a momentum teacher."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from edgemask.methods.base import Clock, Feed, Phase, Role, StepResult
from edgemask.methods.consistency import ConsistencyMethod
from edgemask.methods.options import Positive, Share, options
from edgemask.methods.parts.losses import full_precision, symmetric_kl
from edgemask.methods.parts.pseudo_labels import co_guess, flattened
from edgemask.methods.parts.schedules import threshold

if TYPE_CHECKING:
    from edgemask.data import Batch

__all__ = ["JoSRC"]


@options
class JoSRC(ConsistencyMethod):
    """Sort each batch into clean, in-class noise and out-of-class noise; a teacher labels the rest.

    With q the given label smoothed by ``smoothing`` and two weak views of a sample,
    ``P_clean = 1 - JS_2(p(x1), q)``. A sample is clean if ``P_clean >= tau(e)``, where tau rises
    from 0 to ``tau`` in the warm-up and on to ``tau_end``; of the others, those whose two views
    get the same predicted class are in-class noise.

    - Warm-up: ``mean over clean of CE(p(x1), q) + CE(p(x2), q)``.
    - Then ``(1 - alpha) mean(CE(p(x1), t) + CE(p(x2), t)) + alpha mean(s KL_2)``: the target t is q
      for clean samples, the teacher's mean prediction for in-class noise and that mean, flattened,
      for the rest; the symmetric KL between the views has the sign s, -1 for out-of-class noise.

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

    tau: Share = 0.75
    tau_end: Share = 0.95
    alpha: Share = 0.5
    flatness: Positive = 10.0
    teacher_mode: Literal["train", "eval"] = "train"

    threshold = 0.0
    """The threshold of the running epoch."""

    def start_epoch(self, epoch: int) -> None:
        """Set the threshold."""
        self.threshold = threshold(
            epoch,
            start=self.tau,
            end=self.tau_end,
            warmup=self.warmup_epochs,
            epochs=self.task.epochs,
        )

    def begin(self, phase: str, epoch: int) -> Phase:
        """Train the student on two weak views of all samples."""
        shadow, frozen = (("teacher",), ()) if self.teacher_mode == "train" else ((), ("teacher",))
        feeds = {"train": Feed(views=("weak", "weak"))}
        return Phase(name=phase, train=("net",), shadow=shadow, frozen=frozen, feeds=feeds)

    def step(self, phase: Phase, batch: Mapping[str, Batch], clock: Clock) -> StepResult:
        """Return the loss of the student."""
        index, (x1, x2), y = batch["train"]
        z1, z2 = (full_precision(self.logits("net", x)) for x in (x1, x2))
        given, p_clean = self.judge(index, z1, y)
        clean = p_clean >= self.threshold
        logs = {"clean": clean.float().mean()}
        if phase.name == "warmup":
            return StepResult(self.task.joint.mean(_both(z1, z2, given), clean), logs)
        inside = ~clean & (z1.argmax(dim=1) == z2.argmax(dim=1))
        outside = ~clean & ~inside
        target = self._targets(x1, x2, given, inside, outside)
        sign = torch.where(outside, -1.0, 1.0)
        agreement = (sign * symmetric_kl(z1, z2, base=2)).mean()
        loss = (1 - self.alpha) * _both(z1, z2, target).mean() + self.alpha * agreement
        return StepResult(loss, logs | {"outside": outside.float().mean(), "agreement": agreement})

    def _targets(
        self, x1: Tensor, x2: Tensor, given: Tensor, inside: Tensor, outside: Tensor
    ) -> Tensor:
        """Return the given label, the teacher's or a flat one, by the kind of each sample."""
        logits = [full_precision(self.logits("teacher", x, "teacher")) for x in (x1, x2)]
        teacher = co_guess(logits)
        target = torch.where(inside[:, None], teacher, given)
        return torch.where(outside[:, None], flattened(teacher, self.flatness), target)

    def end_epoch(self, epoch: int) -> Mapping[str, float]:
        """Report the threshold."""
        return {"threshold": self.threshold}


def _both(z1: Tensor, z2: Tensor, target: Tensor) -> Tensor:
    """Return the cross entropy of both views, ``(B,)``."""
    first = F.cross_entropy(z1, target, reduction="none")
    return first + F.cross_entropy(z2, target, reduction="none")
