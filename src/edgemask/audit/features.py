"""An audit from features without training: labels of the nearest neighbours."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from edgemask._random import torch_stream
from edgemask.audit.label_audit import LabelAudit
from edgemask.audit.probabilities import encode_labels, from_probabilities
from edgemask.errors import EdgeMaskWarning, UserError

__all__ = ["from_features", "neighbour_probabilities"]

_CHUNK = 1 << 24
MOST_KEYS = 50_000
"""Samples that each one is compared with, at most: time is linear in the samples beyond."""


def from_features(
    labels: ArrayLike,
    features: Any,
    *,
    neighbours: int = 20,
    metric: Literal["euclidean", "cosine"] = "euclidean",
    ids: Sequence[str] | None = None,
    class_names: Sequence[str] | None = None,
    chance_driven: bool = False,
    seed: int = 0,
) -> LabelAudit:
    """Audit given labels by the labels of samples with similar features.

    The probability of a class is its share among the nearest neighbours, the sample itself left
    out; it then goes the way of :func:`from_probabilities`. Features of a pretrained network do
    better than pixels. Up to 50,000 samples time grows with their square; beyond, each sample
    is compared with 50,000 random ones. Memory beyond the features is bounded.

    Args:
        labels: The given labels: class numbers or names.
        features: One row of numbers per sample, ``(N, D)``.
        neighbours: How many neighbours are asked.
        metric: ``euclidean``, after each feature was scaled to standard deviation 1; or
            ``cosine``, for embeddings whose length means nothing.
        ids: What to call each sample; its row otherwise.
        class_names: One name per class number; the labels that occur otherwise.
        chance_driven: Whether outcomes depend on chance; see :func:`from_probabilities`.
        seed: Breaks ties.

    Example:
        >>> features = np.r_[np.zeros((30, 2)), np.ones((30, 2))]
        >>> labels = [0] * 30 + [1] * 29 + [0]
        >>> from_features(labels, features).suspects["id"].tolist()
        ['59']
    """
    values = np.asarray(labels)
    if class_names is None:
        found = np.unique(values if values.dtype.kind in "iub" else values.astype(np.str_))
        class_names = [str(value) for value in found]
        if values.dtype.kind in "iub":
            values = np.searchsorted(found, values)
    if len(class_names) < 2:
        raise UserError("an audit needs at least two different labels")
    given, names = encode_labels(values, len(class_names), class_names)
    probs = neighbour_probabilities(
        features, given, len(names), neighbours=neighbours, metric=metric
    )
    return from_probabilities(
        given,
        probs,
        ids=ids,
        class_names=names,
        chance_driven=chance_driven,
        source="features",
        seed=seed,
    )


def _asked(count: int) -> Any:
    """Return the samples that may be neighbours: all, or some at random where there are many."""
    import torch

    if count <= MOST_KEYS:
        return torch.arange(count)
    warnings.warn(
        f"{count:,} samples: neighbours are looked for among {MOST_KEYS:,} of them, drawn at "
        "random",
        EdgeMaskWarning,
        stacklevel=4,
    )
    return torch.randperm(count, generator=torch_stream(0))[:MOST_KEYS].sort().values


def neighbour_probabilities(
    features: Any,
    given: NDArray[np.int64],
    classes: int,
    *,
    neighbours: int = 20,
    metric: str = "euclidean",
) -> NDArray[np.float32]:
    """Return the share of each class among the nearest neighbours of each sample.

    The shares of all labels count as one further neighbour, so that no class has probability 0.
    """
    import torch

    if hasattr(features, "detach"):
        features = features.detach().cpu().numpy()
    array = np.asarray(features, dtype=np.float32)
    array = array.reshape(len(array), -1) if array.ndim > 2 else array
    if array.ndim != 2 or len(array) != len(given):
        raise UserError(
            f"features must be one row for each of the {len(given)} labels, got the shape "
            f"{array.shape}"
        )
    if not np.isfinite(array).all():
        row = int(np.flatnonzero(~np.isfinite(array).all(axis=1))[0])
        raise UserError(f"features of sample {row} are not finite")
    if metric not in ("euclidean", "cosine"):
        raise UserError(f"metric must be 'euclidean' or 'cosine', got {metric!r}")
    count = min(neighbours, len(array) - 1)
    if count < 1:
        raise UserError("neighbours must be at least 1, and there must be two samples")
    data = torch.from_numpy(array if array.flags.writeable else array.copy())
    std, mean = torch.std_mean(data, dim=0, correction=0)
    data = (data - mean) / std.clamp_min(1e-12) if metric == "euclidean" else data
    if metric == "cosine":
        data = torch.nn.functional.normalize(data, dim=1)
    squares = data.square().sum(1)
    labels = torch.tensor(given)
    asked = _asked(len(array))
    share = torch.bincount(labels, minlength=classes).float() / len(labels)
    result = np.empty((len(array), classes), dtype=np.float32)
    columns, squares, theirs = data[asked], squares[asked], labels[asked]
    step = max(1, _CHUNK // len(asked))
    for start in range(0, len(array), step):
        rows = slice(start, start + step)
        # The square of the row's own length is the same for all columns.
        distance = squares - 2 * data[rows] @ columns.T
        here = torch.arange(start, min(start + step, len(array)))
        itself = torch.searchsorted(asked, here).clamp(max=len(asked) - 1)
        present = asked[itself] == here
        distance[(here - start)[present], itself[present]] = torch.inf
        nearest = distance.topk(count, dim=1, largest=False).indices
        counts = torch.zeros(len(here), classes)
        counts.scatter_add_(1, theirs[nearest], torch.ones(len(here), count))
        result[rows] = ((counts + share) / (count + 1)).numpy()
    return result
