"""Mix-up: convex combinations of samples and of their labels."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Generator, Tensor

from edgemask.errors import UserError

__all__ = ["Mixed", "draw_pairs", "draw_share", "mix", "mix_rows"]


class Mixed(NamedTuple):
    """Rows mixed with rows of the same batch, and how."""

    inputs: Tensor
    """``(R, ...)``."""

    targets: Tensor
    """``(R, C)``."""

    share: float
    """The share of each row itself, at least 1/2."""

    pairs: Tensor
    """The partner of each row, ``(R,)``."""


def draw_share(alpha: float, generator: Generator) -> float:
    """Draw the share of the first partner, ``lam ~ Beta(alpha, alpha)``; 1 where alpha is 0."""
    if alpha == 0:
        return 1.0
    # Beta(a, a) as a ratio of Gamma draws: torch's Beta takes no generator.
    shape = torch.full((2,), alpha, dtype=torch.float64)
    gamma = torch._standard_gamma(shape, generator=generator)
    return float(gamma[0] / gamma.sum()) if gamma.sum() > 0 else 1.0


def draw_pairs(size: int, generator: Generator, device: torch.device | str = "cpu") -> Tensor:
    """Draw a partner for each row: a random permutation, ``(size,)``."""
    return torch.randperm(size, generator=generator).to(device)


def mix(first: Tensor, second: Tensor, share: float) -> Tensor:
    """Return ``share * first + (1 - share) * second``."""
    if not first.is_floating_point():
        raise UserError(
            f"mix-up needs inputs of a floating-point type, got {first.dtype}; data such as token "
            "ids can be trained on by methods without mix-up"
        )
    return share * first + (1 - share) * second


def mix_rows(
    inputs: Tensor,
    targets: Tensor,
    *,
    alpha: float,
    generator: Generator,
    first: int | None = None,
) -> Mixed:
    """Mix rows with rows of the same batch, each staying closer to itself than to its partner.

    One ``lam ~ Beta(alpha, alpha)`` per batch, ``lam' = max(lam, 1 - lam)``, one permutation:
    ``x' = lam' x + (1 - lam') x[pairs]``, and the same for the targets.

    Args:
        inputs: Samples, ``(R, ...)``.
        targets: Label distributions, ``(R, C)``.
        alpha: Parameter of the Beta distribution; 0 mixes nothing.
        generator: Random generator of the draws.
        first: Return the first so many rows only; their partners come from all rows.

    Reference:
        Berthelot et al., MixMatch, NeurIPS 2019, Eq. 8-11.
    """
    share = draw_share(alpha, generator)
    share = max(share, 1 - share)
    pairs = draw_pairs(len(inputs), generator, inputs.device)[:first]
    return Mixed(
        mix(inputs[:first], inputs[pairs], share),
        mix(targets[:first], targets[pairs], share),
        share,
        pairs,
    )
