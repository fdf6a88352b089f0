"""Co-teaching: each network learns from the samples that the other one finds easy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from torch.nn import functional as F

from edgemask.methods.base import Clock, Phase, StepResult
from edgemask.methods.options import options
from edgemask.methods.parts.losses import safe_mean
from edgemask.methods.parts.selection import small_loss
from edgemask.methods.small_loss import SmallLoss

if TYPE_CHECKING:
    from edgemask.data import Batch

__all__ = ["CoTeaching"]


@options
class CoTeaching(SmallLoss):
    """Train two networks, each on the samples of small loss that the other one picks.

    In every batch network 1 finds the share ``1 - R(e)`` of samples with its smallest cross
    entropy and hands it to network 2, and the other way round; R rises to the noise rate. Errors
    of one network are thus not fed back to itself. Reported is the mean of both networks' logits.

    Args:
        forget_rate: The last drop rate; None takes the share of wrong labels.
        noise_rate: Which rate that share is where EdgeMask made the noise: ``realised``, the share
            of labels that are wrong, as the paper means it, or ``nominal``, the rate that the
            noise was made with, which the released code passes on.
        gradual: Epochs over which the drop rate rises.
        exponent: Shape of the rise.
        schedule: Form of the rise: ``paper``, ``rate min(e^exponent / gradual, 1)``, or
            ``released``, even steps to ``rate^exponent``, the first one already in epoch 0.
        views: The augmentation of the one view: ``none`` as published, ``weak`` or ``strong``.

    Reference:
        Han et al., Co-teaching: Robust Training of Deep Neural Networks with Extremely Noisy
        Labels, NeurIPS 2018.
    """

    def step(self, phase: Phase, batch: Mapping[str, Batch], clock: Clock) -> StepResult:
        """Return the sum of both networks' losses, each on the other's choice."""
        index, (x,), y = batch["train"]
        loss_1 = F.cross_entropy(self.logits("first", x), y, reduction="none")
        loss_2 = F.cross_entropy(self.logits("second", x), y, reduction="none")
        loss_1, loss_2, index = map(self.task.joint.rows, (loss_1, loss_2, index))
        easy_1 = small_loss(loss_1, self.drop)
        easy_2 = small_loss(loss_2, self.drop)
        self.vote(index, easy_1)
        self.vote(index, easy_2)
        loss = safe_mean(loss_1, easy_2) + safe_mean(loss_2, easy_1)
        return StepResult(loss, {"selected": len(easy_1) / len(loss_1)})
