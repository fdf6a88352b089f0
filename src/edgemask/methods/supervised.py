"""Plain training: one network, any loss, any head."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import torch.nn.functional as F
from torch import Tensor

from edgemask._options import Range
from edgemask.heads import observe
from edgemask.methods.base import Clock, Feed, Method, Phase, StepResult
from edgemask.methods.options import Augmentation, NonNegative, options
from edgemask.methods.parts.mixing import draw_pairs, draw_share, mix

if TYPE_CHECKING:
    from edgemask.data import Batch

__all__ = ["Supervised"]


@options
class Supervised(Method):
    """Minimise the chosen loss on the given labels.

    Three regularisers that the noisy-label literature compares with are options:

    - mix-up: ``x = lam x_a + (1 - lam) x_b`` with one ``lam ~ Beta(mixup, mixup)`` per batch and
      a random pairing, loss ``lam L(y_a) + (1 - lam) L(y_b)``;
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

    views: Augmentation = "weak"
    mixup: NonNegative = 0.0
    label_smoothing: Annotated[float, Range(below=1)] = 0.0
    sam: NonNegative = 0.0

    def begin(self, phase: str, epoch: int) -> Phase:
        """Train on all samples with one view."""
        feeds = {"train": Feed(views=(self.views,))}
        return Phase(name=phase, train=("net",), feeds=feeds, sam_radius=self.sam)

    def step(self, phase: Phase, batch: Mapping[str, Batch], clock: Clock) -> StepResult:
        """Return the loss of the batch."""
        index, (x,), target = batch["train"]
        if not self.mixup:
            if not self.sam:  # whose second pass would count as another round
                observe(self.nets["net"], index, target)
            return StepResult(self._loss(self.logits("net", x), target, index))
        generator = self.task.generator
        share = draw_share(self.mixup, generator)
        pairs = draw_pairs(len(target), generator, target.device)
        logits = self.logits("net", mix(x, x[pairs], share))
        here = self._loss(logits, target, index)
        there = self._loss(logits, target[pairs], index[pairs])
        return StepResult(share * here + (1 - share) * there)

    def _loss(self, logits: Tensor, target: Tensor, index: Tensor) -> Tensor:
        if self.label_smoothing:
            hard = F.one_hot(target, self.task.num_classes).to(logits.dtype)
            rate = self.label_smoothing
            target = (1 - rate) * hard + rate / self.task.num_classes
        loss: Tensor = self.task.criterion(logits, target, index)
        return loss
