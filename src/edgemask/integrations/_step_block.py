"""A ``one_step`` block that callbacks open and close."""

from __future__ import annotations

from contextlib import AbstractContextManager

from torch import nn

from edgemask.heads.steps import one_step

__all__ = ["StepBlock"]


class StepBlock:
    """At most one open block; where a run breaks off, it closes when it is no longer referenced."""

    def __init__(self) -> None:
        self._block: AbstractContextManager[None] | None = None

    @property
    def is_open(self) -> bool:
        """Whether a step is under way."""
        return self._block is not None

    def open(self, model: nn.Module) -> None:
        """Begin a step of the model's heads; one that is still open ends."""
        self.close()
        self._block = one_step(model)
        self._block.__enter__()

    def close(self) -> None:
        """End the step, if there is one."""
        block, self._block = self._block, None
        if block is not None:
            block.__exit__(None, None, None)
