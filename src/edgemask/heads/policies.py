"""Which edges a step keeps, given their scores: Eq. 16 of the paper and its variants.

A policy turns smoothed scores into keep probabilities, and scores and uniform numbers into a mask.
An edge of score 0 is never kept.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from edgemask._registry import Registry
from edgemask.errors import UserError

__all__ = ["POLICIES", "Policy", "parse_policy"]


class Policy(ABC):
    """How a mask is drawn from scores.

    Attributes:
        edgewise: Whether each edge is drawn by itself, so that a mask may be drawn in parts.
        numbers: How many uniform numbers an edge needs.
    """

    edgewise: ClassVar[bool] = True
    numbers: ClassVar[int] = 1

    @abstractmethod
    def keep_probability(self, scores: Tensor, rho: float) -> Tensor:
        """Return the probability that each edge is kept (Eq. S1)."""

    def draw(self, scores: Tensor, rho: float, uniform: Tensor, out: Tensor) -> Tensor:
        """Write the mask into ``out``: 1 where the edge is kept and 0 elsewhere.

        Args:
            scores: Smoothed scores in [0, 1].
            rho: The retention threshold.
            uniform: Numbers in (0, 1) of the scores' shape, or ``(numbers, *shape)`` where an edge
                needs several.
            out: Where to, in the scores' shape. A comparison that writes floating-point numbers
                is several times faster than one that writes booleans.
        """
        return torch.le(uniform, self.keep_probability(scores, rho), out=out)


@dataclass(frozen=True)
class Bernoulli(Policy):
    """Keep edges from rho on, sample the others by their score (Eq. 16)."""

    def keep_probability(self, scores: Tensor, rho: float) -> Tensor:
        return torch.where(scores >= rho, 1.0, scores)

    def draw(self, scores: Tensor, rho: float, uniform: Tensor, out: Tensor) -> Tensor:
        # u <= s or rho <= s, in one comparison
        return torch.clamp_max(uniform.to(out.dtype), rho, out=out).le_(scores)


@dataclass(frozen=True)
class Hard(Policy):
    """Keep edges from rho on and no other (Table 8, without Bernoulli)."""

    def keep_probability(self, scores: Tensor, rho: float) -> Tensor:
        return (scores >= rho).to(scores.dtype)


@dataclass(frozen=True)
class BernoulliFixed(Policy):
    """Keep edges from rho on and each other one with the same probability p (Table 8).

    Args:
        p: That probability.
    """

    p: float = 0.5

    def __post_init__(self) -> None:
        _check_share("bernoulli_fixed", "p", self.p)

    def keep_probability(self, scores: Tensor, rho: float) -> Tensor:
        return torch.where(scores >= rho, 1.0, self.p * (scores > 0).to(scores.dtype))


@dataclass(frozen=True)
class BernoulliOnly(Policy):
    """Sample every edge by its score, none is safe (Table S2, without rho)."""

    def keep_probability(self, scores: Tensor, rho: float) -> Tensor:
        return scores.clone()


@dataclass(frozen=True)
class Capped(Policy):
    """Keep an edge with probability min(score, rho), so that no edge is ever safe."""

    def keep_probability(self, scores: Tensor, rho: float) -> Tensor:
        return scores.clamp_max(rho)


@dataclass(frozen=True)
class TopK(Policy):
    """Keep exactly the share of edges with the highest scores (Table S3).

    Args:
        keep: The share of edges to keep.
    """

    keep: float = 0.5
    edgewise: ClassVar[bool] = False

    def __post_init__(self) -> None:
        _check_share("topk", "keep", self.keep)

    def keep_probability(self, scores: Tensor, rho: float) -> Tensor:
        count = max(1, math.floor(self.keep * scores.numel() + 0.5))
        best = scores.flatten().topk(count, sorted=False).indices
        mask = torch.zeros_like(scores).view(-1).index_fill_(0, best, 1.0).view_as(scores)
        return mask * (scores > 0)


@dataclass(frozen=True)
class Shuffled(Policy):
    """Draw as Eq. 16 does, from scores permuted over the edges: as many kept, none for a reason."""

    edgewise: ClassVar[bool] = False
    numbers: ClassVar[int] = 3

    def keep_probability(self, scores: Tensor, rho: float) -> Tensor:
        return Bernoulli().keep_probability(scores, rho).mean().expand_as(scores).clone()

    def draw(self, scores: Tensor, rho: float, uniform: Tensor, out: Tensor) -> Tensor:
        coin, coarse, fine = uniform
        order = (coarse.double() + fine.double() * 2.0**-16).flatten().argsort()
        return Bernoulli().draw(scores.flatten()[order].view_as(scores), rho, coin, out)


def _check_share(policy: str, name: str, value: float) -> None:
    if not 0.0 <= value <= 1.0:
        raise UserError(f"policy {policy}: {name} must lie in [0, 1], got {value!r}")


POLICIES: Registry[Callable[..., Policy]] = Registry(
    "policy",
    {
        "bernoulli": Bernoulli,
        "hard": Hard,
        "bernoulli_fixed": BernoulliFixed,
        "bernoulli_only": BernoulliOnly,
        "topk": TopK,
        "capped": Capped,
        "shuffled": Shuffled,
    },
)


def parse_policy(policy: str | Policy) -> Policy:
    """Read a policy from what a person writes: ``"bernoulli"``, ``"topk(0.3)"``, or an object.

    Example:
        >>> parse_policy("topk(0.3)")
        TopK(keep=0.3)
    """
    if isinstance(policy, Policy):
        return policy
    match = re.fullmatch(r"\s*(\w+)\s*(?:\(\s*(?:\w+\s*=\s*)?([^)]*?)\s*\))?\s*", str(policy))
    if match is None:
        raise UserError(f"policy {policy!r} is not of the form name or name(value)")
    name, argument = match.groups()
    kind = POLICIES[name]
    if not argument:
        return kind()
    try:
        return kind(float(argument))
    except (TypeError, ValueError) as error:
        if isinstance(error, UserError):
            raise
        raise UserError(f"policy {policy!r}: {name} does not take {argument!r}") from None
