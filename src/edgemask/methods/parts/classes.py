"""What a method remembers of each class."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

__all__ = ["ClassTable", "class_means"]


def class_means(values: Tensor, labels: Tensor, num_classes: int) -> Tensor:
    """Return the mean of a value over the samples of each label; NaN where there is none.

    Samples whose value is NaN (not seen yet) do not count.

    Args:
        values: One value a sample, ``(N,)``.
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
        device: Where it lives.

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
