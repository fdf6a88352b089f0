"""Accuracy, balanced accuracy and accuracy by class, and their summary over a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["accuracies", "summarise"]


def accuracies(
    predicted: ArrayLike, labels: ArrayLike, num_classes: int
) -> tuple[float, float, list[float | None]]:
    """Return accuracy, balanced accuracy and accuracy by class.

    Args:
        predicted: Class numbers, ``(N,)``.
        labels: True class numbers, ``(N,)``.
        num_classes: Number of classes.

    Returns:
        The accuracy; its mean over the classes that occur; and the accuracy of each class, None
        for a class without samples.

    Example:
        >>> accuracies([0, 0, 1, 1], [0, 0, 0, 1], 3)
        (0.75, 0.8333333333333333, [0.6666666666666666, 1.0, None])
    """
    predictions, truth = np.asarray(predicted), np.asarray(labels)
    if not len(truth):
        raise ValueError("there are no samples to test on")
    right = predictions == truth
    count = np.bincount(truth, minlength=num_classes)
    hits = np.bincount(truth, weights=right, minlength=num_classes)
    by_class = [float(h / c) if c else None for h, c in zip(hits, count, strict=True)]
    seen = [value for value in by_class if value is not None]
    return float(right.mean()), float(np.mean(seen)), by_class


def chosen_epoch(
    history: Sequence[dict[str, Any]], validation: str = "validation/accuracy"
) -> dict[str, Any] | None:
    """Return the metrics of the epoch that did best on held-out data, the first one of equals.

    Args:
        history: The epochs' metrics.
        validation: The metric that chooses.

    Returns:
        None where no epoch has that metric.
    """
    judged = [row for row in history if row.get(validation) is not None]
    return max(judged, key=lambda row: row[validation], default=None)


def summarise(
    history: Sequence[dict[str, Any]], key: str, *, validation: str = "validation/accuracy"
) -> dict[str, Any]:
    """Reduce a metric over the epochs to the numbers that papers quote, each under its own name.

    Args:
        history: The epochs' metrics.
        key: The metric; epochs without it are left out.
        validation: The metric on held-out noisy data that chooses ``at_validation``.

    Returns:
        ``last``; ``mean_last_10`` and ``std_last_10`` (over the last ten tested epochs, the
        deviation being theirs and no estimate over seeds); ``best`` and ``best_epoch``
        (chosen on the test set itself: an oracle, not a result); ``at_validation``, the value at
        the epoch with the best validation metric, or None without one.

    Example:
        >>> epochs = [{"epoch": 0, "a": 0.5}, {"epoch": 1, "a": 0.7}, {"epoch": 2, "a": 0.6}]
        >>> summarise(epochs, "a")["best_epoch"]
        1
    """
    rows = [row for row in history if row.get(key) is not None]
    if not rows:
        return dict.fromkeys(
            ("last", "mean_last_10", "std_last_10", "best", "best_epoch", "at_validation")
        )
    values: NDArray[np.float64] = np.array([row[key] for row in rows], dtype=np.float64)
    best = int(values.argmax())
    chosen = chosen_epoch(rows, validation)
    return {
        "last": float(values[-1]),
        "mean_last_10": float(values[-10:].mean()),
        "std_last_10": float(values[-10:].std()),
        "best": float(values[best]),
        "best_epoch": int(rows[best]["epoch"]),
        "at_validation": None if chosen is None else chosen[key],
    }
