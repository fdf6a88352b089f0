"""JoCoR: two networks learn to agree, on the samples where they already do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from torch.nn import functional as F

from edgemask.methods.base import Clock, Phase, StepResult
from edgemask.methods.options import Share, options
from edgemask.methods.parts.losses import safe_mean, symmetric_kl
from edgemask.methods.parts.selection import small_loss
from edgemask.methods.small_loss import SmallLoss

if TYPE_CHECKING:
    from edgemask.data import Batch

__all__ = ["JoCoR"]


@options
class JoCoR(SmallLoss):
    """Train two networks together on the samples of small joint loss, and pull them together.

    The joint loss of a sample is ``(1 - lam) (CE(p1, y) + CE(p2, y)) + lam (KL(p1 || p2) +
    KL(p2 || p1))``; the share ``1 - R(e)`` of a batch with the smallest one is learnt from, by one
    optimiser for both networks. Reported is the mean of both networks' logits.

    Args:
        co_lambda: The weight lam of agreement. The author's best: 0.9 on CIFAR-10 (0.65 with 80 %
            noise), 0.85 on CIFAR-100; the released code has 0.1 by default.
        forget_rate: The last drop rate; None takes the share of wrong labels. It is half the
            nominal rate where half of the classes keep their labels (asymmetric noise on CIFAR-10
            and MNIST), as in the paper.
        noise_rate: Which rate that share is where EdgeMask made the noise: ``realised``, the share
            of labels that are wrong, as the paper means it, or ``nominal``, the rate that the
            noise was made with.
        gradual: Epochs over which the drop rate rises.
        exponent: Shape of the rise.
        schedule: Form of the rise: ``paper``, ``rate min(e^exponent / gradual, 1)``, or
            ``released``, even steps to ``rate^exponent``, the first one already in epoch 0.
        views: The augmentation of the one view: ``none`` as published, ``weak`` or ``strong``.

    Reference:
        Wei et al., Combating Noisy Labels by Agreement: A Joint Training Method with
        Co-Regularization, CVPR 2020.
    """

    co_lambda: Share = 0.9

    def optimisers(self) -> Mapping[str, tuple[str, ...]]:
        """Return the one optimiser of both networks."""
        return {"both": self.networks}

    def step(self, phase: Phase, batch: Mapping[str, Batch], clock: Clock) -> StepResult:
        """Return the mean joint loss of the chosen samples."""
        index, (x,), y = batch["train"]
        z1, z2 = self.logits("first", x), self.logits("second", x)
        supervised = F.cross_entropy(z1, y, reduction="none") + F.cross_entropy(
            z2, y, reduction="none"
        )
        joint = (1 - self.co_lambda) * supervised + self.co_lambda * symmetric_kl(z1, z2)
        joint, index = self.task.joint.rows(joint), self.task.joint.rows(index)
        easy = small_loss(joint, self.drop)
        self.vote(index, easy)
        return StepResult(safe_mean(joint, easy), {"selected": len(easy) / len(joint)})
