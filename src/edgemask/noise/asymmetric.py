"""Asymmetric noise: samples of a class get the label of a similar class."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Mapping
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from edgemask._options import checked
from edgemask.noise._checks import Classes, Int64, Protocol, Rate, Seed, as_labels
from edgemask.noise.labels import NoisyLabels
from edgemask.noise.maps import MAPS, class_map
from edgemask.noise.sampling import by_counts, by_draws, choose_exactly, flip_matrix
from edgemask.noise.symmetric import dividemix_choice

__all__ = ["asymmetric", "pair_flip"]


@checked
def asymmetric(
    labels: ArrayLike,
    rate: Rate,
    num_classes: Classes,
    *,
    seed: Seed = 0,
    protocol: Protocol = "paper",
    mapping: Mapping[int, int] | str | None = None,
    dataset: str | None = None,
) -> NoisyLabels:
    """Flip labels of some classes to the one class that each is mistaken for.

    ``T_i,m(i) = rate`` and ``T_ii = 1 - rate`` for a class i that is mistaken for m(i).

    The maps: ``paper`` takes four flips on CIFAR-10 and the next class of the true super-class on
    CIFAR-100; ``jal`` and ``apl`` have dog to cat as a fifth flip, and blocks of five consecutive
    ids on CIFAR-100; ``dividemix`` knows CIFAR-10 only; ``nust`` sends every class to the next.

    The draws: ``paper`` and ``jal`` flip exactly that share of each source class; ``nust``, and
    ``apl`` beyond CIFAR-10, flip each sample with probability ``rate``; ``apl`` on CIFAR-10 goes
    from class to class on labels already flipped, so that some cats become dogs and cats again;
    ``dividemix`` chooses samples of all classes, of which some have nothing to be mistaken for.

    Args:
        labels: True labels, one per sample.
        rate: The nominal noise rate of the source classes.
        num_classes: The number of classes.
        seed: Seed of the draw.
        protocol: Whose generator: ``paper``, ``jal``, ``apl``, ``dividemix`` or ``nust``.
        mapping: A map of your own, ``{source: target}``, or the name of one in ``MAPS``.
        dataset: Name of the dataset, which chooses the map. Where it is None, 10 classes are
            taken for CIFAR-10 and 100 for CIFAR-100.

    Reference:
        Patrini et al., "Making deep neural networks robust to label noise: A loss correction
        approach", CVPR 2017. Protocols: the released code of JAL, APL, DivideMix and Jo-SRC.

    Example:
        >>> noisy = asymmetric([0, 1, 2, 3] * 50, 0.4, 4, mapping={0: 1, 2: 3})
        >>> noisy.transition[0].tolist()
        [0.6, 0.4, 0.0, 0.0]
    """
    clean = as_labels(labels, num_classes)
    flips = class_map(mapping, num_classes, protocol=protocol, dataset=dataset)
    rng = np.random.RandomState(seed)
    if protocol == "dividemix":
        rows = np.array(dividemix_choice(len(clean), rate, random.Random(seed)), dtype=np.int64)
        noisy = _send(clean, rows, flips)
    elif protocol == "apl" and flips == MAPS["cifar10-code"]:
        noisy = _class_by_class(clean, rate, flips, rng)
    elif protocol == "jal":
        noisy = by_counts(clean, flip_matrix(rate, num_classes, flips), rng)
    elif protocol == "paper":
        noisy = _send(clean, choose_exactly(clean, flips, rate, rng), flips)
    else:
        noisy = by_draws(clean, flip_matrix(rate, num_classes, flips), rng)
    return NoisyLabels(
        clean=clean,
        noisy=noisy,
        num_classes=num_classes,
        kind="asymmetric",
        protocol=protocol,
        rate=rate,
        seed=seed,
        details={"mapping": {str(source): target for source, target in flips.items()}},
    )


@checked
def pair_flip(
    labels: ArrayLike,
    rate: Rate,
    num_classes: Classes,
    *,
    seed: Seed = 0,
    protocol: Literal["paper", "nust"] = "paper",
) -> NoisyLabels:
    """Flip labels to the next class, the last class to the first.

    ``T_i,i+1 = rate`` and ``T_ii = 1 - rate``, classes counted in a circle.

    ``paper`` flips exactly that share of each class, ``nust`` each sample with probability ``rate``
    (the pair flip of Co-teaching). The other protocols do not define it.

    Args:
        labels: True labels, one per sample.
        rate: The nominal noise rate.
        num_classes: The number of classes.
        seed: Seed of the draw.
        protocol: ``paper`` or ``nust``.

    Reference:
        Han et al., "Co-teaching: Robust training of deep neural networks with extremely noisy
        labels", NeurIPS 2018.

    Example:
        >>> pair_flip([0, 1, 2] * 20, 0.45, 3).transition[2].round(2).tolist()
        [0.45, 0.0, 0.55]
    """
    after = {label: (label + 1) % num_classes for label in range(num_classes)}
    made = asymmetric(labels, rate, num_classes, seed=seed, protocol=protocol, mapping=after)
    return dataclasses.replace(made, kind="pair", details={})


def _send(clean: Int64, rows: Int64, mapping: Mapping[int, int]) -> Int64:
    """Send the chosen rows through the map; classes outside it stay."""
    noisy = clean.copy()
    noisy[rows] = [mapping.get(int(label), int(label)) for label in clean[rows]]
    return noisy


def _class_by_class(
    clean: Int64, rate: float, mapping: Mapping[int, int], rng: np.random.RandomState
) -> Int64:
    """Flip class after class on the current labels, flipped ones included."""
    noisy = clean.copy()
    for source, target in mapping.items():
        pool = np.flatnonzero(noisy == source)
        if len(pool):
            noisy[rng.choice(pool, int(rate * len(pool)), replace=False)] = target
    return noisy
