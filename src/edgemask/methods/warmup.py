"""Methods that begin with epochs of plain training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

import torch.nn.functional as F
from torch import Tensor, nn

from edgemask._options import Range
from edgemask.methods.base import Method, Task
from edgemask.methods.options import options
from edgemask.methods.parts.losses import negative_entropy
from edgemask.methods.parts.schedules import is_asymmetric, warmup_epochs

__all__ = ["WarmupMethod", "warmup_loss"]


def warmup_loss(
    logits: Tensor,
    labels: Tensor,
    noise_kind: str | None,
    *,
    penalty: bool | None = None,
    rectified: bool = False,
) -> Tensor:
    """Return cross entropy on the given labels, with a penalty on sure predictions where asked for.

    Args:
        logits: ``(B, C)``.
        labels: The given labels, ``(B,)``.
        noise_kind: The kind of noise, where it is known.
        penalty: Whether to add :func:`negative_entropy`; None: where the noise is asymmetric.
        rectified: Its option.
    """
    loss = F.cross_entropy(logits, labels)
    if is_asymmetric(noise_kind) if penalty is None else penalty:
        loss = loss + negative_entropy(logits, rectified=rectified).mean()
    return loss


@options
class WarmupMethod(Method):
    """An epoch is the phase ``warmup`` at first, and ``train`` afterwards.

    Args:
        warmup: Epochs of warm-up; None takes the published share of the run.
    """

    published_warmup: ClassVar[tuple[int, int]]
    """Epochs of warm-up and of the whole run, as published."""

    warmup: Annotated[int, Range(0)] | None = None

    def setup(self, task: Task, nets: dict[str, nn.Module]) -> None:
        """Settle the length of the warm-up."""
        super().setup(task, nets)
        name = type(self).__name__
        self.warmup_epochs = warmup_epochs(name, self.warmup, task.epochs, self.published_warmup)

    def warms_up(self, epoch: int) -> bool:
        """Return whether an epoch belongs to the warm-up."""
        return epoch < self.warmup_epochs

    def phases(self, epoch: int) -> Sequence[str]:
        """Warm up first."""
        return ("warmup",) if self.warms_up(epoch) else ("train",)
