"""Labels that are left as they are: known to be clean, or of unknown quality."""

from __future__ import annotations

from numpy.typing import ArrayLike

from edgemask.noise._checks import as_labels, check_classes
from edgemask.noise.labels import NoisyLabels

__all__ = ["clean", "given"]


def clean(labels: ArrayLike, num_classes: int) -> NoisyLabels:
    """Leave all labels as they are; they count as true.

    Example:
        >>> clean([0, 1, 1], 2).realised_rate
        0.0
    """
    classes = check_classes(num_classes)
    true = as_labels(labels, classes)
    return NoisyLabels(clean=true, noisy=true, num_classes=classes, kind="clean", rate=0.0)


def given(labels: ArrayLike, num_classes: int) -> NoisyLabels:
    """Leave all labels as they are, with nothing known about which of them are true.

    Example:
        >>> given([0, 1, 1], 2).summary()
        'given, realised unknown'
    """
    classes = check_classes(num_classes)
    noisy = as_labels(labels, classes)
    return NoisyLabels(clean=None, noisy=noisy, num_classes=classes, kind="given")
