"""A callback for Lightning's Trainer."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from torch import nn

from edgemask.errors import MissingExtraError
from edgemask.integrations._step_block import StepBlock

__all__ = ["HeadStepCallback", "LightningHeadStepCallback"]


def _callback_classes() -> tuple[Any, ...]:
    """Return ``Callback`` of ``lightning`` and ``pytorch_lightning``, whichever are installed."""
    found = []
    cause: ImportError | None = None
    for name in ("lightning.pytorch", "pytorch_lightning"):
        try:
            found.append(import_module(name).Callback)
        except ImportError as error:
            cause = cause or error
    if not found:
        raise MissingExtraError("lightning", "lightning", "for its callback", cause) from cause
    return tuple(found)


class LightningHeadStepCallback(*_callback_classes()):  # type: ignore[misc]
    """Makes the micro-batches of each optimiser step one step of the model's heads.

    Without it, every micro-batch of ``accumulate_grad_batches`` scores the edges and draws a mask
    of its own. The mask comes from the first micro-batch. It works with the packages ``lightning``
    and ``pytorch_lightning``. Under manual optimisation, a batch that makes several optimiser steps
    is one step of the heads.

    Example:
        ``Trainer(callbacks=[em.integrations.lightning.LightningHeadStepCallback()], ...)``
    """

    def __init__(self) -> None:
        super().__init__()
        self._step = StepBlock()
        self._optimiser_steps = 0

    def on_train_batch_start(
        self, trainer: Any, pl_module: nn.Module, batch: Any, batch_idx: int
    ) -> None:
        if not self._step.is_open:
            self._optimiser_steps = trainer.global_step
            self._step.open(pl_module)

    def on_train_batch_end(
        self, trainer: Any, pl_module: nn.Module, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if trainer.global_step != self._optimiser_steps:
            self._step.close()

    def on_train_start(self, trainer: Any, pl_module: nn.Module) -> None:
        self._step.close()

    def on_train_epoch_end(self, trainer: Any, pl_module: nn.Module) -> None:
        self._step.close()

    def on_exception(self, trainer: Any, pl_module: nn.Module, exception: BaseException) -> None:
        self._step.close()


HeadStepCallback = LightningHeadStepCallback  # the short name, as in integrations.transformers
