"""A skorch classifier that knows what EdgeMask's losses make of logits."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from edgemask.errors import MissingExtraError, UserError
from edgemask.losses.base import Loss

try:
    from skorch import NeuralNetClassifier
except ImportError as error:
    raise MissingExtraError("skorch", "skorch", "for its classifier", error) from error

__all__ = ["LogitsClassifier"]


class LogitsClassifier(NeuralNetClassifier):  # type: ignore[misc]
    """skorch's ``NeuralNetClassifier`` for modules that return logits.

    skorch applies a softmax in ``predict_proba`` for torch's own ``CrossEntropyLoss`` alone; with
    any other loss it returns the logits themselves. This class applies it for the losses of
    :mod:`edgemask.losses` as well. With skorch's own class, the argument
    ``predict_nonlinearity=functools.partial(torch.softmax, dim=-1)`` does the same.

    Example:
        ``LogitsClassifier(MyModule, criterion=em.losses.GCELoss, criterion__q=0.7).fit(x, y)``
    """

    def _get_predict_nonlinearity(self) -> Any:
        if self.predict_nonlinearity == "auto" and isinstance(self.criterion_, Loss):
            return partial(torch.softmax, dim=-1)
        return super()._get_predict_nonlinearity()

    def initialize_criterion(self) -> Any:
        """Make the loss; one that remembers samples is refused."""
        result = super().initialize_criterion()
        if getattr(self.criterion_, "needs_index", False):
            raise UserError(
                f"{type(self.criterion_).__name__} remembers every sample and needs its index, "
                "which skorch does not pass on; use edgemask.fit, or a loss without a memory"
            )
        return result
