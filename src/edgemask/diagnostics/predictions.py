"""How predictions relate to given and true labels: confidence, memorisation, calibration."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["calibration", "confidence_split", "memorisation", "selection_quality"]


def _label_arrays(**named: ArrayLike) -> list[NDArray[np.int64]]:
    """Return the arrays as int64 rows of one length; name the one that is not."""
    arrays = {name: np.asarray(values) for name, values in named.items()}
    first = next(iter(arrays))
    for name, array in arrays.items():
        if array.ndim != 1 or array.dtype.kind not in "iu":
            raise ValueError(
                f"{name} must be a row of class numbers, got {array.dtype} of shape {array.shape}"
            )
        if len(array) != len(arrays[first]):
            raise ValueError(f"{name} has {len(array)} labels, {first} has {len(arrays[first])}")
    return [array.astype(np.int64) for array in arrays.values()]


def confidence_split(
    confidence: ArrayLike, given: ArrayLike, clean: ArrayLike
) -> dict[str, float | None]:
    """Average the probability of the given label over right and over wrong labels.

    A model that memorises grows sure of wrong labels too; one that resists keeps the two apart.

    Args:
        confidence: Predicted probability of each sample's given label, ``(N,)``.
        given: The labels trained on, ``(N,)``.
        clean: The true labels, ``(N,)``; -1 for a sample of none of the classes.

    Returns:
        ``confidence/clean`` and ``confidence/noisy``; None where there is no such sample.

    Example:
        >>> confidence_split([0.9, 0.7, 0.2], [0, 1, 1], [0, 1, 0])
        {'confidence/clean': 0.8, 'confidence/noisy': 0.2}
    """
    labels, truth = _label_arrays(given=given, clean=clean)
    values = np.asarray(confidence, dtype=np.float64)
    if values.shape != labels.shape:
        raise ValueError(f"confidence has shape {values.shape}, the labels have {labels.shape}")
    right = labels == truth
    return {
        "confidence/clean": float(values[right].mean()) if right.any() else None,
        "confidence/noisy": float(values[~right].mean()) if not right.all() else None,
    }


def memorisation(
    predicted: ArrayLike, given: ArrayLike, clean: ArrayLike
) -> dict[str, float | None]:
    """Compare predictions on the training samples with given and true labels.

    Args:
        predicted: The predicted classes of the training samples, ``(N,)``.
        given: The labels trained on, ``(N,)``.
        clean: The true labels, ``(N,)``; -1 for a sample of none of the classes.

    Returns:
        ``memorised``: share of wrongly labelled samples predicted as labelled;
        ``corrected``: share of wrongly labelled samples (of a known class) predicted as they are;
        ``fitted``: share of rightly labelled samples predicted as labelled.
        None where there is no such sample.

    Example:
        >>> memorisation(predicted=[0, 1, 1], given=[0, 1, 0], clean=[0, 0, 1])
        {'memorised': 0.5, 'corrected': 0.5, 'fitted': 1.0}
    """
    classes, labels, truth = _label_arrays(predicted=predicted, given=given, clean=clean)
    wrong = labels != truth
    known = wrong & (truth >= 0)

    def share(hits: np.ndarray, among: np.ndarray) -> float | None:
        return float(hits[among].mean()) if among.any() else None

    return {
        "memorised": share(classes == labels, wrong),
        "corrected": share(classes == truth, known),
        "fitted": share(classes == labels, ~wrong),
    }


def selection_quality(
    selected: ArrayLike, given: ArrayLike, clean: ArrayLike
) -> dict[str, float | None]:
    """Compare the selected labels with the right ones.

    Args:
        selected: Whether each given label is selected, or the share of networks that select it,
            ``(N,)``.
        given: The labels trained on, ``(N,)``.
        clean: The true labels, ``(N,)``; -1 for a sample of none of the classes.

    Returns:
        ``selection/precision``: share of right labels among the selected ones;
        ``selection/recall``: share of right labels that are selected.
        None where there is no such sample.

    Example:
        >>> selection_quality([True, True, False], given=[0, 1, 0], clean=[0, 0, 0])
        {'selection/precision': 0.5, 'selection/recall': 0.5}
    """
    labels, truth = _label_arrays(given=given, clean=clean)
    chosen = np.asarray(selected, dtype=np.float64)
    if chosen.shape != labels.shape:
        raise ValueError(f"selected has shape {chosen.shape}, the labels have {labels.shape}")
    right = labels == truth
    hits, count = float(chosen[right].sum()), float(chosen.sum())
    return {
        "selection/precision": hits / count if count else None,
        "selection/recall": hits / int(right.sum()) if right.any() else None,
    }


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
