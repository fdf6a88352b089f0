"""A mixture of two Gaussians in one dimension, which separates small losses from large ones."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from edgemask.errors import MissingExtraError

__all__ = ["Mixture", "fit_two_components"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Mixture:
    """Two Gaussians fitted to numbers, the one with the lower mean first."""

    posterior_low: Floats
    """Probability, for each value, that it comes from the lower component."""
    means: Floats
    """The two means, in the units of the values."""
    variances: Floats
    """The two variances, in the units of the values squared."""
    weights: Floats
    """The share of each component."""
    converged: bool
    """Whether EM converged within its iterations."""
    iterations: int
    """How many iterations EM took."""
    degenerate: bool
    """Whether there was nothing to fit: fewer than two values that differ."""


def fit_two_components(
    values: ArrayLike,
    *,
    normalise: bool = True,
    max_iter: int = 10,
    tol: float = 1e-2,
    reg_covar: float = 5e-4,
    seed: int = 0,
) -> Mixture:
    """Fit two Gaussians by expectation maximisation, as scikit-learn's ``GaussianMixture`` does.

    The defaults are those of DivideMix. What cannot be fitted is defined all the same:

    - a value that is not finite has posterior 0 and is left out;
    - where the finite values do not differ, or there is only one, each has posterior 1.
      Both means are then that value, the weights are 1 and 0.
    - no finite value at all: means are NaN, the weights are 1 and 0.

    Args:
        values: One number per sample, a loss for instance.
        normalise: Scale the values to [0, 1] before the fit; ``tol`` and ``reg_covar`` refer
            to that scale.
        max_iter: Largest number of iterations of EM.
        tol: EM stops when the mean log-likelihood gains less than this.
        reg_covar: Added to both variances.
        seed: Seed of the k-means start.

    Reference:
        Li et al., "DivideMix: Learning with noisy labels as semi-supervised learning", ICLR 2020.
    """
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1:
        raise ValueError(f"values must have one dimension, got the shape {array.shape}")
    finite = np.isfinite(array)
    data = array[finite]
    low, high = (float(data.min()), float(data.max())) if data.size else (np.nan, np.nan)
    width = high - low
    # NaN compares false, so that no finite value at all ends here as well.
    if not width > 1e-12 * max(abs(low), abs(high), 1e-12) or not np.isfinite(width):
        return Mixture(
            posterior_low=finite.astype(np.float64),
            means=np.array([low, low]),
            variances=np.zeros(2),
            weights=np.array([1.0, 0.0]),
            converged=True,
            iterations=0,
            degenerate=True,
        )
    scale, shift = (width, low) if normalise else (1.0, 0.0)
    column = ((data - shift) / scale).reshape(-1, 1)
    model = _gaussian_mixture()(
        n_components=2, max_iter=max_iter, tol=tol, reg_covar=reg_covar, random_state=seed
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # not converged: the result has a flag for it
        model.fit(column)
    order = np.argsort(model.means_.ravel(), kind="stable")
    posterior = np.zeros(len(array))
    posterior[finite] = model.predict_proba(column)[:, order[0]]
    return Mixture(
        posterior_low=posterior,
        means=model.means_.ravel()[order] * scale + shift,
        variances=model.covariances_.ravel()[order] * scale**2,
        weights=model.weights_[order],
        converged=bool(model.converged_),
        iterations=int(model.n_iter_),
        degenerate=False,
    )


def _gaussian_mixture() -> Any:
    try:
        from sklearn.mixture import GaussianMixture
    except Exception as error:
        raise MissingExtraError("scikit-learn", "app", "to fit a mixture", error) from error
    return GaussianMixture
