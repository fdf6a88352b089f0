"""The arrays of a run directory, checked; what is absent or broken becomes a note.

Pickle is never allowed: a run directory may come from anybody.
"""

from __future__ import annotations

import math
import zipfile
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = ["Array", "read_head", "read_noise", "read_samples", "read_thumbnails"]

Array: TypeAlias = npt.NDArray[Any]


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
    """Return the manifest of the labels; single values as plain Python ones."""
    arrays = _read_arrays(path, notes, "There is no noise.npz: nothing is known about the noise.")
    noise: dict[str, Any] = {
        key: value.item() if value.ndim == 0 else value for key, value in arrays.items()
    }
    for key, value in list(noise.items()):
        if (isinstance(value, float) and not math.isfinite(value)) or (
            isinstance(value, np.ndarray) and value.size == 0
        ):
            del noise[key]
    clean, noisy = noise.get("clean"), noise.get("noisy")
    if clean is not None and (noisy is None or np.shape(clean) != np.shape(noisy)):
        notes.append("noise.npz: clean and noisy labels do not have one length; clean is left out.")
        del noise["clean"]
    if "clean" in noise and (np.asarray(noise["clean"]) < 0).any():
        del noise["clean"]
    transition = noise.get("transition")
    if transition is not None and (
        transition.ndim != 2 or transition.shape[0] != transition.shape[1]
    ):
        notes.append("noise.npz: the transition matrix is not square and is left out.")
        del noise["transition"]
    if arrays and "clean" not in noise:
        notes.append(
            "The clean labels are not known, so nothing is said about memorised labels or the true "
            "noise rate."
        )
    return noise


def read_samples(path: Path, notes: list[str], *, finished: bool) -> dict[str, Array]:
    """Return what is known of each training sample, as columns of one length."""
    why = "" if finished else " It is written at the end of a run."
    samples = _read_arrays(
        path, notes, f"There is no samples.npz: no trust in single labels can be shown.{why}"
    )
    needed = {"index", "given", "predicted", "trust"}
    if not samples:
        return {}
    lengths = {value.shape for value in samples.values() if value.ndim}
    if not needed <= samples.keys() or len(lengths) != 1 or len(next(iter(lengths))) != 1:
        notes.append("samples.npz lacks columns or they differ in length; it is left out.")
        return {}
    return {key: value for key, value in samples.items() if value.ndim}


def read_head(path: Path, notes: list[str]) -> dict[str, Array]:
    """Return scores, histograms and retention over time."""
    head = _read_arrays(
        path,
        notes,
        "There is no head.npz: this head scores no edges, or the run has not got there.",
    )
    if not head:
        return {}
    epochs = head.get("epochs", np.zeros(0))
    time = len(epochs)
    good = {"epochs": epochs}
    shapes = {"scores": 3, "histogram": 2, "retention": 1}
    for key, dimensions in shapes.items():
        value = head.get(key)
        if value is not None and value.ndim == dimensions and len(value) == time and value.size:
            good[key] = value
    edges, columns = head.get("edges"), head.get("columns")
    if "histogram" in good:
        if edges is not None and edges.shape == (good["histogram"].shape[1] + 1,):
            good["edges"] = edges
        else:
            good["edges"] = np.linspace(0, 1, good["histogram"].shape[1] + 1)
    if "scores" in good and columns is not None and columns.shape == good["scores"].shape[2:]:
        good["columns"] = columns
    if len(good) == 1:
        notes.append("head.npz holds no scores over time; it is left out.")
        return {}
    return good


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
