"""A scikit-learn estimator that learns from partly wrong labels."""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from edgemask._random import seeded_globals
from edgemask.errors import MissingExtraError
from edgemask.runs import suspicious_order

try:
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.utils import check_random_state
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_is_fitted
except ImportError as error:
    raise MissingExtraError("scikit-learn", "app", "for its estimator", error) from error

__all__ = ["NoisyLabelClassifier"]

_QUIET = {"log": {"trackers": [], "thumbnails": 0, "checkpoint_epochs": 0}}


class NoisyLabelClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Trains a network on partly wrong labels, behind scikit-learn's interface.

    It is :func:`edgemask.fit` on arrays ``(samples, features)``, sparse ones included; NaN is a
    missing value. All samples are trained on; none is held out. Nothing is written to the working
    directory: the run's folder is temporary unless ``out`` names one.

    Args:
        model: A name, ``"mlp(hidden=[64])"``, or a function that makes a module.
        head: The classifier layer, such as ``"sem"``.
        loss: The loss, such as ``"gce"``. Default: as in :func:`edgemask.fit`.
        method: The way of learning, such as ``"elr"``.
        epochs: Passes over the data.
        batch_size: Samples of one step; None: an eighth of the samples, 8 to 128.
        lr: Learning rate.
        settings: Any other setting, as nested mapping.
        out: The run's folder, for ``edgemask report``; what it held before is removed.
        random_state: Seed of weights, order and masks, as scikit-learn understands it.
        device: ``auto``, ``cpu``, ``cuda`` or ``cuda:N``.

    Attributes:
        classes_: The labels of the classes.
        n_features_in_: Number of features.
        trust_: A score in [0, 1] for each training sample, higher where its given label is more
            likely right.
        suspects_: Positions of the training samples with a trust below 0.5, the least trusted
            first.
        model_: The trained network.

    Example:
        >>> from sklearn.datasets import load_iris
        >>> from sklearn.pipeline import make_pipeline
        >>> from sklearn.preprocessing import StandardScaler
        >>> x, y = load_iris(return_X_y=True)
        >>> classifier = NoisyLabelClassifier(epochs=20, random_state=0)
        >>> bool(make_pipeline(StandardScaler(), classifier).fit(x, y).score(x, y) > 0.9)
        True
    """

    def __init__(
        self,
        *,
        model: Any = None,
        head: Any = None,
        loss: Any = None,
        method: Any = None,
        epochs: int = 40,
        batch_size: int | None = None,
        lr: float | None = None,
        settings: Mapping[str, Any] | None = None,
        out: str | Path | None = None,
        random_state: Any = None,
        device: str = "auto",
    ):
        self.model = model
        self.head = head
        self.loss = loss
        self.method = method
        self.epochs = epochs
        self.batch_size = batch_size
        self.lr = lr
        self.settings = settings
        self.out = out
        self.random_state = random_state
        self.device = device

    def fit(self, X: Any, y: Any) -> NoisyLabelClassifier:
        """Train on samples and their given labels.

        Args:
            X: ``(samples, features)``, an array, a frame of numbers or a sparse matrix.
            y: ``(samples,)`` labels.
        """
        from edgemask.engine.config import merge
        from edgemask.engine.fit import fit
        from edgemask.engine.prediction import Predictor

        X, y = _validated(self, X, y=y)
        check_classification_targets(y)
        self.classes_, numbers = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                f"all labels are {self.classes_[0]!r}: a classifier needs at least two classes, "
                "got 1 class"
            )
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        with ExitStack() as stack:
            out = self.out
            if out is None:
                folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="edgemask-"))
                out = Path(folder) / "run"
            stack.enter_context(seeded_globals(torch.Generator().manual_seed(seed)))
            run = fit(
                _all_samples(X, numbers, [str(label) for label in self.classes_]),
                model=self.model,
                head=self.head,
                loss=self.loss,
                method=self.method,
                epochs=self.epochs,
                batch_size=self.batch_size or int(np.clip(len(y) // 8, 8, 128)),
                lr=self.lr,
                seed=seed,
                settings=merge(_QUIET, {"eval": {"every": self.epochs}}, self.settings or {}),
                out=out,
                fresh=self.out is not None,
                device=self.device,
            )
            samples = run.samples
            self.model_ = run.model
            # Double precision, so that a prediction does not depend on the rest of its batch.
            precise = copy.deepcopy(run.model).double()
            self._predictor = Predictor(precise, run.card, dtype=torch.float64)
        self.trust_: NDArray[np.float32] = samples["trust"]
        order = suspicious_order(samples)
        self.suspects_: NDArray[np.int64] = order[self.trust_[order] < 0.5]
        return self

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the probability of each class, ``(samples, classes)``."""
        check_is_fitted(self)
        X = _validated(self, X)
        return self._predictor(X).probabilities.astype(np.float64)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the likeliest label of each sample."""
        check_is_fitted(self)
        labels: NDArray[Any] = self.classes_[self.predict_proba(X).argmax(axis=1)]
        return labels

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        tags.non_deterministic = False
        return tags

    def _more_tags(self) -> dict[str, Any]:  # scikit-learn before 1.6
        return {"allow_nan": True}


def _validated(estimator: NoisyLabelClassifier, X: Any, **labels: Any) -> Any:
    """Check samples (and labels, in ``fit``) as scikit-learn wants it done."""
    options: dict[str, Any] = {
        "accept_sparse": "csr",
        "dtype": [np.float64, np.float32],
        "reset": bool(labels),
        **labels,
    }
    try:
        from sklearn.utils.validation import validate_data
    except ImportError:  # scikit-learn before 1.6
        return estimator._validate_data(X=X, force_all_finite="allow-nan", **options)
    return validate_data(estimator, X=X, ensure_all_finite="allow-nan", **options)


def _all_samples(X: Any, labels: NDArray[np.int64], names: list[str]) -> Any:
    """Return a dataset that trains on all samples, and tests on the same ones at the end."""
    from edgemask.data import from_arrays

    return from_arrays(
        X, labels, x_test=X, y_test=labels, class_names=names, clean=False, name="samples"
    )
