"""The base class of all losses."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, ClassVar, Literal

from torch import Tensor, nn

from edgemask.losses._common import require

if TYPE_CHECKING:
    from edgemask.losses.presets import Preset

__all__ = ["Loss", "Reduction"]

Reduction = Literal["mean", "none"]


class Loss(nn.Module):
    """A loss of logits and targets.

    A subclass fills in ``_per_sample``: logits (B, C) and targets in, one value a sample out. One
    with a memory overrides :meth:`forward` instead, and ends it with ``_reduce``.

    Args:
        scale: Factor of the whole loss.
        reduction: ``"mean"`` over the batch or ``"none"`` for one value a sample. The mean of an
            empty batch is zero.

    Attributes:
        equation: The loss of one sample, in plain text (p = softmax of the logits, y the label,
            t the target distribution, K classes, sg[] without gradient).
        reference: Where the loss comes from.
        symmetric: Whether the losses of all labels sum to the same number for every prediction.
        bounded: Whether the loss has an upper bound.
        needs_index: Whether the loss remembers samples and has to be given ``index``.
        settings: The published settings, where the loss was made by ``preset``.
    """

    equation: ClassVar[str] = ""
    reference: ClassVar[str] = ""
    symmetric: ClassVar[bool] = False
    bounded: ClassVar[bool] = False
    needs_index: bool = False
    settings: Preset | None = None

    def __init__(self, *, scale: float = 1.0, reduction: Reduction = "mean"):
        super().__init__()
        require(reduction in ("mean", "none"), "reduction", reduction, "'mean' or 'none'")
        self.scale = scale
        self.reduction = reduction

    def _per_sample(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return the loss of every sample, unscaled."""
        raise NotImplementedError

    def forward(
        self,
        logits: Tensor,
        target: Tensor,
        index: Tensor | None = None,
    ) -> Tensor:
        """Compute the loss of a batch.

        Args:
            logits: Scores, (B, C); half precision is computed in float32.
            target: Labels (B,), or label distributions (B, C).
            index: Positions of the samples in the training set, (B,); only losses with a memory
                look at it.

        Returns:
            A scalar, or (B,) with ``reduction="none"``.
        """
        return self._reduce(self._per_sample(logits, target))

    def _reduce(self, values: Tensor) -> Tensor:
        """Scale and reduce the losses of a batch's samples."""
        if self.scale != 1.0:
            values = self.scale * values
        if self.reduction == "none":
            return values
        return values.mean() if values.numel() else values.sum()

    def extra_repr(self) -> str:
        """Show the constructor's arguments."""
        names = list(inspect.signature(type(self).__init__).parameters)[1:]
        shown = [name for name in names if hasattr(self, name)]
        return ", ".join(f"{name}={getattr(self, name)!r}" for name in shown)
