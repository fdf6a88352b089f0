"""Handwritten digits that come with scikit-learn."""

from __future__ import annotations

import numpy as np

from edgemask.data.bundle import DataBundle
from edgemask.data.own_data import from_arrays
from edgemask.data.splits import stratified_holdout
from edgemask.errors import MissingExtraError

__all__ = ["digits"]


def digits() -> DataBundle:
    """1,797 digits of 8 x 8 grey pixels, shipped with scikit-learn; a fixed fifth is held out.

    Reference:
        Alpaydin and Kaynak, Optical Recognition of Handwritten Digits, UCI Machine Learning
        Repository, 1998.
    """
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise MissingExtraError("scikit-learn", "app", "for the digits dataset", error) from error
    found = load_digits()
    # Grey levels 0..16 become 0..255, one to one.
    images = np.rint(found.images * (255 / 16)).astype(np.uint8)
    labels = found.target.astype(np.int64)
    train, test = stratified_holdout(labels, 0.2)
    return from_arrays(
        images[train],
        labels[train],
        x_test=images[test],
        y_test=labels[test],
        clean=True,
        recipe="digits",
        name="digits",
    )
