"""The samples that are most alike, by the cosine of their features."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from edgemask._random import torch_stream
from edgemask.errors import EdgeMaskWarning
from edgemask.methods.parts.losses import full_precision

__all__ = ["MOST_KEYS", "Neighbours", "balanced_votes", "nearest_neighbours", "nearest_samples"]

MOST_KEYS = 50_000
"""Samples that a search over the whole set compares with, at most."""

_CHUNK = 2**24  # similarities that are held at once: 64 MB


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

    def with_gradient(self, queries: Tensor, keys: Tensor) -> Neighbours:
        """Return the same neighbours with similarities that carry the queries' gradient."""
        queries = full_precision(queries)
        near = keys[self.position].to(queries)
        similarity = torch.einsum("bd,bkd->bk", queries, near)
        return Neighbours(torch.where(self.found, similarity, -torch.inf), self.position)


def nearest_neighbours(
    queries: Tensor,
    keys: Tensor,
    count: int,
    *,
    index: Tensor | None = None,
    key_index: Tensor | None = None,
) -> Neighbours:
    """Find the keys with the largest cosine similarity to each query, exactly.

    Queries are compared in chunks, so that the matrix of all similarities is never held.

    Args:
        queries: Unit vectors, ``(B, D)``.
        keys: Unit vectors, ``(M, D)``; there may be none.
        count: How many, at most; fewer keys give fewer columns.
        index: The samples that the queries belong to, ``(B,)``.
        key_index: The samples that the keys belong to, ``(M,)``. With both, no sample is its own
            neighbour.

    Example:
        >>> keys = torch.eye(3)
        >>> query, own = keys[:1], torch.tensor([0])
        >>> nearest_neighbours(query, keys, 2, index=own, key_index=torch.arange(3)).position
        tensor([[1, 2]])
    """
    keys = keys.float().t()
    columns = keys.shape[1]
    rows = max(1, _CHUNK // max(columns, 1))
    found = []
    for start in range(0, max(len(queries), 1), rows):
        similarity = queries[start : start + rows].detach().float() @ keys
        if index is not None and key_index is not None:
            own = index[start : start + rows, None] == key_index[None, :]
            similarity = similarity.masked_fill_(own, -torch.inf)
        found.append(similarity.topk(min(count, columns), dim=1))
    return Neighbours(
        torch.cat([part.values for part in found]), torch.cat([part.indices for part in found])
    )


def nearest_samples(
    features: Tensor,
    count: int,
    *,
    queries: Tensor | None = None,
    keys: Tensor | None = None,
    itself: bool = False,
    seed: int = 0,
) -> Neighbours:
    """Find the neighbours of training samples among training samples.

    Of more than :data:`MOST_KEYS` samples the search is among so many random ones, or among the
    same share of ``keys``, which keeps its time linear in the number of samples; a warning says so.

    Args:
        features: Features of all samples, of any length, ``(N, D)``.
        count: Number of neighbours.
        queries: The samples whose neighbours are wanted, as positions; None means all.
        keys: The samples that may be neighbours, as positions; None means all.
        itself: Whether a sample may be its own neighbour.
        seed: Names the random keys.

    Returns:
        The neighbours of each query; their positions are those of samples in ``features``.

    Example:
        >>> features = torch.tensor([[1.0, 0.0], [2.0, 0.1], [0.0, 3.0]])
        >>> nearest_samples(features, 1).position.flatten().tolist()
        [1, 0, 1]
    """
    unit = F.normalize(features.float(), dim=1)
    everyone = torch.arange(len(features), device=features.device)
    asked = unit if queries is None else unit[queries]
    queries = everyone if queries is None else queries.to(features.device)
    keys = everyone if keys is None else keys.to(features.device)
    if len(features) > MOST_KEYS:
        warnings.warn(
            f"{len(features):,} samples: neighbours are looked for among {MOST_KEYS:,} of them, "
            "drawn at random",
            EdgeMaskWarning,
            stacklevel=2,
        )
        most = max(count, len(keys) * MOST_KEYS // len(features))
        drawn = torch.randperm(len(keys), generator=torch_stream(seed))[:most]
        keys = keys[drawn.sort().values.to(keys.device)]
    found = nearest_neighbours(
        asked,
        unit if keys is everyone else unit[keys],
        count,
        index=None if itself else queries,
        key_index=None if itself else keys,
    )
    return Neighbours(found.similarity, keys[found.position])


def balanced_votes(around: Neighbours, labels: Tensor, num_classes: int) -> Tensor:
    """Return how much the neighbours of each sample are of each class (SSR).

    The share of a class among the neighbours is divided by its share of all labels, so that large
    classes do not win by their size; each row sums to 1.

    Args:
        around: The neighbours, by position in ``labels``.
        labels: Labels of all samples, ``(N,)``.
        num_classes: Number C of classes.

    Returns:
        ``(B, C)``.

    Example:
        >>> around = Neighbours(torch.ones(1, 2), torch.tensor([[0, 3]]))
        >>> balanced_votes(around, torch.tensor([0, 0, 0, 1]), 2)
        tensor([[0.2500, 0.7500]])
    """
    votes = torch.zeros(len(around.position), num_classes, device=labels.device)
    votes.scatter_add_(1, labels[around.position], around.found.float())
    # A class without a label has no vote either.
    votes = votes / labels.bincount(minlength=num_classes).clamp(min=1)
    return votes / votes.sum(dim=1, keepdim=True).clamp(min=torch.finfo(votes.dtype).tiny)
