"""Losses for transformers' Trainer."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor

from edgemask.errors import EdgeMaskWarning, UserError

__all__ = ["trainer_loss"]

_IGNORED = -100  # the label that Trainer leaves out when it counts the items of a batch


def trainer_loss(criterion: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Tensor]:
    """Adapt a loss to ``transformers.Trainer(compute_loss_func=...)``.

    The Trainer adds up the losses of the micro-batches of an optimiser step as they are, so each
    one is multiplied by its share of the step's items: a run with gradient accumulation has the
    gradient of the mean over all of them, for micro-batches of unequal size too. With class weights
    (``weight=``) each micro-batch is divided by its own sum of weights.

    Args:
        criterion: ``(logits, labels) -> mean``: a loss of :mod:`edgemask.losses` or of torch.
            Losses that remember samples do not work here: the Trainer passes no index.

    Returns:
        A function of ``(outputs, labels, num_items_in_batch=None)``. It finds the logits in the
        model's outputs; those of token classifiers, ``(B, T, C)``, become ``(B, C, T)``.

    Example:
        >>> import torch, edgemask as em
        >>> compute_loss = trainer_loss(em.losses.GCELoss(q=0.7))
        >>> logits, labels = torch.zeros(4, 2), torch.tensor([0, 1, 1, 0])
        >>> float(compute_loss({"logits": logits}, labels, num_items_in_batch=8)) == float(
        ...     em.losses.GCELoss(q=0.7)(logits, labels) / 2)
        True
    """
    name = type(criterion).__name__
    reduction = getattr(criterion, "reduction", "mean")
    if reduction != "mean":
        raise UserError(f"trainer_loss takes a loss with reduction='mean', got {reduction!r}")
    if getattr(criterion, "needs_index", False):
        raise UserError(
            f"{name} remembers every sample and needs its index, which transformers' Trainer does "
            "not pass on; use edgemask.fit, or a loss without a memory"
        )
    if getattr(criterion, "l1", 0.0):
        warnings.warn(
            f"the published settings of {name} include an L1 penalty of {criterion.l1} on all "  # type: ignore[attr-defined]
            "parameters of the model, which trainer_loss does not apply; edgemask.fit does",
            EdgeMaskWarning,
            stacklevel=2,
        )

    def compute_loss(
        outputs: Any, labels: Tensor | None, num_items_in_batch: Tensor | int | None = None
    ) -> Tensor:
        if labels is None:
            raise UserError("trainer_loss needs labels: the batch has no entry 'labels'")
        logits = _logits(outputs)
        if logits.dim() == 3 and labels.shape == logits.shape[:-1]:
            logits = logits.movedim(-1, 1)
        mean = criterion(logits, labels)
        if num_items_in_batch is None:
            return mean
        return mean * (labels.ne(_IGNORED).sum() / num_items_in_batch)

    return compute_loss


def _logits(outputs: Any) -> Tensor:
    """Return the logits of what a model returned: an output object, a tuple or the tensor."""
    if type(outputs).__name__.startswith("CausalLM"):
        raise UserError(
            "trainer_loss is for classifiers; a language model's labels are shifted by one position"
        )
    if isinstance(outputs, Tensor):
        return outputs
    found = outputs.get("logits") if isinstance(outputs, Mapping) else outputs[0]
    if not isinstance(found, Tensor):
        raise UserError(f"the model's outputs ({type(outputs).__name__}) hold no logits")
    return found
