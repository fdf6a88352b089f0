"""Labels that are left as they are: known to be clean, or of unknown quality."""

from __future__ import annotations

from numpy.typing import ArrayLike

from edgemask._options import checked
from edgemask.noise._checks import Classes, as_labels
from edgemask.noise.labels import NoisyLabels

__all__ = ["clean", "given"]


@checked
def clean(labels: ArrayLike, num_classes: Classes) -> NoisyLabels:
    """Leave all labels as they are; they count as true.

    ``T_ii = 1``.

    Example:
        >>> clean([0, 1, 1], 2).realised_rate
        0.0
    """
    true = as_labels(labels, num_classes)
    return NoisyLabels(clean=true, noisy=true, num_classes=num_classes, kind="clean", rate=0.0)


@checked
def given(labels: ArrayLike, num_classes: Classes) -> NoisyLabels:
    """Leave all labels as they are, with nothing known about which of them are true.

    Example:
        >>> given([0, 1, 1], 2).summary()
        'given, realised unknown'
    """
    noisy = as_labels(labels, num_classes)
    return NoisyLabels(clean=None, noisy=noisy, num_classes=num_classes, kind="given")
