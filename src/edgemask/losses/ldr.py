"""Label distributionally robust loss (LDR)."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from edgemask.losses.base import (
    Loss,
    NonNegative,
    Positive,
    Rows,
    at_label,
    loss,
    off_label,
)

__all__ = ["LDRLoss", "positive_scores"]

# Below this logit softplus(z) = e^z to more digits than float64 has.
_TAIL = -40.0


def positive_scores(logits: Tensor) -> Tensor:
    """Return softplus(z) / mean_k softplus(z_k).

    Where all logits of a row lie below ``_TAIL``, softplus(z) = e^z, and the quotient does not
    change when the row is shifted; so such a row is shifted up, where nothing underflows.
    """
    shift = (_TAIL - logits.detach().amax(dim=1, keepdim=True)).clamp_(min=0.0)
    positive = F.softplus(logits + shift)
    return positive / positive.mean(dim=1, keepdim=True)


@loss
class LDRLoss(Loss):
    """Label distributionally robust loss (LDR), on positive scores instead of probabilities.

    Args:
        margin: Margin c by which the label's score should lead.
        temperature: Temperature λ of the soft maximum over the classes.
    """

    equation = (
        "λ·[log Σ_k exp((c·(1−t_k) + s_k − Σ_j t_j s_j)/λ) − log K] with "
        "s = softplus(z) / mean_k softplus(z_k)"
    )
    reference = "Zhu et al., Label Distributionally Robust Losses, ICML 2023"
    bounded = True

    margin: NonNegative = 0.1
    temperature: Positive = 10.0

    def values(self, rows: Rows, index: Tensor | None) -> Tensor:
        """Return the loss of each row."""
        del index
        scores = positive_scores(rows.logits)
        raised = (scores + off_label(self.margin, rows.target, scores)) / self.temperature
        maximum = torch.logsumexp(raised, dim=1, keepdim=True) - math.log(scores.shape[1])
        return self.temperature * maximum - at_label(scores, rows.target)
