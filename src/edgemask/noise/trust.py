"""How far each given label can be trusted, from nothing but the losses of a training run."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from edgemask.noise.mixture import fit_two_components

__all__ = ["trust_from_losses"]


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
        low, high = mixture.means
        trust = np.where(losses <= low, np.maximum(trust, _at(trust, losses, low)), trust)
        trust = np.where(losses >= high, np.minimum(trust, _at(trust, losses, high)), trust)
    return trust.astype(np.float32)


def _at(trust: NDArray[np.float64], losses: NDArray[np.float64], place: float) -> float:
    """Return the trust of the finite loss nearest to a place."""
    distance = np.where(np.isfinite(losses), np.abs(losses - place), np.inf)
    return float(trust[int(distance.argmin())])
