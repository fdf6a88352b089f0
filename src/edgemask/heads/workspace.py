"""Memory that is used again from step to step.

A fresh matrix costs more in page faults than what is computed into it. But a mask must outlive its
step for as long as a graph or a person holds it: it is handed out as an alias of the memory, and
the memory is free when the alias is gone.
"""

from __future__ import annotations

import weakref

import torch
from torch import Tensor

__all__ = ["Workspace", "in_eager_mode_on_cpu"]


def in_eager_mode_on_cpu(tensor: Tensor) -> bool:
    """Whether memory may be used again by hand: nothing else plans it."""
    return tensor.device.type == "cpu" and not torch.compiler.is_compiling()


class Workspace:
    """One tensor's worth of memory, lent to one user at a time."""

    def __init__(self) -> None:
        self._memory: Tensor | None = None
        self._lent: weakref.ref[Tensor] | None = None

    def take(self, like: Tensor) -> Tensor:
        """Return an uninitialised tensor of the shape, type and device of ``like``."""
        memory = self._memory
        if (
            memory is None
            or memory.shape != like.shape
            or memory.dtype != like.dtype
            or memory.device != like.device
            or (self._lent is not None and self._lent() is not None)
        ):
            memory = torch.empty(like.shape, dtype=like.dtype, device=like.device)
            self._memory = memory
        alias = memory.detach()
        self._lent = weakref.ref(alias)
        return alias

    def __deepcopy__(self, memo: dict[int, object]) -> Workspace:
        return Workspace()

    def __reduce__(self) -> tuple[type[Workspace], tuple[()]]:
        return Workspace, ()
