"""Confident learning: wrong labels estimated from out-of-sample probabilities."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from edgemask.errors import UserError
from edgemask.noise._checks import Int64, as_labels

__all__ = ["confident_joint", "confident_rate", "estimate_transition"]

Floats = NDArray[np.float64]

# Equal probabilities must not miss their own mean by rounding.
_TOLERANCE = 1e-6
_SUM_TOLERANCE = 1e-3


def confident_joint(pred_probs: ArrayLike, labels: ArrayLike, *, calibrate: bool = True) -> Floats:
    """Count samples by given and probable true label.

    A class's threshold is the mean probability of that class over the samples labelled with it. A
    sample labelled i is counted for true class j where j's probability reaches j's threshold; of
    several such classes the sample's likeliest class is taken; a sample without any is not counted;
    the diagonal is at least 1. Calibrated, row i sums to the number of samples labelled i. These
    are the numbers of cleanlab's ``compute_confident_joint``, before it rounds them.

    Args:
        pred_probs: Probability of each class for each sample, from a model that was not trained on
            that sample.
        labels: The given labels.
        calibrate: Whether to scale the counts to the given labels' frequencies.

    Shape:
        (N, K) and (N) to (K, K), given labels in rows and true ones in columns.

    Reference:
        Northcutt et al., "Confident learning: Estimating uncertainty in dataset labels",
        JAIR 2021, Eq. 1-3.

    Example:
        >>> probs = [[0.9, 0.1], [0.8, 0.2], [0.1, 0.9], [0.2, 0.8], [0.9, 0.1]]
        >>> confident_joint(probs, [0, 0, 1, 1, 1], calibrate=False).tolist()
        [[1.0, 0.0], [1.0, 2.0]]
    """
    probs, given = _predictions(pred_probs, labels)
    joint, _ = joint_of_chunks(lambda: [(slice(None), probs)], given, probs.shape[1], calibrate)
    return joint


def joint_of_chunks(
    chunks: Callable[[], Iterable[tuple[slice, Floats]]],
    given: Int64,
    classes: int,
    calibrate: bool = True,
) -> tuple[Floats, Floats]:
    """Return the confident joint and the threshold of each class, from probabilities in chunks.

    Args:
        chunks: Returns slices of rows with their probabilities; called twice.
        given: The given labels.
        classes: Number of classes.
        calibrate: Whether to scale the counts to the given labels' frequencies.
    """
    frequency = np.bincount(given, minlength=classes)
    own = np.zeros(classes)
    for rows, probs in chunks():
        label = given[rows]
        mine = probs[np.arange(len(label)), label]
        own += np.bincount(label, weights=mine, minlength=classes)
    # A class that nobody was labelled with has no threshold and is never reached.
    threshold = np.where(frequency > 0, own / np.maximum(frequency, 1), np.inf)
    threshold = np.maximum(threshold, 2 * _TOLERANCE)
    joint = np.zeros((classes, classes))
    for rows, probs in chunks():
        reached = probs >= threshold - _TOLERANCE
        number = reached.sum(axis=1)
        true = np.where(number > 1, probs.argmax(axis=1), reached.argmax(axis=1))
        pairs = (given[rows] * classes + true)[number > 0]
        joint += np.bincount(pairs, minlength=classes**2).reshape(classes, classes)
    # Every class counts at least one of its samples as right, as cleanlab does.
    np.fill_diagonal(joint, np.maximum(joint.diagonal(), 1.0))
    if calibrate:
        joint = joint / joint.sum(axis=1, keepdims=True) * frequency[:, None]
    return joint, threshold


def confident_rate(pred_probs: ArrayLike, labels: ArrayLike) -> float:
    """Estimate the noise rate from predictions: the off-diagonal share of the confident joint.

    Example:
        >>> probs = [[0.9, 0.1]] * 3 + [[0.1, 0.9]] * 3
        >>> round(confident_rate(probs, [0, 0, 1, 1, 1, 1]), 3)
        0.167
    """
    joint = confident_joint(pred_probs, labels)
    return float(1.0 - np.trace(joint) / joint.sum())


def estimate_transition(pred_probs: ArrayLike, labels: ArrayLike) -> Floats:
    """Estimate the transition matrix from predictions, by the calibrated confident joint.

    ``result[i, j]`` is the probability that a sample of true class i is labelled j; rows sum to 1.
    A class that no sample seems to belong to has an identity row.

    Example:
        >>> probs = [[0.9, 0.1]] * 3 + [[0.1, 0.9]] * 3
        >>> estimate_transition(probs, [0, 0, 1, 1, 1, 1]).round(2).tolist()
        [[0.67, 0.33], [0.0, 1.0]]
    """
    return transition_of(confident_joint(pred_probs, labels))


def transition_of(joint: Floats) -> Floats:
    """Return the probability of each given label for each true class, from the joint counts."""
    counts = joint.T
    totals = counts.sum(axis=1, keepdims=True)
    return np.where(totals > 0, counts / np.where(totals > 0, totals, 1.0), np.eye(len(counts)))


def _predictions(pred_probs: ArrayLike, labels: ArrayLike) -> tuple[Floats, Int64]:
    probs = np.asarray(pred_probs, dtype=np.float64)
    if probs.ndim != 2 or probs.shape[1] < 2:
        raise UserError(f"pred_probs must be (samples, classes), got the shape {probs.shape}")
    given = as_labels(labels, probs.shape[1])
    if len(given) != len(probs):
        raise UserError(f"pred_probs has {len(probs)} rows, but there are {len(given)} labels")
    return check_probabilities(probs, 0, "pred_probs"), given


def check_probabilities(probs: NDArray[Any], start: int, name: str) -> NDArray[Any]:
    """Return rows of probabilities, or say which is none.

    Args:
        probs: The rows.
        start: Position of the first one.
        name: What to call them in an error.
    """
    with np.errstate(invalid="ignore"):
        # NaN compares false, so that rows that are not finite are found as well.
        sound = (probs.min(axis=1) >= 0) & (np.abs(probs.sum(axis=1) - 1.0) <= _SUM_TOLERANCE)
    if not sound.all():
        broken = np.flatnonzero(~sound)
        raise UserError(
            f"{name}[{start + broken[0]}] is not a distribution ({broken.size} such rows): entries "
            "must not be negative and must sum to 1; pass softmax outputs, not logits"
        )
    return probs
