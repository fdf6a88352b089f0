"""Confident learning: wrong labels estimated from out-of-sample probabilities."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from edgemask.errors import UserError
from edgemask.noise._checks import Int64, as_labels

__all__ = ["confident_joint", "confident_rate", "estimate_transition"]

Floats = NDArray[np.float64]


def confident_joint(pred_probs: ArrayLike, labels: ArrayLike, *, calibrate: bool = True) -> Floats:
    """Count samples by given and probable true label.

    A class's threshold is the mean probability of that class over the samples labelled with it. A
    sample labelled i is counted for true class j where j's probability reaches j's threshold; of
    several such classes the likeliest is taken; a sample without any is not counted. Calibrated,
    row i sums to the number of samples labelled i (if none of them was counted, all count as
    right).

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
    classes = probs.shape[1]
    frequency = np.bincount(given, minlength=classes)
    own = np.bincount(given, weights=probs[np.arange(len(given)), given], minlength=classes)
    # A class that nobody was labelled with has no threshold and is never reached.
    threshold = np.where(frequency > 0, own / np.maximum(frequency, 1), np.inf)
    # The tolerance keeps equal probabilities from missing their own mean by rounding.
    reached = np.where(probs >= threshold - 1e-6, probs, -np.inf)
    counted = np.isfinite(reached).any(axis=1)
    joint = np.zeros((classes, classes))
    np.add.at(joint, (given[counted], reached[counted].argmax(axis=1)), 1.0)
    if not calibrate:
        return joint
    empty = joint.sum(axis=1) == 0
    joint[empty, empty] = 1.0
    return np.asarray(joint / joint.sum(axis=1, keepdims=True) * frequency[:, None])


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
    joint = confident_joint(pred_probs, labels).T
    totals = joint.sum(axis=1, keepdims=True)
    return np.where(totals > 0, joint / np.where(totals > 0, totals, 1.0), np.eye(len(joint)))


def _predictions(pred_probs: ArrayLike, labels: ArrayLike) -> tuple[Floats, Int64]:
    probs = np.asarray(pred_probs, dtype=np.float64)
    if probs.ndim != 2 or probs.shape[1] < 2:
        raise UserError(f"pred_probs must be (samples, classes), got the shape {probs.shape}")
    given = as_labels(labels, probs.shape[1])
    if len(given) != len(probs):
        raise UserError(f"pred_probs has {len(probs)} rows, but there are {len(given)} labels")
    broken = np.flatnonzero(
        ~np.isfinite(probs).all(axis=1)
        | (probs < 0).any(axis=1)
        | (np.abs(probs.sum(axis=1) - 1.0) > 1e-3)
    )
    if broken.size:
        raise UserError(
            f"pred_probs[{broken[0]}] is not a distribution ({broken.size} such rows): entries "
            "must not be negative and must sum to 1; pass softmax outputs, not logits"
        )
    return probs, given
