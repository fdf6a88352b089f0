"""State that the processes of a run change apart and agree on."""

from __future__ import annotations

from torch import Tensor

from edgemask.engine.processes import Processes
from edgemask.methods import Method
from edgemask.methods.parts.memory import joined_rows

__all__ = ["SharedState"]


class SharedState:
    """State that processes change on their own samples and then must agree on.

    Args:
        method: The method, with what it remembers of samples.
        processes: The processes.
        samples: Training samples.
    """

    def __init__(self, method: Method, processes: Processes, samples: int):
        self._method = method
        self._processes = processes
        self._samples = samples
        self._synced: dict[str, Tensor] = {}

    def start(self) -> None:
        """Take the present state as agreed upon."""
        if self._processes.count > 1:
            self._synced = {name: buffer.clone() for name, buffer in self._loss_memory()}

    def sync(self) -> None:
        """Make all processes agree on per-sample memories and running statistics."""
        processes = self._processes
        if processes.count == 1:
            return
        self._method.sync(processes.total)
        for name, buffer in self._loss_memory():
            changed = (buffer != self._synced[name]).flatten(1).any(1)
            buffer.copy_(joined_rows(buffer, changed, processes.total))
            self._synced[name] = buffer.clone()
        processes.same_buffers(self._method.nets)

    def _loss_memory(self) -> list[tuple[str, Tensor]]:
        """Return what the loss remembers of each sample (ELR)."""
        return [
            (name, buffer)
            for name, buffer in self._method.task.criterion.named_buffers()
            if buffer.ndim > 1 and len(buffer) == self._samples
        ]
