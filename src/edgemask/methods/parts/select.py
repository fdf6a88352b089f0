"""Selectors: which samples of a batch to believe."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from edgemask.methods.parts.divergences import js_divergence

__all__ = ["Neighbours", "cleanness", "keep_count", "nearest", "small_loss"]


def keep_count(size: int, drop: float) -> int:
    """Return how many samples of ``size`` stay when a share is dropped: ``int((1 - drop) size)``.

    Example:
        >>> keep_count(128, 0.2), keep_count(10, 0.9), keep_count(3, 1.0)
        (102, 1, 0)
    """
    # (1 - 0.9) * 10 is 0.9999999999999998.
    return int((1.0 - drop) * size + 1e-9)


def small_loss(losses: Tensor, drop: float) -> Tensor:
    """Return the positions of the samples with the smallest losses, smallest first.

    Networks learn right labels before wrong ones, so early in training a small loss speaks for the
    label. With the loss of two networks together it is the joint criterion of JoCoR.

    Args:
        losses: One loss a sample, ``(B,)``.
        drop: The share of the largest losses that is left out; all may be, or none.

    Example:
        >>> small_loss(torch.tensor([3.0, 1.0, 2.0, 9.0]), 0.5).tolist()
        [1, 2]
    """
    order = torch.argsort(losses.detach(), stable=True)
    return order[: keep_count(len(losses), drop)]


def cleanness(probabilities: Tensor, target: Tensor, *, base: float = 2.0) -> Tensor:
    """Return ``1 - JS(p, target)``: how well a prediction fits the given label, from 0 to 1.

    A prediction equal to the target scores 1. Against a smoothed label a sure prediction scores
    less, even a right one, so these methods keep their networks about as unsure as the label.

    Args:
        probabilities: Predictions, ``(..., C)``.
        target: The given label as a distribution; shapes broadcast.
        base: Base of the logarithm; 2 keeps the result within 0 and 1.
    """
    return 1.0 - js_divergence(probabilities.detach(), target, base=base)


class Neighbours(NamedTuple):
    """The nearest keys of each query."""

    similarity: Tensor
    """Cosine similarity, ``(B, k)``, largest first; minus infinity where there is no neighbour."""

    position: Tensor
    """Rows of the keys, ``(B, k)``."""

    @property
    def found(self) -> Tensor:
        """Which of them exist, ``(B, k)``."""
        return self.similarity > -torch.inf


def nearest(
    queries: Tensor,
    keys: Tensor,
    count: int,
    *,
    index: Tensor | None = None,
    key_index: Tensor | None = None,
) -> Neighbours:
    """Find the keys with the largest cosine similarity to each query.

    Args:
        queries: Unit vectors, ``(B, D)``.
        keys: Unit vectors, ``(M, D)``; there may be none.
        count: How many, at most; fewer keys give fewer columns.
        index: The samples that the queries belong to, ``(B,)``.
        key_index: The samples that the keys belong to, ``(M,)``. With both, no sample is its own
            neighbour.

    Example:
        >>> keys = torch.eye(3)
        >>> nearest(keys[:1], keys, 2, index=torch.tensor([0]), key_index=torch.arange(3)).position
        tensor([[1, 2]])
    """
    similarity = queries.detach().float() @ keys.float().t()
    if index is not None and key_index is not None:
        own = index[:, None] == key_index[None, :]
        similarity = similarity.masked_fill(own, -torch.inf)
    return Neighbours(*similarity.topk(min(count, len(keys)), dim=1))
