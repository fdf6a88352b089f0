"""What a method remembers of each sample."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

__all__ = ["Memory", "SampleTable", "joined_rows"]


@runtime_checkable
class Memory(Protocol):
    """Anything that a method remembers between steps and that a checkpoint must hold."""

    def state_dict(self) -> dict[str, Any]:
        """Return tensors and plain values that say everything."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take back what :meth:`state_dict` gave."""

    def sync(self, total: Callable[[Tensor], Tensor]) -> None:
        """Make all processes agree; ``total`` sums a tensor over them."""


class SampleTable:
    """A tensor by sample index: row i belongs to training sample i.

    Rows are written by index, never by position in an epoch. With several processes each one
    writes the rows of its own samples; :meth:`sync` then gives every process the rows of all.

    Args:
        num_samples: Rows.
        shape: Shape of one row; none for a number a sample.
        fill: The first value of every entry.
        dtype: Type of the entries.
        device: Where the table lives.

    Example:
        >>> table = SampleTable(4, 2)
        >>> table.write(torch.tensor([3, 1]), torch.ones(2, 2))
        >>> table.values[:, 0].tolist(), table[torch.tensor([1])].tolist()
        ([0.0, 1.0, 0.0, 1.0], [[1.0, 1.0]])
    """

    def __init__(
        self,
        num_samples: int,
        *shape: int,
        fill: float = 0.0,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ):
        self.values = torch.full((num_samples, *shape), fill, dtype=dtype, device=device)
        self._written = torch.zeros(num_samples, dtype=torch.bool, device=device)

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, index: Tensor) -> Tensor:
        """Return the rows of these samples."""
        return self.values[index.to(self.values.device)]

    def write(self, index: Tensor, rows: Tensor) -> None:
        """Set the rows of these samples (no gradient is kept)."""
        index = index.to(self.values.device)
        self.values[index] = rows.detach().to(self.values)
        self._written[index] = True

    def add(self, index: Tensor, rows: Tensor) -> None:
        """Add to the rows of these samples; an index that comes twice counts twice."""
        index = index.to(self.values.device)
        self.values.index_add_(0, index, rows.detach().to(self.values))
        self._written[index] = True

    def sync(self, total: Callable[[Tensor], Tensor]) -> None:
        """Give every process the rows that any process wrote since the last call.

        A row that several processes wrote becomes their mean.
        """
        self.values = joined_rows(self.values, self._written, total)
        self._written.zero_()

    def state_dict(self) -> dict[str, Any]:
        """Return the table."""
        return {"values": self.values, "written": self._written}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take a table of the same shape."""
        if state["values"].shape != self.values.shape:
            raise ValueError(
                f"the stored table has shape {tuple(state['values'].shape)}, "
                f"this run needs {tuple(self.values.shape)}"
            )
        self.values = state["values"].to(self.values)
        self._written = state["written"].to(self._written)


def joined_rows(values: Tensor, written: Tensor, total: Callable[[Tensor], Tensor]) -> Tensor:
    """Return the table in which each row comes from the process that wrote it.

    Args:
        values: This process's table, ``(N, ...)``.
        written: Which rows this process wrote, ``(N,)`` bool. A row that several wrote becomes
            their mean; one that nobody wrote stays.
        total: Sums a tensor over all processes.
    """
    mine = written.view(-1, *[1] * (values.ndim - 1))
    writers = total(mine.to(torch.int64))
    floating = values.is_floating_point()
    rows = total(torch.where(mine, values, 0).to(torch.float64 if floating else torch.int64))
    count = writers.clamp(min=1)
    mean = rows / count if floating else rows // count
    return torch.where(writers > 0, mean.to(values.dtype), values)
