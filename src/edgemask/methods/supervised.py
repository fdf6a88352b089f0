"""Plain training: one network, any loss, any head."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch.nn.functional as F
from torch import Tensor

from edgemask.errors import UserError
from edgemask.methods.base import Clock, Feed, Method, Phase, Step
from edgemask.methods.parts.mixing import draw_pairs, draw_share, mix

if TYPE_CHECKING:
    from edgemask.data import Batch

__all__ = ["Supervised"]


class Supervised(Method):
    """Minimise the chosen loss on the given labels, as in every textbook.

    Three regularisers that the noisy-label literature compares with are options:

    - mix-up: ``x = lam x_a + (1 - lam) x_b`` with one ``lam ~ Beta(mixup, mixup)`` a batch and a
      random pairing, loss ``lam L(y_a) + (1 - lam) L(y_b)``;
    - label smoothing: target ``(1 - r) onehot(y) + r / C``; a negative r is allowed;
    - SAM: the gradient is taken at ``w + rho g / ||g||``; both passes share one mask.

    Args:
        views: The augmentation of the one view: ``weak``, ``strong`` or ``none``.
        mixup: Parameter of the Beta distribution; 0 switches mix-up off.
        label_smoothing: The rate r; 0 gives hard labels to the loss.
        sam: The radius rho; 0 switches it off.

    Reference:
        Zhang et al., mixup: Beyond Empirical Risk Minimization, ICLR 2018.
        Foret et al., Sharpness-Aware Minimization, ICLR 2021.
    """

    def __init__(
        self,
        *,
        views: str = "weak",
        mixup: float = 0.0,
        label_smoothing: float = 0.0,
        sam: float = 0.0,
    ):
        if mixup < 0:
            raise UserError(f"supervised: mixup must be 0 or above, got {mixup}")
        if not label_smoothing < 1:
            raise UserError(f"supervised: label_smoothing must be below 1, got {label_smoothing}")
        if sam < 0:
            raise UserError(f"supervised: sam must be 0 or above, got {sam}")
        self.views = views
        self.mixup = mixup
        self.label_smoothing = label_smoothing
        self.sam = sam

    def begin(self, phase: str, epoch: int) -> Phase:
        """Train on all samples with one view."""
        del epoch
        feeds = {"train": Feed(views=(self.views,))}
        return Phase(name=phase, train=("net",), feeds=feeds, ascent=self.sam)

    def step(self, phase: Phase, batch: Mapping[str, Batch], clock: Clock) -> Step:
        """Return the loss of the batch."""
        del phase, clock
        index, (x,), target = batch["train"]
        if not self.mixup:
            return Step(self._loss(self.logits("net", x), target, index))
        generator = self.task.generator
        share = draw_share(self.mixup, generator)
        pairs = draw_pairs(len(target), generator, target.device)
        logits = self.logits("net", mix(x, x[pairs], share))
        here = self._loss(logits, target, index)
        there = self._loss(logits, target[pairs], index[pairs])
        return Step(share * here + (1 - share) * there)

    def _loss(self, logits: Tensor, target: Tensor, index: Tensor) -> Tensor:
        if self.label_smoothing:
            hard = F.one_hot(target, self.task.num_classes).to(logits.dtype)
            rate = self.label_smoothing
            target = (1 - rate) * hard + rate / self.task.num_classes
        loss: Tensor = self.task.criterion(logits, target, index)
        return loss
