"""How noisy are labels that nobody has checked? Estimates from losses and from predictions."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from edgemask.errors import UserError
from edgemask.noise._checks import Int64, as_labels
from edgemask.noise.mixture import fit_two_components

__all__ = ["confident_joint", "confident_rate", "estimate_rate", "estimate_transition"]

Floats = NDArray[np.float64]


def estimate_rate(
    losses: ArrayLike, *, max_iter: int = 100, tol: float = 1e-4, seed: int = 0
) -> float:
    """Estimate the noise rate from each sample's loss: the weight of the upper of two Gaussians.

    It wants losses from early in the training, when clean samples are learnt and wrong ones are
    not yet; averages over epochs are best. Two Gaussians are fitted even where there is one heap,
    so that clean data seem noisy: where predictions can be had, :func:`confident_rate` is the
    better estimate. All losses equal means no evidence, hence 0; a loss that is not finite counts
    as wrong.

    Args:
        losses: One loss for each sample; or a row for each epoch, which are averaged.
        max_iter: The most iterations of the fit.
        tol: When the fit rests.
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


def confident_joint(pred_probs: ArrayLike, labels: ArrayLike, *, calibrate: bool = True) -> Floats:
    """Count samples by given and probable true label, as in confident learning.

    A class's threshold is the mean chance that its own samples give it. A sample labelled i counts
    for true class j when j's chance reaches j's threshold; of several such classes the likeliest
    is taken; a sample without any is not counted. Calibrated, row i sums to the number of samples
    labelled i (those of a row without any count are held for true).

    Args:
        pred_probs: Chances for each sample and class, out of sample if the estimate is to hold.
        labels: The given labels.
        calibrate: Whether to scale the counts to the given labels' frequencies.

    Shape:
        (N, K) and (N) to (K, K), given labels in rows and true ones in columns.

    Reference:
        Northcutt et al., "Confident learning: Estimating uncertainty in dataset labels",
        JAIR 2021, Eq. 1-3.

    Example:
        >>> chances = [[0.9, 0.1], [0.8, 0.2], [0.1, 0.9], [0.2, 0.8], [0.9, 0.1]]
        >>> confident_joint(chances, [0, 0, 1, 1, 1], calibrate=False).tolist()
        [[1.0, 0.0], [1.0, 2.0]]
    """
    chances, given = _predictions(pred_probs, labels)
    classes = chances.shape[1]
    frequency = np.bincount(given, minlength=classes)
    own = np.bincount(given, weights=chances[np.arange(len(given)), given], minlength=classes)
    # A class that nobody was labelled with has no threshold and is never reached.
    threshold = np.where(frequency > 0, own / np.maximum(frequency, 1), np.inf)
    # The tolerance keeps equal chances from missing their own mean by rounding.
    reached = np.where(chances >= threshold - 1e-6, chances, -np.inf)
    counted = np.isfinite(reached).any(axis=1)
    joint = np.zeros((classes, classes))
    np.add.at(joint, (given[counted], reached[counted].argmax(axis=1)), 1.0)
    if not calibrate:
        return joint
    empty = joint.sum(axis=1) == 0
    joint[empty, empty] = 1.0
    return np.asarray(joint / joint.sum(axis=1, keepdims=True) * frequency[:, None])


def confident_rate(pred_probs: ArrayLike, labels: ArrayLike) -> float:
    """Estimate the noise rate from predictions: the off-diagonal share of the confident joint.

    Example:
        >>> chances = [[0.9, 0.1]] * 3 + [[0.1, 0.9]] * 3
        >>> round(confident_rate(chances, [0, 0, 1, 1, 1, 1]), 3)
        0.167
    """
    joint = confident_joint(pred_probs, labels)
    return float(1.0 - np.trace(joint) / joint.sum())


def estimate_transition(pred_probs: ArrayLike, labels: ArrayLike) -> Floats:
    """Estimate the transition matrix from predictions, by the calibrated confident joint.

    ``result[i, j]`` is the chance that a sample of true class i is labelled j; rows sum to 1. A
    class that no sample seems to belong to has an identity row.

    Example:
        >>> chances = [[0.9, 0.1]] * 3 + [[0.1, 0.9]] * 3
        >>> estimate_transition(chances, [0, 0, 1, 1, 1, 1]).round(2).tolist()
        [[0.67, 0.33], [0.0, 1.0]]
    """
    joint = confident_joint(pred_probs, labels).T
    totals = joint.sum(axis=1, keepdims=True)
    return np.where(totals > 0, joint / np.where(totals > 0, totals, 1.0), np.eye(len(joint)))


def _predictions(pred_probs: ArrayLike, labels: ArrayLike) -> tuple[Floats, Int64]:
    chances = np.asarray(pred_probs, dtype=np.float64)
    if chances.ndim != 2 or chances.shape[1] < 2:
        raise UserError(f"pred_probs must be (samples, classes), got the shape {chances.shape}")
    given = as_labels(labels, chances.shape[1])
    if len(given) != len(chances):
        raise UserError(f"pred_probs has {len(chances)} rows, but there are {len(given)} labels")
    broken = np.flatnonzero(
        ~np.isfinite(chances).all(axis=1)
        | (chances < 0).any(axis=1)
        | (np.abs(chances.sum(axis=1) - 1.0) > 1e-3)
    )
    if broken.size:
        raise UserError(
            f"pred_probs[{broken[0]}] is not a distribution ({broken.size} such rows): entries "
            "must not be negative and must sum to 1; pass softmax outputs, not logits"
        )
    return chances, given
