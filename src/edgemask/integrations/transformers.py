"""A callback for transformers' Trainer."""

from __future__ import annotations

from typing import Any

from torch import nn

from edgemask.errors import MissingExtraError
from edgemask.integrations._step_block import StepBlock

try:
    from transformers import TrainerCallback
except Exception as error:
    raise MissingExtraError("transformers", "hf", "for its callback", error) from error

__all__ = ["HeadStepCallback"]


class HeadStepCallback(TrainerCallback):  # type: ignore[misc]
    """Makes the micro-batches of each optimiser step one step of the model's heads.

    Without it, every micro-batch of ``gradient_accumulation_steps`` scores the edges and draws a
    mask of its own. The mask comes from the first micro-batch.

    Example:
        ``Trainer(model, args, callbacks=[em.integrations.transformers.HeadStepCallback()], ...)``
    """

    def __init__(self) -> None:
        self._step = StepBlock()

    def on_step_begin(
        self, args: Any, state: Any, control: Any, model: nn.Module, **kwargs: Any
    ) -> None:
        self._step.open(model)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._step.close()

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._step.close()  # of a run that broke off

    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._step.close()  # where a callback ended the epoch between two micro-batches
