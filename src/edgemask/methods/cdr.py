"""CDR: only the parameters that matter for a batch may learn from it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import torch
from torch import Tensor, nn

from edgemask._options import checked
from edgemask.heads import HEADS, find_classifier
from edgemask.methods.base import Clock, Phase, Task
from edgemask.methods.options import Augmentation, NoiseRate, NonNegative
from edgemask.methods.parts.schedules import known_rate
from edgemask.methods.supervised import Supervised

__all__ = ["CDR", "critical", "suppress"]


class CDR(Supervised):
    """Suppress the gradient of parameters whose ``|g w|`` is small; the loss is the config's.

    The ``(1 - tau) m`` parameters with the largest ``|g w|`` of the batch are critical, m being all
    in scope, tau the noise rate. ``rule="paper"``:

    - critical: ``w -= lr ((1 - tau) g + l1 sign(w))``
    - others: ``w -= lr l1 sign(w)``

    ``rule="code"`` is the released code: only matrices and convolution kernels are ranked and
    suppressed (biases and normalisation learn as usual), there is no L1 term but the optimiser's
    own ``weight_decay``, and a parameter at the threshold counts as critical. In both the optimiser
    takes the result as its gradient, so that with momentum a suppressed weight coasts on.

    Args:
        rule: ``paper`` or ``code``.
        scope: ``network``, or ``head`` for the classifier alone (Table S1).
        tau: Share of wrong labels; None takes the nominal rate of the noise, as the released code
            does, or the share that is wrong where there is no nominal one.
        l1: Weight of the L1 decay of ``rule="paper"``; replaces ``optim.weight_decay``.
        views: The augmentation of the one view: ``weak``, ``strong`` or ``none``.

    Reference:
        Xia et al., Robust Early-Learning: Hindering the Memorization of Noisy Labels, ICLR 2021.
    """

    needs = "noise rate"

    @checked
    def __init__(
        self,
        *,
        rule: Literal["paper", "code"] = "paper",
        scope: Literal["network", "head"] = "network",
        tau: NoiseRate | None = None,
        l1: NonNegative = 1e-5,
        views: Augmentation = "weak",
    ):
        super().__init__(views=views)
        self.rule = rule
        self.scope = scope
        self.tau = tau
        self.l1 = l1

    def setup(self, task: Task, nets: dict[str, nn.Module]) -> None:
        """Settle the share of critical parameters and who is in scope."""
        super().setup(task, nets)
        self.rate = known_rate("CDR", "tau", self.tau, task.nominal_rate, task.realised_rate)
        net = nets["net"]
        module = net if self.scope == "network" else _classifier(net)
        self._in_scope = [
            p for p in module.parameters() if self.rule == "paper" or p.ndim in (2, 4)
        ]

    def after_backward(self, phase: Phase, clock: Clock) -> None:
        """Suppress the gradients of what is not critical."""
        suppress(self._in_scope, self.rate, l1=self.l1 if self.rule == "paper" else 0.0)


@torch.no_grad()
def suppress(parameters: Iterable[nn.Parameter], tau: float, *, l1: float = 0.0) -> None:
    """Change gradients in place: ``(1 - tau) g`` where critical, else 0; plus ``l1 sign(w)``.

    Args:
        parameters: Ranked together; those without a gradient stay out.
        tau: The noise rate.
        l1: Weight of the L1 decay.
    """
    weights = [p for p in parameters if p.grad is not None]
    gradients = [p.grad for p in weights if p.grad is not None]
    for p, g, kept in zip(weights, gradients, critical(weights, gradients, 1 - tau), strict=True):
        g.mul_(kept).mul_(1 - tau)
        if l1:
            g.add_(p.sign(), alpha=l1)


def critical(weights: list[nn.Parameter], gradients: list[Tensor], share: float) -> list[Tensor]:
    """Return masks of the parameters among the ``int(share m)`` largest ``|g w|``, ties included.

    Args:
        weights: m parameters in all.
        gradients: Their gradients.
        share: The share of critical ones.
    """
    scores = [(w * g).abs() for w, g in zip(weights, gradients, strict=True)]
    total = sum(score.numel() for score in scores)
    count = int(share * total)
    if count == 0:
        return [torch.zeros_like(score, dtype=torch.bool) for score in scores]
    joined = torch.cat([score.flatten() for score in scores])
    threshold = joined.kthvalue(total - count + 1).values
    return [score >= threshold for score in scores]


def _classifier(net: nn.Module) -> nn.Module:
    """Return the layer that gives the logits: a head of ours, or the one that is found."""
    kinds = tuple(kind for kind in HEADS.values() if kind is not nn.Linear)
    own = [module for module in net.modules() if isinstance(module, kinds)]
    return own[-1] if own else net.get_submodule(find_classifier(net))
