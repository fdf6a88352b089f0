"""What makes an edge important: raw scores from sums over a batch, never from the (B, C, d) tensor.

The contribution of edge (j, k) to logit j of sample i is ``a_ijk = w_jk v_ik``. The weight comes
out of every mean over the samples, so each criterion is a power of the weight times a *factor*,
and the factor needs no more than a *statistic*, a plain sum over the samples:

``s_jk = |w_jk| ** power * factor_k``

Sums add up over ranks, so N ranks score as one process would on the joined batch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from edgemask._registry import Registry

__all__ = ["CRITERIA", "Criterion", "root", "sum_of_squares"]


class Criterion(NamedTuple):
    """How an edge is scored.

    Attributes:
        summary: What it is.
        statistic: ``(samples (N, d), weight, bias) -> Tensor``, a sum over the samples of shape
            ``(d,)``, or ``(C, d)`` where it differs between rows.
        factor: ``(mean statistic) -> factor``, of the same shape.
        power: The power of the weight's magnitude: 0, 1 or 2.
    """

    summary: str
    statistic: Callable[[Tensor, Tensor, Tensor | None], Tensor]
    factor: Callable[[Tensor], Tensor]
    power: int


def sum_of_squares(samples: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Return the sum of squares of each feature."""
    return samples.square().sum(dim=0)


def _absolutes(samples: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return samples.abs().sum(dim=0)


def _counts(samples: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return samples.new_full(samples.shape[1:], len(samples))


def _curvatures(samples: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    with torch.autocast(samples.device.type, enabled=False):
        bias = None if bias is None else bias.to(samples.dtype)
        p = F.linear(samples, weight.to(samples.dtype), bias).softmax(dim=1)
        return (p * (1 - p)).T @ samples.square()


def _itself(mean: Tensor) -> Tensor:
    return mean


def root(mean: Tensor) -> Tensor:
    """Return the root."""
    return mean.sqrt()


def _half(mean: Tensor) -> Tensor:
    return mean * 0.5


CRITERIA: Registry[Criterion] = Registry(
    "criterion",
    {
        "rms": Criterion(
            "root mean square of the edge's activation, sqrt(mean_i a_ijk^2) (Eq. 13)",
            sum_of_squares,
            root,
            1,
        ),
        "second_moment": Criterion(
            "second moment of the activation, mean_i a_ijk^2 (Omega of Proposition 1)",
            sum_of_squares,
            _itself,
            2,
        ),
        "mean_abs": Criterion(
            "mean magnitude of the activation, mean_i |a_ijk|", _absolutes, _itself, 1
        ),
        "obd": Criterion(
            "exact OBD saliency, 1/2 mean_i p_ij (1 - p_ij) a_ijk^2, p of the dense logits (Eq. 3)",
            _curvatures,
            _half,
            2,
        ),
        "weight": Criterion("control: the weight alone, |w_jk|", _counts, _itself, 1),
        "input": Criterion(
            "control: the input alone, sqrt(mean_i v_ik^2)", sum_of_squares, root, 0
        ),
    },
)
