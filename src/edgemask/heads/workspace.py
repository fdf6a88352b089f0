"""Memory that is used again from step to step.

A fresh matrix costs more in page faults than what is computed into it. What is needed within a
step only (:class:`Scratch`) is simply overwritten by the next one. A mask must outlive its step for
as long as a graph or a person holds it: it is handed out as an alias of the memory, and the memory
is free when the alias is gone (:class:`Workspace`).
"""

from __future__ import annotations

import weakref

import torch
from torch import Tensor

__all__ = ["Scratch", "Workspace", "in_eager_mode_on_cpu"]


def in_eager_mode_on_cpu(tensor: Tensor) -> bool:
    """Whether memory may be used again by hand: nothing else plans it."""
    return tensor.device.type == "cpu" and not torch.compiler.is_compiling()


class Scratch:
    """Memory for what does not outlive a step, by name."""

    def __init__(self) -> None:
        self._memory: dict[str, Tensor] = {}

    def take(self, name: str, count: int, dtype: torch.dtype) -> Tensor:
        """Return ``count`` uninitialised numbers on the CPU; the same ones for the same name."""
        memory = self._memory.get(name)
        if memory is None or len(memory) < count or memory.dtype != dtype:
            memory = self._memory[name] = torch.empty(count, dtype=dtype)
        return memory if len(memory) == count else memory[:count]

    def __deepcopy__(self, memo: dict[int, object]) -> Scratch:
        return Scratch()

    def __reduce__(self) -> tuple[type[Scratch], tuple[()]]:
        return Scratch, ()


class Workspace:
    """One tensor's worth of memory, lent to one user at a time.

    Attributes:
        scratch: Memory for what is computed on the way.
    """

    def __init__(self) -> None:
        self.scratch = Scratch()
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
