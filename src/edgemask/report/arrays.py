"""The arrays of a run directory, checked; what is absent or broken becomes a note.

Pickle is never allowed: a run directory may come from anybody.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = ["Array", "read_head", "read_noise", "read_samples", "read_thumbnails"]

Array: TypeAlias = npt.NDArray[Any]
_MOST_CLASSES = 20_000
_RECORD = ("num_classes", "kind", "protocol", "rate", "seed")


def _read_arrays(path: Path, notes: list[str], absent: str) -> dict[str, Array]:
    if not path.is_file():
        if absent:
            notes.append(absent)
        return {}
    try:
        with np.load(path, allow_pickle=False) as file:
            return {key: file[key] for key in file.files}
    except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile) as error:
        notes.append(f"{path.name} cannot be read ({type(error).__name__}: {error}).")
        return {}


def read_noise(path: Path, notes: list[str]) -> dict[str, Any]:
    """Return the manifest of the labels: the arrays and the record of how they were made.

    A clean label of -1 is a sample that belongs to none of the classes.
    """
    arrays = _read_arrays(path, notes, "There is no noise.npz: nothing is known about the noise.")
    if not arrays:
        return {}
    noise: dict[str, Any] = {}
    try:
        record = json.loads(str(arrays.get("meta", "{}")))
        noise |= {key: record[key] for key in _RECORD if record.get(key) is not None}
        if not 0 < int(noise.get("num_classes", 1)) <= _MOST_CLASSES:
            del noise["num_classes"]
    except (ValueError, TypeError, AttributeError, RecursionError):
        notes.append("noise.npz: the record of how the labels were made cannot be read.")
    if _are_labels(arrays.get("noisy"), least=0):
        noise["noisy"] = arrays["noisy"]
    else:
        notes.append("noise.npz holds no usable noisy labels.")
    clean = arrays.get("clean")
    if clean is not None and (
        "noisy" not in noise
        or not _are_labels(clean, least=-1)
        or clean.shape != noise["noisy"].shape
    ):
        notes.append("noise.npz: the clean labels do not fit the noisy ones and are left out.")
        clean = None
    if clean is None:
        notes.append(
            "The clean labels are not known, so nothing is said about memorised labels or the true "
            "noise rate."
        )
    else:
        noise["clean"] = clean
    return noise


def _are_labels(value: Array | None, *, least: int) -> bool:
    """Return whether an array holds class numbers, and none that is absurd."""
    return (
        value is not None
        and value.ndim == 1
        and np.issubdtype(value.dtype, np.integer)
        and (value.size == 0 or (least <= int(value.min()) and int(value.max()) < _MOST_CLASSES))
    )


def read_samples(path: Path, notes: list[str], *, finished: bool) -> dict[str, Array]:
    """Return what is known of each training sample, as columns of one length."""
    why = "" if finished else " It is written at the end of a run."
    samples = _read_arrays(
        path, notes, f"There is no samples.npz: no trust in single labels can be shown.{why}"
    )
    if samples and not _fit(samples):
        notes.append("samples.npz lacks columns, or they do not fit; it is left out.")
        return {}
    return {key: value for key, value in samples.items() if value.ndim}


def _fit(samples: Mapping[str, Array]) -> bool:
    """Return whether the columns are all there, of one length and of the right kinds."""
    columns = [value for value in samples.values() if value.ndim]
    kinds = {
        "given": np.integer,
        "predicted": np.integer,
        "index": np.integer,
        "trust": np.floating,
    }
    optional = {"confidence": np.floating, "mean_loss": np.floating, "clean": np.integer}
    kinds |= {key: kind for key, kind in optional.items() if key in samples}
    return (
        kinds.keys() <= samples.keys()
        and {value.shape for value in columns} == {columns[0].shape[:1]}
        and all(np.issubdtype(samples[key].dtype, kind) for key, kind in kinds.items())
        and all(_are_labels(samples[key], least=0) for key in ("given", "predicted"))
    )


def read_head(path: Path, notes: list[str], *, expected: bool) -> dict[str, Array]:
    """Return scores, histograms and retention over time; many heads have none of them."""
    absent = "There is no head.npz: the scores of the edges cannot be shown." if expected else ""
    head = _read_arrays(path, notes, absent)
    head = {key: value for key, value in head.items() if np.issubdtype(value.dtype, np.number)}
    epochs = head.get("epochs", np.zeros(0))
    good = {
        key: head[key]
        for key, dimensions in (("scores", 3), ("histogram", 2), ("retention", 1))
        if key in head and head[key].shape[:1] == epochs.shape and head[key].ndim == dimensions
    }
    good = {key: value for key, value in good.items() if value.size}
    if not good or not np.issubdtype(epochs.dtype, np.integer):
        if path.is_file():
            notes.append("head.npz holds no scores over time; it is left out.")
        return {}
    if "histogram" in good:
        good["edges"] = _edges(head.get("edges"), good["histogram"].shape[1])
    columns = head.get("columns")
    if "scores" in good and columns is not None and columns.shape == good["scores"].shape[2:]:
        good["columns"] = columns
    return {"epochs": epochs, **good}


def _edges(edges: Array | None, bins: int) -> Array:
    """Return the edges of the bins, evenly over [0, 1] where the file has none that make sense."""
    if edges is not None and edges.shape == (bins + 1,) and (np.diff(edges) > 0).all():
        return edges
    return np.linspace(0, 1, bins + 1)


def read_thumbnails(path: Path, notes: list[str]) -> dict[str, Array]:
    """Return the pictures of the most doubtful samples."""
    pictures = _read_arrays(path, notes, "")
    if not pictures:
        return {}
    index, images = pictures.get("index"), pictures.get("images")
    if (
        index is None
        or images is None
        or images.ndim != 4
        or images.dtype != np.uint8
        or images.shape[3] not in {1, 3}
        or len(index) != len(images)
    ):
        notes.append("thumbnails.npz is not of the expected shape; no pictures are shown.")
        return {}
    return {"index": index, "images": images}
