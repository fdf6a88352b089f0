"""Label distributionally robust loss (LDR)."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from edgemask.losses._common import as_distribution, prepare, require, widen
from edgemask.losses.base import Loss, Reduction

__all__ = ["LDRLoss", "ldr"]

# Below this logit softplus(z) = e^z to more digits than float64 has after the first correction.
_TAIL = -20.0


def _log_softplus(z: Tensor) -> Tensor:
    """Return log softplus(z) without underflow: log(log1p(e^z)) = z − e^z/2 + ... for small z."""
    tail = z - 0.5 * z.clamp(max=_TAIL).exp()
    return torch.where(z < _TAIL, tail, F.softplus(z.clamp(min=_TAIL)).log())


def ldr(
    logits: Tensor, target: Tensor, *, margin: float = 0.1, temperature: float = 10.0
) -> Tensor:
    """Return the LDR loss of every sample.

    The scores s = softplus(z) / mean softplus(z) are computed as K·softmax(log softplus(z)),
    which is the same number and stays right where all softplus(z) underflow.
    """
    log_probs, target = prepare(logits, target)
    classes = logits.shape[1]
    scores = classes * F.softmax(_log_softplus(widen(logits)), dim=1)
    label = as_distribution(target, log_probs)
    gaps = margin * (1 - label) + scores - (label * scores).sum(dim=1, keepdim=True)
    return temperature * (torch.logsumexp(gaps / temperature, dim=1) - math.log(classes))


class LDRLoss(Loss):
    """Label distributionally robust loss (LDR), on positive scores instead of probabilities.

    Args:
        margin: Margin c by which the label's score should lead.
        temperature: Temperature λ of the soft maximum over the classes.
        reduction: ``"mean"`` or ``"none"``.
    """

    equation = (
        "λ·[log Σ_k exp((c·(1−t_k) + s_k − Σ_j t_j s_j)/λ) − log K] with "
        "s = softplus(z) / mean_k softplus(z_k)"
    )
    reference = "Zhu et al., Label Distributionally Robust Losses, ICML 2023"
    bounded = True

    def __init__(
        self, margin: float = 0.1, temperature: float = 10.0, *, reduction: Reduction = "mean"
    ):
        super().__init__(reduction=reduction)
        require(margin >= 0.0, "margin", margin, "a margin that is not negative")
        require(temperature > 0.0, "temperature", temperature, "a positive number")
        self.margin = margin
        self.temperature = temperature

    def _per_sample(self, logits: Tensor, target: Tensor) -> Tensor:
        return ldr(logits, target, margin=self.margin, temperature=self.temperature)
