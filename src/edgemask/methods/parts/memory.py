"""What a method remembers: tables by sample and by class, a queue of rows, momentum copies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

__all__ = [
    "ClassTable",
    "Memory",
    "RingQueue",
    "SampleTable",
    "class_means",
    "joined_rows",
    "update_ema",
]


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
        shape: Shape of one row; none for one number per sample.
        fill: The first value of every entry.
        dtype: Type of the entries.
        device: Device of the table.

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
        """Set the rows of these samples (no gradient is kept).

        Of an index that comes several times, one of its rows is stored.
        """
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
        return {"values": self.values}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take a table of the same shape, as one that all processes agree on."""
        if state["values"].shape != self.values.shape:
            raise ValueError(
                f"the stored table has shape {tuple(state['values'].shape)}, "
                f"this run needs {tuple(self.values.shape)}"
            )
        self.values = state["values"].to(self.values)
        self._written.zero_()


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


def class_means(values: Tensor, labels: Tensor, num_classes: int) -> Tensor:
    """Return the mean of a value over the samples of each label; NaN where there is none.

    Samples whose value is NaN (not seen yet) do not count.

    Args:
        values: One value per sample, ``(N,)``.
        labels: ``(N,)``.
        num_classes: Number of classes.

    Example:
        >>> class_means(torch.tensor([1.0, 3.0, 5.0]), torch.tensor([0, 0, 1]), 3).tolist()
        [2.0, 5.0, nan]
    """
    seen = ~values.isnan()
    labels, values = labels[seen], values[seen].float()
    total = values.new_zeros(num_classes).index_add_(0, labels, values)
    count = values.new_zeros(num_classes).index_add_(0, labels, torch.ones_like(values))
    return total / count


class ClassTable:
    """A number for each class; a :class:`~edgemask.methods.parts.Memory`.

    It is changed at the end of an epoch from what all processes agree on, so it needs no joining.

    Args:
        num_classes: Number of classes.
        fill: The first value.
        device: Its device.

    Example:
        >>> table = ClassTable(3)
        >>> table.raise_to(torch.tensor([0.5, -1.0, torch.nan]))
        >>> table.values.tolist()
        [0.5, 0.0, 0.0]
    """

    def __init__(self, num_classes: int, *, fill: float = 0.0, device: torch.device | str = "cpu"):
        self.values = torch.full((num_classes,), fill, device=device)

    def __getitem__(self, labels: Tensor) -> Tensor:
        """Return the values of these classes."""
        return self.values[labels]

    def raise_to(self, candidates: Tensor) -> None:
        """Take each candidate that is above the value: values never fall. NaN changes nothing."""
        self.values = torch.fmax(self.values, candidates.to(self.values))

    def sync(self, total: Callable[[Tensor], Tensor]) -> None:
        """Nothing to do: all processes compute the same values."""

    def state_dict(self) -> dict[str, Any]:
        """Return the values."""
        return {"values": self.values}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take back what :meth:`state_dict` gave."""
        self.values = state["values"].to(self.values)


class RingQueue:
    """The last ``size`` rows of several tensors that belong together; a :class:`Memory`.

    It starts empty: nothing is found in it that was not put there. With several processes the
    caller joins the rows of all before it pushes them, so that all hold the same queue.

    Args:
        size: Rows that it holds at most.
        fields: The tensors, each by a row whose shape and type the others have.
        device: Its device.

    Example:
        >>> queue = RingQueue(3, {"key": torch.empty(1)})
        >>> queue.push(key=torch.tensor([[1.0], [2.0]]))
        >>> queue.push(key=torch.tensor([[3.0], [4.0]]))
        >>> len(queue), queue["key"].flatten().tolist()
        (3, [4.0, 2.0, 3.0])
    """

    def __init__(
        self,
        size: int,
        fields: Mapping[str, Tensor],
        *,
        device: torch.device | str = "cpu",
    ):
        if size < 1:
            raise ValueError(f"a queue needs a size of at least one row, got size={size}")
        self.size = size
        self._rows = {
            name: torch.zeros(size, *row.shape, dtype=row.dtype, device=device)
            for name, row in fields.items()
        }
        self._next = 0
        self._filled = 0

    def __len__(self) -> int:
        return self._filled

    def __getitem__(self, name: str) -> Tensor:
        """Return the rows that are there, in no order of time."""
        return self._rows[name][: self._filled]

    def push(self, **rows: Tensor) -> None:
        """Add rows (one tensor for each field, equally long) in place of the oldest."""
        if set(rows) != set(self._rows):
            raise ValueError(f"the queue holds {sorted(self._rows)}, got {sorted(rows)}")
        count = len(next(iter(rows.values())))
        kept = min(count, self.size)
        first = next(iter(self._rows.values()))
        place = (self._next + count - kept + torch.arange(kept, device=first.device)) % self.size
        for name, values in rows.items():
            self._rows[name][place] = values.detach()[count - kept :].to(self._rows[name])
        self._next = (self._next + count) % self.size
        self._filled = min(self._filled + count, self.size)

    def sync(self, total: Callable[[Tensor], Tensor]) -> None:
        """Nothing to do: all processes push the same rows."""

    def state_dict(self) -> dict[str, Any]:
        """Return the rows and the place of the next one."""
        return {"rows": dict(self._rows), "next": self._next, "filled": self._filled}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take back what :meth:`state_dict` gave."""
        for name, rows in self._rows.items():
            if state["rows"][name].shape != rows.shape:
                raise ValueError(
                    f"the stored queue has {name!r} of shape {tuple(state['rows'][name].shape)}, "
                    f"this run needs {tuple(rows.shape)}"
                )
            rows.copy_(state["rows"][name])
        self._next, self._filled = state["next"], state["filled"]


@torch.no_grad()
def update_ema(
    average: nn.Module, source: nn.Module, momentum: float, *, buffers: bool = True
) -> None:
    """Move a copy a little towards its source: ``w <- m w + (1 - m) w_source``.

    Buffers (running statistics, scores of a head) are copied, so that the average can be used in
    ``eval()`` mode; the released codes of Jo-SRC and Jo-SNC leave them as they were at the start.

    Args:
        average: The copy, with parts of the same names.
        source: The network that learns.
        momentum: The share m that stays.
        buffers: Whether to copy the buffers; without, they are those of the copy's own passes
            (ELR+).

    Example:
        >>> slow, fast = nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False)
        >>> _ = nn.init.zeros_(slow.weight), nn.init.ones_(fast.weight)
        >>> update_ema(slow, fast, 0.75)
        >>> slow.weight.item()
        0.25
    """
    theirs = dict(source.named_parameters())
    for name, weight in average.named_parameters():
        weight.lerp_(theirs[name].to(weight.dtype), 1.0 - momentum)
    if not buffers:
        return
    statistics = dict(source.named_buffers())
    for name, buffer in average.named_buffers():
        buffer.copy_(statistics[name])
