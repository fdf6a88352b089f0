"""Which edges a step keeps, given their scores: Eq. 16 of the paper and its variants.

Most policies decide edge by edge, and three numbers say how: an edge of score ``s`` is kept if
``s >= certain`` or ``u <= max(min(s, cap), floor)``, with ``u`` uniform in (0, 1). An edge of score
0 is never kept by a policy that goes by scores; :class:`BernoulliFixed` gives its p to every edge
below rho, score 0 included.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from edgemask._registry import Registry
from edgemask.errors import UserError

__all__ = ["POLICIES", "EdgewisePolicy", "Policy", "Thresholds", "parse_policy"]

Numbers = Callable[[str], Tensor]
"""Purpose -> uniform numbers in (0, 1), one per edge."""


class Policy(ABC):
    """How a mask is drawn from scores."""

    @abstractmethod
    def keep_probability(self, scores: Tensor, rho: float) -> Tensor:
        """Return the probability that each edge is kept (Eq. S1)."""

    def draw(self, scores: Tensor, rho: float, numbers: Numbers) -> Tensor:
        """Return the mask as booleans, True where the edge is kept.

        Args:
            scores: Smoothed scores in [0, 1].
            rho: The retention threshold.
            numbers: Gives uniform numbers by purpose; ``"mask"`` is the usual one.
        """
        return numbers("mask") <= self.keep_probability(scores, rho)

    def keeps_all(self, rho: float) -> bool:
        """Whether every edge is kept whatever its score: rho = 0 is a plain layer."""
        return rho == 0.0


class Thresholds(NamedTuple):
    """The numbers of an edge-wise policy."""

    certain: float
    """Edges from this score on are kept."""
    cap: float
    """Other edges are kept with the probability of their score, at most this ..."""
    floor: float
    """... and at least this."""


class EdgewisePolicy(Policy):
    """A policy that decides about each edge by itself, by three numbers."""

    @abstractmethod
    def thresholds(self, rho: float) -> Thresholds:
        """Return the three numbers."""

    def keep_probability(self, scores: Tensor, rho: float) -> Tensor:
        certain, cap, floor = self.thresholds(rho)
        return scores.clamp_max(cap).clamp_min(floor).masked_fill(scores >= certain, 1.0)


@dataclass(frozen=True)
class Bernoulli(EdgewisePolicy):
    """Keep edges from rho on, sample the others by their score (Eq. 16)."""

    def thresholds(self, rho: float) -> Thresholds:
        return Thresholds(rho, 1.0, 0.0)


@dataclass(frozen=True)
class Hard(EdgewisePolicy):
    """Keep edges from rho on and no other (Table 8, without Bernoulli)."""

    def thresholds(self, rho: float) -> Thresholds:
        return Thresholds(rho, 0.0, 0.0)


@dataclass(frozen=True)
class BernoulliFixed(EdgewisePolicy):
    """Keep edges from rho on and each other one with the same probability p (Table 8).

    Args:
        p: That probability.
    """

    p: float = 0.5

    def __post_init__(self) -> None:
        _check_share("bernoulli_fixed", "p", self.p)

    def thresholds(self, rho: float) -> Thresholds:
        return Thresholds(rho, 0.0, self.p)


@dataclass(frozen=True)
class BernoulliOnly(EdgewisePolicy):
    """Sample every edge by its score, none is safe (Table S2, without rho)."""

    def thresholds(self, rho: float) -> Thresholds:
        return Thresholds(math.inf, 1.0, 0.0)


@dataclass(frozen=True)
class Capped(EdgewisePolicy):
    """Keep an edge with probability min(score, cap), so that no edge is ever safe.

    Args:
        cap: The largest keep probability, in (0, 1]; rho then plays no part. Default: rho.
    """

    cap: float | None = None

    def __post_init__(self) -> None:
        if self.cap is not None and not 0.0 < self.cap <= 1.0:
            raise UserError(f"policy capped: cap must lie in (0, 1], got {self.cap!r}")

    def thresholds(self, rho: float) -> Thresholds:
        return Thresholds(math.inf, rho if self.cap is None else self.cap, 0.0)

    def keeps_all(self, rho: float) -> bool:
        return self.cap is None and rho == 0.0


@dataclass(frozen=True)
class TopK(Policy):
    """Keep exactly the share of edges with the highest scores (Table S3).

    Args:
        keep: The share of edges to keep.
    """

    keep: float = 0.5

    def __post_init__(self) -> None:
        _check_share("topk", "keep", self.keep)

    def keep_probability(self, scores: Tensor, rho: float) -> Tensor:
        count = min(max(1, math.floor(self.keep * scores.numel() + 0.5)), scores.numel())
        best = scores.flatten().topk(count, sorted=False).indices
        mask = torch.zeros_like(scores).view(-1).index_fill_(0, best, 1.0).view_as(scores)
        return mask * (scores > 0)

    def draw(self, scores: Tensor, rho: float, numbers: Numbers) -> Tensor:
        return self.keep_probability(scores, rho) > 0


@dataclass(frozen=True)
class Shuffled(Policy):
    """Draw as Eq. 16 does, from permuted scores: keeps as many edges as SEM, chosen at random."""

    def keep_probability(self, scores: Tensor, rho: float) -> Tensor:
        return Bernoulli().keep_probability(scores, rho).mean().expand_as(scores).clone()

    def draw(self, scores: Tensor, rho: float, numbers: Numbers) -> Tensor:
        # two numbers per edge: 23 bits alone would tie, and ties are not shuffled
        place = numbers("shuffle-coarse").double() + numbers("shuffle-fine").double() * 2.0**-16
        permuted = scores.flatten()[place.flatten().argsort()].view_as(scores)
        return Bernoulli().draw(permuted, rho, numbers)


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
    match = re.fullmatch(r"\s*([\w-]+)\s*(?:\(\s*(?:\w+\s*=\s*)?([^)]*?)\s*\))?\s*", str(policy))
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
