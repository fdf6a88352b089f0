"""Selective Edge Masking as pure functions: Eqs. 13-16 and S1 of the paper.

The modules add state; the mathematics is here. No gradient flows through scores and masks, and no
``(B, C, d)`` tensor is ever built.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from edgemask.errors import UserError
from edgemask.heads.criteria import CRITERIA
from edgemask.heads.policies import Policy, parse_policy

__all__ = [
    "EPS",
    "edge_mask",
    "edge_scores",
    "keep_probability",
    "masked_linear",
    "normalise_scores",
    "smooth_scores",
]

EPS = 1e-8


@torch.no_grad()
def edge_scores(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, *, criterion: str = "rms"
) -> Tensor:
    """Score every edge of a linear layer on a batch (Eq. 13 for ``"rms"``).

    Args:
        input: Features, ``(..., d)``; all leading dimensions are samples.
        weight: The layer's weights.
        bias: The layer's bias; only ``"obd"``, which needs the logits, looks at it.
        criterion: One of :data:`edgemask.heads.CRITERIA`.

    Shape:
        ``(..., d), (C, d) -> (C, d)``, at least float32: squares need the range.

    Example:
        >>> v, w = torch.tensor([[3.0], [4.0]]), torch.tensor([[2.0]])
        >>> float(edge_scores(v, w) ** 2)
        50.0
    """
    rule = CRITERIA[criterion]
    if input.shape[-1:] != weight.shape[-1:]:
        raise UserError(
            f"the input's last dimension must be the weight's: got shapes {tuple(input.shape)} and "
            f"{tuple(weight.shape)}"
        )
    dtype = torch.promote_types(weight.dtype, torch.float32)
    samples = input.reshape(-1, input.shape[-1]).to(dtype)
    total = rule.statistic(samples, samples.square().sum(dim=0), weight, bias)
    out = torch.empty_like(weight, dtype=dtype)
    return rule.score(weight, rule.factor(total / len(samples)), out)


@torch.no_grad()
def normalise_scores(scores: Tensor, eps: float = EPS) -> Tensor:
    """Bring scores to [0, 1] by their smallest and largest (Eq. 14).

    Where all scores are equal the formula would give 0 for each and mask every edge, for a
    classifier that starts at zero for ever. No edge is weaker than another then: all get 1.

    Example:
        >>> normalise_scores(torch.tensor([1.0, 2.0, 3.0])).tolist()
        [0.0, 0.5, 1.0]
        >>> normalise_scores(torch.zeros(2)).tolist()
        [1.0, 1.0]
    """
    if scores.numel() == 0:
        return scores.clone()
    low, high = torch.aminmax(scores)
    return torch.where(high > low, (scores - low) / (high - low + eps), torch.ones_like(scores))


@torch.no_grad()
def smooth_scores(previous: Tensor, new: Tensor, beta: float = 0.9) -> Tensor:
    """Smooth normalised scores over time (Eq. 15): ``beta * previous + (1 - beta) * new``.

    At the first step there is nothing to smooth: S(0) is the new score itself.
    """
    return torch.lerp(previous, new, 1.0 - beta)


@torch.no_grad()
def keep_probability(
    scores: Tensor, rho: float = 0.5, policy: str | Policy = "bernoulli"
) -> Tensor:
    """Return the probability that a step keeps each edge (Eq. S1)."""
    return parse_policy(policy).keep_probability(scores, rho)


@torch.no_grad()
def edge_mask(
    scores: Tensor,
    rho: float = 0.5,
    policy: str | Policy = "bernoulli",
    *,
    uniform: Tensor | None = None,
) -> Tensor:
    """Draw the mask of a step from smoothed scores (Eq. 16 for ``"bernoulli"``).

    Args:
        scores: Smoothed scores in [0, 1].
        rho: The retention threshold: edges from here on are certain.
        policy: One of :data:`edgemask.heads.POLICIES`, such as ``"topk(0.3)"``, or an object.
        uniform: The numbers in (0, 1) that decide, in the scores' shape (for policies that need
            more than one number an edge, with that count in front). Default: torch's generator.

    Returns:
        1 where an edge is kept and 0 elsewhere, in the scores' dtype.

    Example:
        >>> scores = torch.tensor([0.0, 0.2, 0.6])
        >>> edge_mask(scores, uniform=torch.tensor([1e-9, 0.3, 0.9])).tolist()
        [0.0, 0.0, 1.0]
    """
    rule = parse_policy(policy)
    if uniform is None:
        shape = scores.shape if rule.numbers == 1 else (rule.numbers, *scores.shape)
        uniform = torch.rand(shape, dtype=scores.dtype, device=scores.device)
        uniform = uniform.clamp_min_(torch.finfo(scores.dtype).tiny)
    return rule.draw(scores, rho, uniform, torch.empty_like(scores))


def masked_linear(
    input: Tensor, weight: Tensor, mask: Tensor, bias: Tensor | None = None
) -> Tensor:
    """Apply a linear layer through the kept edges only: ``(M * W) v + b``.

    Gradients reach the weights and the input through the kept edges alone.

    Shape:
        ``(..., d), (C, d), (C, d), (C,) -> (..., C)``
    """
    return F.linear(input, weight * mask.to(weight.dtype), bias)
