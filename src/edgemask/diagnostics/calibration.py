"""Whether a model is as sure as it is right."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

__all__ = ["calibration"]


def calibration(
    certainty: ArrayLike,
    correct: ArrayLike,
    *,
    bins: int = 15,
    loss: ArrayLike | None = None,
    squares: ArrayLike | None = None,
) -> dict[str, float]:
    """Return calibration error, and the two proper scores where their parts are given.

    The expected calibration error cuts [0, 1] into equal bins (low, high] and averages
    ``|accuracy - certainty|`` over them, weighted by their samples.

    Args:
        certainty: Probability of the predicted class, ``(N,)``.
        correct: Whether the prediction is right, ``(N,)``.
        bins: Number of bins.
        loss: Negative log probability of the true class, ``(N,)``.
        squares: Sum over classes of ``(p - onehot(y))^2``, ``(N,)``.

    Returns:
        ``ece``, and ``nll`` and ``brier`` where given.

    Reference:
        Guo et al., On Calibration of Modern Neural Networks, ICML 2017.

    Example:
        >>> calibration([0.5, 0.5, 1.0, 1.0], [True, False, True, False])
        {'ece': 0.25}
    """
    sure = np.asarray(certainty, dtype=np.float64)
    right = np.asarray(correct, dtype=np.float64)
    if sure.shape != right.shape or sure.ndim != 1 or not len(sure):
        raise ValueError(
            f"certainty and correct must be rows of one length, got {sure.shape}, {right.shape}"
        )
    edges = np.linspace(0.0, 1.0, bins + 1)
    place = np.clip(np.searchsorted(edges, sure, side="left") - 1, 0, bins - 1)
    gaps = np.bincount(place, weights=right - sure, minlength=bins)
    result = {"ece": float(np.abs(gaps).sum() / len(sure))}
    if loss is not None:
        result["nll"] = float(np.mean(np.asarray(loss, dtype=np.float64)))
    if squares is not None:
        result["brier"] = float(np.mean(np.asarray(squares, dtype=np.float64)))
    return result
