"""Symmetric noise: every other class is as likely."""

from __future__ import annotations

import random

import numpy as np
from numpy.typing import ArrayLike

from edgemask._options import checked
from edgemask.errors import UserError
from edgemask.noise._checks import Classes, Int64, Protocol, Rate, Seed, as_labels
from edgemask.noise.labels import NoisyLabels
from edgemask.noise.sampling import by_counts, by_draws, choose_exactly, symmetric_matrix

__all__ = ["dividemix_choice", "symmetric"]


@checked
def symmetric(
    labels: ArrayLike,
    rate: Rate,
    num_classes: Classes,
    *,
    seed: Seed = 0,
    protocol: Protocol = "paper",
) -> NoisyLabels:
    """Flip labels to any other class with equal probability.

    ``T_ii = 1 - rate`` and ``T_ij = rate / (K - 1)`` for every other class j.

    ``paper`` flips round(rate * N) samples, spread evenly over the classes. ``jal`` moves
    trunc(rate * n_s / (K - 1)) samples from each class to each other one, a little below the rate.
    ``apl`` flips trunc(trunc(rate * N) / K) samples of every class. ``nust`` flips each sample with
    chance ``rate``. ``dividemix`` redraws trunc(rate * N) samples over *all* classes, the true one
    included, so that only rate * (1 - 1 / K) of the labels become wrong.

    Args:
        labels: True labels, one per sample.
        rate: The nominal noise rate.
        num_classes: The number of classes K.
        seed: Seed of the draw. The official code fixes it: JAL 123 + trial, NUST always 0.
        protocol: Whose generator: ``paper``, ``jal``, ``apl``, ``dividemix`` or ``nust``.

    Reference:
        van Rooyen et al., "Learning with symmetric label noise: The importance of being unhinged",
        NeurIPS 2015. Protocols: the released code of JAL, APL, DivideMix and Jo-SRC.

    Example:
        >>> symmetric([0, 1, 2] * 100, 0.4, 3, seed=1).realised_rate
        0.4
    """
    clean = as_labels(labels, num_classes)
    rng = np.random.RandomState(seed)
    if protocol == "dividemix":
        noisy = _dividemix(clean, rate, num_classes, seed)
    elif protocol == "apl":
        noisy = _apl(clean, rate, num_classes, rng)
    elif protocol == "jal":
        noisy = by_counts(clean, symmetric_matrix(rate, num_classes), rng)
    elif protocol == "nust":
        noisy = by_draws(clean, symmetric_matrix(rate, num_classes), rng)
    else:
        noisy = _flip(clean, choose_exactly(clean, range(num_classes), rate, rng), num_classes, rng)
    return NoisyLabels(
        clean=clean,
        noisy=noisy,
        num_classes=num_classes,
        kind="symmetric",
        protocol=protocol,
        rate=rate,
        seed=seed,
    )


def _flip(clean: Int64, chosen: Int64, num_classes: int, rng: np.random.RandomState) -> Int64:
    """Give the chosen samples, one after the other, one of the other K - 1 labels."""
    noisy = clean.copy()
    others = rng.randint(0, num_classes - 1, size=len(chosen))
    noisy[chosen] = others + (others >= clean[chosen])
    return noisy


def _apl(clean: Int64, rate: float, num_classes: int, rng: np.random.RandomState) -> Int64:
    count = int(int(rate * len(clean)) / num_classes)
    chosen = []
    for source in range(num_classes):
        pool = np.flatnonzero(clean == source)
        if len(pool) < count:
            raise UserError(
                f"protocol 'apl' flips {count} samples of every class, but class {source} has "
                f"only {len(pool)}; use protocol='paper' for classes of unequal size"
            )
        chosen.append(rng.choice(pool, count, replace=False) if count else pool[:0])
    return _flip(clean, np.concatenate(chosen), num_classes, rng)


def dividemix_choice(count: int, rate: float, rng: random.Random) -> list[int]:
    """Return the positions that the DivideMix code redraws, in ascending order."""
    order = list(range(count))
    rng.shuffle(order)
    return sorted(order[: int(rate * count)])


def _dividemix(clean: Int64, rate: float, num_classes: int, seed: int) -> Int64:
    rng = random.Random(seed)
    noisy = clean.copy()
    for row in dividemix_choice(len(clean), rate, rng):
        noisy[row] = rng.randint(0, num_classes - 1)
    return noisy
