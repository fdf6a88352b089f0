"""Labels that people gave: CIFAR-10N and CIFAR-100N."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from edgemask._options import checked
from edgemask.errors import DataError, UserError, unknown_name
from edgemask.noise._checks import Classes, as_labels
from edgemask.noise.files import read_labels
from edgemask.noise.labels import NoisyLabels

__all__ = ["HUMAN_SUBSETS", "human"]

_TEN = {
    "aggregate": "aggre_label",
    "random1": "random_label1",
    "random2": "random_label2",
    "random3": "random_label3",
    "worst": "worse_label",
}
HUMAN_SUBSETS: dict[int, dict[str, str]] = {10: _TEN, 100: {"fine": "noisy_label"}}
"""The label sets by number of classes: our name, and the one inside the published file."""


@checked
def human(
    labels: ArrayLike | None,
    subset: Literal["aggregate", "random1", "random2", "random3", "worst", "fine"],
    num_classes: Classes,
    *,
    root: str | os.PathLike[str] | None = None,
) -> NoisyLabels:
    """Take the labels that people gave to the training images of CIFAR.

    CIFAR-10N has ``aggregate`` (9.01 % wrong), ``random1`` to ``random3`` (17.23, 18.12, 17.64 %)
    and ``worst`` (40.21 %); CIFAR-100N has ``fine`` (40.20 %). They are read from ``cifar-n.npz``
    or from the published ``CIFAR-10_human.pt`` and ``CIFAR-100_human.pt`` below ``root``, and
    nothing in these files is ever run. The true labels inside the file have to equal ``labels``.

    Args:
        labels: True labels in the official order, or None to take those of the file.
        subset: Which label set.
        num_classes: 10 or 100.
        root: The folder with the file, or the file itself; the current folder when None.

    Reference:
        Wei et al., "Learning with noisy labels revisited: A study using real-world human
        annotations", ICLR 2022. The labels are CC BY-NC 4.0.
    """
    classes = num_classes
    if classes not in HUMAN_SUBSETS:
        raise UserError(
            f"human labels exist for CIFAR-10 (10 classes) and CIFAR-100 (100 classes), not for "
            f"{classes} classes; labels of your own are noise 'file:PATH'"
        )
    known = HUMAN_SUBSETS[classes]
    if subset not in known:
        raise unknown_name(f"human label set for {classes} classes", subset, known)
    file, prefix = _find(classes, root)
    truth = _labels(file, f"{prefix}clean_label", classes)
    noisy = _labels(file, f"{prefix}{known[subset]}", classes)
    if labels is not None and not np.array_equal(as_labels(labels, classes), truth):
        raise DataError(
            f"the true labels in {file} are not those of the dataset; human labels belong to the "
            f"{len(truth):,} training images of CIFAR-{classes} in their official order"
        )
    return NoisyLabels(
        clean=truth,
        noisy=noisy,
        num_classes=classes,
        kind="human",
        rate=float(np.mean(truth != noisy)),
        details={"subset": subset},
    )


def _find(classes: int, root: str | os.PathLike[str] | None) -> tuple[Path, str]:
    """Return the file and what its names begin with."""
    place = Path("." if root is None else root).expanduser()
    official = f"CIFAR-{classes}_human.pt"
    candidates = [place] if place.is_file() else [place / "cifar-n.npz", place / official]
    for file in candidates:
        if file.is_file():
            return file, f"c{classes}_" if file.suffix == ".npz" else ""
    raise DataError(
        f"there is neither {candidates[0]} nor {candidates[-1]}; get {official} from "
        "github.com/UCSC-REAL/cifar-10-100n and put it there"
    )


def _labels(file: Path, key: str, classes: int) -> NDArray[Any]:
    try:
        return as_labels(read_labels(file, key), classes, name=key)
    except DataError:
        raise
    except UserError as error:
        raise DataError(f"{file}: {error}") from None
