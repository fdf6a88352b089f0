"""Cheap models of another kind than the network, fitted to the same folds in an audit."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from edgemask.data import Split
from edgemask.errors import MissingExtraError

__all__ = ["default_models", "out_of_bag", "out_of_fold", "sample_features"]

_BATCH = 512
_SIDE = 8
_WIDE = 256
_MAX_NUMBERS = 200_000_000


def sample_features(split: Split) -> Any:
    """Return the samples as rows of numbers: pixels (averaged to 8 x 8), features, or term weights.

    Mostly zero features become a sparse matrix. None where that would be too large for memory.
    """
    parts: list[Any] = []
    sparse = False
    for start in range(0, len(split), _BATCH):
        raw = split.raw(torch.arange(start, min(start + _BATCH, len(split)))).float()
        if raw.ndim == 4 and raw[0].numel() > _WIDE:
            raw = torch.nn.functional.adaptive_avg_pool2d(raw, _SIDE)
        rows = raw.flatten(1).numpy()
        if not start:
            sparse = rows.shape[1] > _WIDE and float((rows != 0).mean()) < 0.2
            if not sparse and rows.shape[1] * len(split) > _MAX_NUMBERS:
                return None
        parts.append(_sparse_rows(rows) if sparse else rows)
    if sparse:
        from scipy.sparse import vstack

        return vstack(parts).tocsr()
    return np.concatenate(parts)


def _sparse_rows(rows: NDArray[np.float32]) -> Any:
    from scipy.sparse import csr_matrix

    return csr_matrix(rows)


def default_models(features: Any, seed: int) -> dict[str, Callable[[], Any]]:
    """Return functions that make a scikit-learn classifier each, by kind."""
    try:
        from sklearn.ensemble import ExtraTreesClassifier
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler
    except ImportError as error:
        raise MissingExtraError("scikit-learn", "app", "to audit labels", error) from error
    if not isinstance(features, np.ndarray):
        return {"linear": lambda: LogisticRegression(max_iter=300)}
    return {
        "trees": lambda: ExtraTreesClassifier(200, min_samples_leaf=3, random_state=seed),
        "linear": lambda: make_pipeline(
            StandardScaler(), LogisticRegression(C=0.1, max_iter=300, random_state=seed)
        ),
    }


def out_of_fold(
    make: Callable[[], Any],
    features: Any,
    given: NDArray[np.int64],
    folds: NDArray[np.int64],
    classes: int,
    usable: NDArray[np.bool_],
) -> NDArray[np.float64]:
    """Return each sample's probabilities from a classifier fitted without its fold.

    Args:
        make: Makes the classifier.
        features: One row per sample.
        given: The labels to learn.
        folds: The fold of each sample.
        classes: Number of classes; one that no training sample has gets probability 0.
        usable: Samples to learn from.
    """
    probs = np.zeros((len(given), classes))
    for fold in np.unique(folds):
        inside, outside = folds == fold, (folds != fold) & usable
        model = make()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # not converged: probabilities are good enough
            model.fit(features[outside], given[outside])
            found = model.predict_proba(features[inside])
        rows = np.flatnonzero(inside)
        probs[rows[:, None], np.asarray(model.classes_)[None, :]] = found
    return probs


def out_of_bag(
    features: NDArray[Any],
    given: NDArray[np.int64],
    classes: int,
    seed: int,
    usable: NDArray[np.bool_],
) -> NDArray[np.float64]:
    """Return each sample's probabilities from the trees of one forest that have not seen it.

    Args:
        features: One row per sample.
        given: The labels to learn.
        classes: Number of classes.
        seed: Seed of the forest.
        usable: Samples to learn from; no tree has seen the others.
    """
    from sklearn.ensemble import ExtraTreesClassifier

    forest = ExtraTreesClassifier(
        200, min_samples_leaf=3, bootstrap=True, oob_score=True, random_state=seed
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a sample that all trees have seen: handled below
        forest.fit(features[usable], given[usable])
    probs = np.zeros((len(given), classes))
    probs[np.ix_(usable, forest.classes_)] = forest.oob_decision_function_
    if not usable.all():
        probs[np.ix_(~usable, forest.classes_)] = forest.predict_proba(features[~usable])
    unseen = ~np.isfinite(probs).all(axis=1) | (probs.sum(axis=1) == 0)
    probs[unseen] = np.bincount(given, minlength=classes) / len(given)
    return probs
