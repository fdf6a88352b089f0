"""Trust in each given label, and the share of wrong ones, from the losses of a training run."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from edgemask.audit.mixture import fit_two_components
from edgemask.errors import UserError

__all__ = ["estimate_rate", "trust_from_losses"]


def trust_from_losses(mean_loss: ArrayLike, *, seed: int = 0) -> NDArray[np.float32]:
    """Return the probability that each given label is right.

    Samples with right labels are learnt earlier and keep a smaller loss. Two Gaussians are fitted
    to the losses averaged over epochs; trust is the posterior of the lower one, and falls with the
    loss: a sample below the lower mean is trusted no less than one at it.

    Args:
        mean_loss: Loss of each sample on its given label, averaged over epochs, ``(N,)``.
        seed: Seed of the fit's start.

    Example:
        >>> losses = np.r_[np.linspace(0.0, 0.4, 80), np.linspace(3.0, 4.0, 20)]
        >>> trust = trust_from_losses(losses)
        >>> bool((trust[:80] > 0.9).all()), bool((trust[80:] < 0.1).all())
        (True, True)
    """
    losses = np.asarray(mean_loss, dtype=np.float64)
    mixture = fit_two_components(losses, max_iter=100, tol=1e-4, seed=seed)
    trust = mixture.posterior_low
    if not mixture.degenerate:
        # Gaussians of unlike width cross twice: far out on either side the wider one wins, which
        # would trust the largest losses, or distrust the smallest. Trust only ever falls.
        order = np.argsort(losses, kind="stable")
        ordered = trust[order]
        # Between the means the posterior falls by itself.
        split = int(np.searchsorted(losses[order], mixture.means.mean()))
        ordered[:split] = np.maximum.accumulate(ordered[:split][::-1])[::-1]
        ordered[split:] = np.minimum.accumulate(ordered[split:])
        trust[order] = ordered
    return trust.astype(np.float32)


def estimate_rate(
    losses: ArrayLike, *, max_iter: int = 100, tol: float = 1e-4, seed: int = 0
) -> float:
    """Estimate the noise rate from each sample's loss: the weight of the upper of two Gaussians.

    Use losses from early in training, when clean samples are learnt and wrong ones are not yet;
    averages over epochs are best. Two Gaussians are fitted even where the losses form one group,
    so that clean data seem noisy: where out-of-sample probabilities are available,
    :func:`confident_rate` is the better estimate. Equal losses give 0; a loss that is not finite
    counts as wrong.

    Args:
        losses: One loss per sample; or one row per epoch, which are averaged.
        max_iter: Largest number of iterations of the fit.
        tol: Gain of the log-likelihood below which the fit stops.
        seed: Seed of the fit's start.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> losses = np.r_[rng.normal(0.2, 0.1, 700), rng.normal(2.0, 0.4, 300)]
        >>> round(estimate_rate(losses), 2)
        0.3
    """
    array = np.asarray(losses, dtype=np.float64)
    if array.ndim not in (1, 2) or array.size == 0:
        raise UserError(f"losses must be (samples) or (epochs, samples), got {array.shape}")
    values = array if array.ndim == 1 else array.mean(axis=0)
    mixture = fit_two_components(values, max_iter=max_iter, tol=tol, seed=seed)
    return float(1.0 - mixture.posterior_low.mean())
