"""What became of wrong labels: learnt by heart, seen through, or neither."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from edgemask.diagnostics._labels import label_arrays

__all__ = ["memorisation"]


def memorisation(
    predicted: ArrayLike, given: ArrayLike, clean: ArrayLike
) -> dict[str, float | None]:
    """Compare predictions on the training samples with given and true labels.

    Args:
        predicted: The model's answers on the training samples, ``(N,)``.
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
    answers, labels, truth = label_arrays(predicted=predicted, given=given, clean=clean)
    wrong = labels != truth
    known = wrong & (truth >= 0)

    def share(hits: np.ndarray, among: np.ndarray) -> float | None:
        return float(hits[among].mean()) if among.any() else None

    return {
        "memorised": share(answers == labels, wrong),
        "corrected": share(answers == truth, known),
        "fitted": share(answers == labels, ~wrong),
    }
