"""The batches of all processes as one, for losses that are not a mean over samples."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from edgemask.methods.parts.losses import safe_mean

__all__ = ["Joint"]


def _unchanged(values: Tensor) -> Tensor:
    return values


class Joint:
    """What the processes of a run have in a step, so that several do what one does on all of it.

    The loop weights the loss of each process by its samples, so that a mean over samples needs
    nothing of this. A selection within the batch, a mean over a selection and a function of the
    mean prediction do. All processes must make the same calls in the same order. A process that is
    alone gets back what it gives.

    Args:
        gather: Joins the rows of all processes, in rank order; those of this process keep their
            gradient.
        total: Sums a tensor over all processes.
        count: Number of processes.
        rank: Which of them this is.
    """

    def __init__(
        self,
        gather: Callable[[Tensor], Tensor] = _unchanged,
        total: Callable[[Tensor], Tensor] = _unchanged,
        count: int = 1,
        rank: int = 0,
    ):
        self.count, self.rank = count, rank
        self.total = total
        self._gather = gather
        # Samples of the running step over those of this process; the loop sets it.
        self.scale = 1.0

    def rows(self, values: Tensor) -> Tensor:
        """Return the rows of all processes.

        A loss of them is the same in all processes, and its gradients add up to that of the joint
        batch.
        """
        if self.count == 1:
            return values
        return self._gather(self._scaled(values, values.detach()))

    def own(self, joined: Tensor, size: int) -> Tensor:
        """Return this process's part of rows that :meth:`rows` joined, by its number of rows."""
        if self.count == 1:
            return joined
        sizes: list[int] = self._gather(torch.tensor([size])).tolist()
        start = sum(sizes[: self.rank])
        return joined[start : start + size]

    def mean(self, values: Tensor, rows: Tensor | None = None) -> Tensor:
        """Return the mean of one value per sample over all processes, 0 over none.

        Args:
            values: ``(B,)``; B may differ between processes, and be 0.
            rows: Mask of the samples that count, ``(B,)``; None means all.
        """
        if self.count == 1:
            return safe_mean(values, rows)
        kept = values if rows is None else torch.where(rows, values, 0.0)
        # In one precision, whatever a process that has no rows of its own would take.
        dtype = torch.float32 if values.device.type == "mps" else torch.float64
        count = values.new_full((), len(values)) if rows is None else rows.sum()
        packed = torch.stack([kept.detach().sum().to(dtype), count.to(dtype)])
        total, size = self.total(packed).to(values.dtype).unbind()
        return self._scaled(kept.sum(), total) / size.clamp(min=1)

    def _scaled(self, values: Tensor, result: Tensor) -> Tensor:
        """Return ``result`` with the gradient of ``values``, which the loop will weight."""
        if not values.requires_grad:
            return result
        return result + self.scale * (values - values.detach())
