"""What is known of each training sample of a run: columns of ``samples.npz``, and pictures."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from edgemask.errors import UserError
from edgemask.runs.files import Array, read_arrays

__all__ = [
    "MAX_CLASSES",
    "SUSPECT_REASONS",
    "SamplesState",
    "are_labels",
    "is_integer",
    "read_samples",
    "read_thumbnails",
    "samples_state",
    "suspicious_order",
]

MAX_CLASSES = 20_000
SUSPECT_REASONS = ("learnt late", "predicted as another class")
"""Why a sample has little trust: its given label is predicted by now, or another one."""
_INTEGER_COLUMNS = {"index", "given", "predicted", "clean"}
_FLOAT_COLUMNS = {"trust", "confidence", "mean_loss"}
_NEEDED_COLUMNS = {"index", "given", "predicted", "trust"}


def read_samples(folder: Path) -> dict[str, Array]:
    """Return what is known of each training sample, as columns of one length.

    Raises:
        UserError: If ``samples.npz`` is missing, damaged, or its columns do not fit together.
    """
    samples = read_arrays(folder / "samples.npz")
    if not samples.keys() >= _NEEDED_COLUMNS or not _columns_fit(samples):
        raise UserError("samples.npz lacks columns, or they do not fit; it is left out.")
    return samples


@dataclass(frozen=True)
class SamplesState:
    """What a run that has not come to its end says of its samples."""

    after: int | None = None
    """After how many epochs the columns are as they are; None at the end of a run."""
    class_names: tuple[str, ...] = ()


def samples_state(samples: dict[str, Array]) -> SamplesState:
    """Take the state of an unfinished run out of its columns."""
    try:
        known = json.loads(str(samples.pop("so_far", "{}")))
        names = known.get("class_names", ())
        after = known.get("after")
    except (AttributeError, RecursionError, ValueError):
        return SamplesState()
    return SamplesState(
        after if type(after) is int and after > 0 else None,
        tuple(map(str, names)) if isinstance(names, list) else (),
    )


def suspicious_order(samples: Mapping[str, Array]) -> Array:
    """Return the places of the samples that no person has reviewed, the least trusted first.

    Ties are broken by the mean loss, then by the confidence in the given label, then by a fixed
    random order; never by position, which often goes by class.
    """
    keys: list[Array] = [np.random.default_rng(0).permutation(len(samples["index"]))]
    for name, sign in (("confidence", 1), ("mean_loss", -1)):
        if name in samples:
            keys.append(sign * np.nan_to_num(samples[name].astype(np.float64)))
    trust = np.clip(np.nan_to_num(samples["trust"].astype(np.float64), nan=0.5), 0, 1)
    order = np.lexsort([*keys, trust])
    reviewed = samples.get("reviewed")
    if reviewed is None or reviewed.dtype.kind != "b":
        return order
    return order[~reviewed[order]]


def _columns_fit(samples: Mapping[str, Array]) -> bool:
    """Return whether the columns have one length, the right types and values that make sense."""
    shape = samples["index"].shape
    for key, value in samples.items():
        integer, real = key in _INTEGER_COLUMNS, key in _FLOAT_COLUMNS
        if (integer or real or value.ndim) and value.shape != shape:
            return False
        if (integer and not is_integer(value)) or (real and value.dtype.kind != "f"):
            return False
    return (
        len(shape) == 1
        and bool((samples["index"] >= 0).all())
        and are_labels(samples["given"], least=0)
        and are_labels(samples["predicted"], least=0)
    )


def is_integer(value: Array) -> bool:
    """Return whether an array holds whole numbers."""
    return np.can_cast(value.dtype, np.int64)


def are_labels(value: Array | None, *, least: int) -> bool:
    """Return whether an array holds class numbers, and none that is absurd."""
    if value is None or value.ndim != 1 or not is_integer(value):
        return False
    return not value.size or (least <= int(value.min()) and int(value.max()) < MAX_CLASSES)


def read_thumbnails(path: Path) -> dict[str, Array]:
    """Return the pictures of the samples of lowest trust; data without pictures have none."""
    if not path.is_file():
        return {}
    arrays = read_arrays(path)
    index, images = arrays.get("index"), arrays.get("images")
    if (
        index is None
        or images is None
        or not is_integer(index)
        or images.ndim != 4
        or images.dtype != np.uint8
        or images.shape[3] not in {1, 3}
        or index.shape != images.shape[:1]
        or (images.size == 0 and len(images))
    ):
        raise UserError("thumbnails.npz is not of the expected shape; no pictures are shown.")
    return {"index": index, "images": images}
