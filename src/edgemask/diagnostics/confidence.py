"""How sure a model is of the labels it was given."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from edgemask.diagnostics._labels import label_arrays

__all__ = ["confidence_split"]


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
    labels, truth = label_arrays(given=given, clean=clean)
    values = np.asarray(confidence, dtype=np.float64)
    if values.shape != labels.shape:
        raise ValueError(f"confidence has shape {values.shape}, the labels have {labels.shape}")
    right = labels == truth
    return {
        "confidence/clean": float(values[right].mean()) if right.any() else None,
        "confidence/noisy": float(values[~right].mean()) if not right.all() else None,
    }
