"""A ring of the rows seen last, for methods that compare a batch with many other samples."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

__all__ = ["RingQueue"]


class RingQueue:
    """The last ``size`` rows of several tensors that belong together; a :class:`Memory`.

    It starts empty: nothing is found in it that was not put there. With several processes the
    caller joins the rows of all before it pushes them, so that all hold the same queue.

    Args:
        size: Rows that it holds at most.
        fields: The tensors, each by a row whose shape and type the others have.
        device: Where it lives.

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
            raise ValueError(f"a queue needs room for at least one row, got size={size}")
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
