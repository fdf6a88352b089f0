"""Instance-dependent noise: the features of a sample decide how likely it gets which label."""

from __future__ import annotations

import dataclasses
import os
from statistics import NormalDist
from typing import Annotated, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from edgemask._options import Range, checked
from edgemask.errors import UserError
from edgemask.noise._checks import Classes, Int64, Rate, Seed, as_labels
from edgemask.noise.files import from_file
from edgemask.noise.labels import NoisyLabels

__all__ = ["instance_dependent"]

_PUBLISHED = (0.2, 0.4, 0.6)
_ROWS = 1024  # how many samples are held in float64 at a time


@checked
def instance_dependent(
    labels: ArrayLike,
    rate: Rate,
    num_classes: Classes,
    *,
    seed: Seed = 0,
    protocol: Literal["paper", "jal"] = "paper",
    features: ArrayLike | None = None,
    std: Annotated[float, Range(above=0)] = 0.1,
    root: str | os.PathLike[str] | None = None,
) -> NoisyLabels:
    """Mislabel samples by their features (PDN).

    ``paper`` is the generator of PDN: sample i has its own rate q_i from N(rate, std^2) cut to
    [0, 1]; a random projection W_y of its features scores the other classes; it keeps its label
    with probability ``1 - q_i`` and else gets class k with probability ``softmax(x_i W_y)_k``. Rate
    0 is no noise.

    ``jal`` is another generator, whose draws came from augmented images and cannot be repeated: its
    published labels for CIFAR-10 and CIFAR-100 at 0.2, 0.4 and 0.6 are read from
    ``idn-labels.npz`` below ``root``. The other protocols do not define instance noise.

    Args:
        labels: True labels, one per sample.
        rate: The nominal noise rate.
        num_classes: The number of classes.
        seed: Seed of the draw.
        protocol: ``paper`` or ``jal``.
        features: One row per sample (further dimensions are flattened). The official code
            takes raw pixels, 0..255: scores are then so far apart that each sample has one
            wrong label only; scaled features give softer noise.
        std: Standard deviation of the samples' own rates.
        root: The folder that holds ``idn-labels.npz``, for ``jal``.

    Reference:
        Xia et al., "Part-dependent label noise: Towards instance-dependent label noise",
        NeurIPS 2020.

    Example:
        >>> pixels = np.random.RandomState(0).randint(0, 256, size=(500, 12))
        >>> noisy = instance_dependent([0, 1, 2, 3, 4] * 100, 0.4, 5, seed=1, features=pixels)
        >>> abs(noisy.realised_rate - 0.4) < 0.05
        True
    """
    clean = as_labels(labels, num_classes)
    if protocol == "jal":
        return _published(clean, rate, num_classes, root)
    flat = _flat(features, len(clean))
    noisy = clean if rate == 0 else _pdn(clean, rate, num_classes, flat, std, seed)
    return NoisyLabels(
        clean=clean,
        noisy=noisy,
        num_classes=num_classes,
        kind="instance",
        protocol=protocol,
        rate=rate,
        seed=seed,
        details={"std": std, "features": flat.shape[1]},
    )


def _flat(features: ArrayLike | None, count: int) -> NDArray[np.generic]:
    if features is None:
        raise UserError(
            "instance-dependent noise depends on the features of samples: give features=, an array "
            "with one row for each sample (raw pixels, as the official code has it)"
        )
    array = np.asarray(features)
    if array.ndim < 2 or len(array) != count:
        raise UserError(f"features must have {count} rows, one for each label; got {array.shape}")
    if array.dtype.kind not in "iufb":
        raise UserError(f"features must be numbers, got values of type {array.dtype}")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        row = int(np.argwhere(~np.isfinite(array))[0][0])
        raise UserError(f"features[{row}] holds a value that is not finite")
    return array.reshape(count, -1)


def _pdn(
    clean: Int64, rate: float, classes: int, features: NDArray[np.generic], std: float, seed: int
) -> Int64:
    rng = np.random.RandomState(seed)
    rates = _truncated_normal(rng.random_sample(len(clean)), rate, std)
    projections = rng.standard_normal((classes, features.shape[1], classes)).astype(np.float32)
    probs = np.empty((len(clean), classes), dtype=np.float32)
    for label in range(classes):
        members = np.flatnonzero(clean == label)
        weight = projections[label].astype(np.float64)
        for rows in np.split(members, range(_ROWS, len(members), _ROWS)):
            # Scores in float64, so that they do not depend on the machine's order of summation.
            scores = features[rows].astype(np.float32).astype(np.float64) @ weight
            scores[:, label] = -np.inf
            scores = np.exp(scores - scores.max(axis=1, keepdims=True, initial=-np.inf))
            part = rates[rows, None] * (scores / scores.sum(axis=1, keepdims=True))
            part[:, label] += 1.0 - rates[rows]
            probs[rows] = part
    edges = np.cumsum(probs.astype(np.float64), axis=1)
    edges /= edges[:, -1:]
    drawn = rng.random_sample(len(clean))
    return np.asarray((edges <= drawn[:, None]).sum(axis=1), dtype=np.int64)


def _truncated_normal(
    uniforms: NDArray[np.float64], mean: float, std: float
) -> NDArray[np.float64]:
    """Return N(mean, std^2) cut to [0, 1], by inversion of its distribution function."""
    normal = NormalDist()
    low, high = normal.cdf(-mean / std), normal.cdf((1.0 - mean) / std)
    levels = low + uniforms * (high - low)
    levels = np.clip(levels, np.nextafter(0.0, 1.0), np.nextafter(1.0, 0.0))
    drawn = np.array([mean + std * normal.inv_cdf(level) for level in levels.tolist()])
    return np.asarray(np.clip(drawn, 0.0, 1.0))


def _published(
    clean: Int64, rate: float, classes: int, root: str | os.PathLike[str] | None
) -> NoisyLabels:
    if classes not in (10, 100) or not any(abs(rate - known) < 1e-9 for known in _PUBLISHED):
        raise UserError(
            "protocol 'jal' has instance-dependent labels for CIFAR-10 and CIFAR-100 at the rates "
            f"0.2, 0.4 and 0.6 only, got {classes} classes at {rate:g}; use protocol='paper'"
        )
    name = f"idn-labels.npz#eps_cifar{classes}_dependent_{rate:.1f}"
    found = from_file(clean, name, classes, root=root)
    return dataclasses.replace(found, kind="instance", protocol="jal", rate=rate)
