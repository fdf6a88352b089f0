"""When a loss estimates the transition matrix of the labels."""

from __future__ import annotations

import torch
from torch import Tensor

from edgemask.data import Batch
from edgemask.errors import UserError
from edgemask.losses import TransitionLoss
from edgemask.methods import Method

__all__ = ["TransitionEstimate"]


class TransitionEstimate:
    """Lets a loss estimate the transition matrix of the labels, once its warm-up is over.

    Args:
        method: The method, set up.
        epochs: Epochs of the run.
    """

    def __init__(self, method: Method, epochs: int):
        self._method = method
        self._losses = [
            loss
            for loss in method.task.criterion.modules()
            if method.uses_criterion and isinstance(loss, TransitionLoss) and loss.matrix is None
        ]
        self._warmups = [loss.warmup or max(1, round(epochs / 5)) for loss in self._losses]
        for warmup in self._warmups:
            if warmup >= epochs:
                raise UserError(
                    f"loss.options.warmup={warmup}: the transition matrix is estimated after the "
                    f"warm-up, and the run has {epochs} epochs; give fewer, or loss.options.matrix"
                )

    def estimate(self, epoch: int) -> None:
        """Estimate the matrix of each loss whose warm-up ends before this epoch."""
        for loss, warmup in zip(self._losses, self._warmups, strict=True):
            if epoch == warmup:
                loss.estimate(self._method.task.score(self._predict)["probabilities"])

    def _predict(self, batch: Batch) -> dict[str, Tensor]:
        logits = self._method.predict_logits(batch.views[0])
        mean = torch.stack([values.float() for values in logits.values()]).mean(0)
        return {"probabilities": mean.softmax(dim=1)}
