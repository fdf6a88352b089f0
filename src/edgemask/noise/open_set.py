"""Open-set noise: some samples belong to none of the classes (CIFAR80N-O)."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from edgemask._options import checked
from edgemask.errors import UserError
from edgemask.noise._checks import Classes, Rate, Seed, as_labels
from edgemask.noise.labels import NoisyLabels
from edgemask.noise.sampling import by_draws, flip_matrix, symmetric_matrix

__all__ = ["open_set", "open_set_asymmetric"]


@checked
def open_set(
    labels: ArrayLike,
    rate: Rate,
    num_classes: Classes,
    *,
    seed: Seed = 0,
    protocol: Literal["paper", "nust"] = "nust",
    open_ratio: Rate = 0.2,
    closed: Literal["symmetric", "asymmetric"] = "symmetric",
) -> NoisyLabels:
    """Treat the last classes as foreign and label them at random; add noise to the others.

    With 100 classes and the default ratio it is CIFAR80N-O: classes 80..99 are foreign and get a
    label that is uniform over 0..79; the others get symmetric noise, or go to the next class.
    Each sample is drawn on its own. In all, ``open_ratio + (1 - open_ratio) * rate`` of the labels
    are wrong when classes are of equal size.

    The result has the closed classes as ``num_classes`` and -1 as the true label of a foreign
    sample. ``paper`` is the same as ``nust``, whose data the paper takes; others do not define it.

    Args:
        labels: True labels 0..num_classes - 1; -1 stands for any foreign class.
        rate: The nominal noise rate among the closed classes.
        num_classes: The number of classes, foreign ones included.
        seed: Seed of the draw; the official code always has 0.
        protocol: ``nust`` or ``paper``.
        open_ratio: The share of classes that are foreign.
        closed: ``symmetric`` or ``asymmetric`` (to the next class, the last one to the first).

    Reference:
        Yao et al., "Jo-SRC: A contrastive approach for combating noisy labels", CVPR 2021.

    Example:
        >>> noisy = open_set(list(range(10)) * 10, 0.0, 10)
        >>> noisy.num_classes, noisy.realised_rate, noisy.clean[-3:].tolist()
        (8, 0.2, [7, -1, -1])
    """
    kept = math.floor(num_classes * (1.0 - open_ratio) + 1e-9)
    if kept < 2:
        raise UserError(f"open_ratio={open_ratio} leaves {kept} of {num_classes} classes; keep 2")
    clean = as_labels(labels, num_classes, open_set=True)
    if kept == num_classes and clean.min() < 0:
        raise UserError("labels has foreign samples (-1), but open_ratio is 0")
    # The tail of zeros belongs to the definition: it costs the last closed class one more draw.
    matrix = np.zeros((num_classes, num_classes))
    matrix[:kept, :kept] = (
        symmetric_matrix(rate, kept)
        if closed == "symmetric"
        else flip_matrix(rate, kept, {label: (label + 1) % kept for label in range(kept)})
    )
    matrix[kept:, :kept] = 1.0 / kept
    drawn_from = np.where(clean < 0, num_classes - 1, clean)
    noisy = by_draws(drawn_from, matrix, np.random.RandomState(seed))
    return NoisyLabels(
        clean=np.where(clean < kept, clean, -1),
        noisy=noisy,
        num_classes=kept,
        kind="open" if closed == "symmetric" else "open-asym",
        protocol=protocol,
        rate=rate,
        seed=seed,
        details={"open_ratio": open_ratio, "base_classes": num_classes},
    )


@checked
def open_set_asymmetric(
    labels: ArrayLike,
    rate: Rate,
    num_classes: Classes,
    *,
    seed: Seed = 0,
    protocol: Literal["paper", "nust"] = "nust",
) -> NoisyLabels:
    """Open-set noise whose closed part goes to the next class; see :func:`open_set`.

    ``open_ratio + (1 - open_ratio) * rate`` of the labels are wrong.

    Reference:
        Yao et al., "Jo-SRC: A contrastive approach for combating noisy labels", CVPR 2021.
    """
    return open_set(labels, rate, num_classes, seed=seed, protocol=protocol, closed="asymmetric")
