"""SOP: the noise of every label is learned beside the network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from torch import nn

from edgemask.losses import SOPLoss
from edgemask.methods.base import Clock, Feed, Method, Phase, StepResult, Task
from edgemask.methods.options import options

if TYPE_CHECKING:
    from edgemask.data import Batch

__all__ = ["SOP"]

_EPOCHS, _BATCH = 300, 128  # of the published run


@options
class SOP(Method):
    """Plain training with sparse over-parameterisation, on a weak and a strong view in one pass.

    Each sample has parameters ``u_i`` (the noise on its label) and ``v_i`` (on the other classes),
    moved by SGD with rates of their own:
    ``L = CE(norm(p + U - sg[V]), y) + ||onehot(argmax p) + U - V - y||^2`` with
    ``U = clip(u^2 y)``, ``V = clip(v^2 (1 - y))``, all on the weak view; plus the balance of the
    mean prediction, plus ``KL(sg[p_weak] || p_strong)``. The loss is ``sop`` of
    :mod:`edgemask.losses`, its weights and rates are ``loss.options``. Nothing has to be known
    about the noise. Trust comes from the losses, as in any run.

    At each visit of a sample u grows by a factor of about ``1 + 2 lr_u (1 / p_y + 2) / B``: few
    epochs would leave it at its start. So ``lr_u`` and ``lr_v`` mean those of the published run and
    are multiplied by ``(300 / epochs) (batch / 128)``.

    Args:
        consistency: Whether to take the strong view, which the last term needs; without it the
            weak view is the only one.
        scale_rates: Whether ``lr_u`` and ``lr_v`` are scaled to the run as above. The rates of a
            loss that is given as an object are never changed.

    Reference:
        Liu et al., Robust Training under Label Noise by Over-parameterization, ICML 2022.
    """

    loss = "sop"

    consistency: bool = True
    scale_rates: bool = True

    def setup(self, task: Task, nets: dict[str, nn.Module]) -> None:
        """Scale the rates of u and v to the length of the run."""
        super().setup(task, nets)
        if self.scale_rates and isinstance(task.criterion, SOPLoss):
            scale = (_EPOCHS / task.epochs) * (task.batch_size / _BATCH)
            task.criterion.lr_u *= scale
            task.criterion.lr_v *= scale

    def begin(self, phase: str, epoch: int) -> Phase:
        """Train on all samples, in two views."""
        views = ("weak", "strong") if self.consistency else ("weak",)
        return Phase(name=phase, train=("net",), feeds={"train": Feed(views=views)})

    def step(self, phase: Phase, batch: Mapping[str, Batch], clock: Clock) -> StepResult:
        """Return the loss of the batch, both views in one forward pass."""
        index, views, target = batch["train"]
        logits = self.logits("net", torch.cat(views)).chunk(len(views))
        second = logits[1] if self.consistency else None
        return StepResult(self.task.criterion(logits[0], target, index, second=second))
