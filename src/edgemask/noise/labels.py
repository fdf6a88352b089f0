"""The manifest of a label set: clean and noisy labels, and how they were made."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from edgemask._files import write_arrays
from edgemask._options import check_argument
from edgemask.errors import DataError, UserError, one_line
from edgemask.noise._checks import Classes, Int64, Seed, as_labels
from edgemask.runs import load_arrays

__all__ = ["NoisyLabels"]

_FORMAT = "edgemask-noise-1"


@dataclass(frozen=True, eq=False, kw_only=True)
class NoisyLabels:
    """Noisy labels of a training set with the record of how they were made.

    Arrays are read-only copies; two manifests are the same exactly when their fingerprints are.

    Example:
        >>> labels = NoisyLabels(clean=[0, 1, 1, 0], noisy=[0, 1, 0, 0], num_classes=2, kind="mine")
        >>> labels.realised_rate
        0.25
        >>> labels.transition.tolist()
        [[1.0, 0.0], [0.5, 0.5]]
    """

    clean: Int64 | None
    """True labels, -1 for a sample that belongs to none of the classes; None when unknown."""
    noisy: Int64
    """The labels to train with."""
    num_classes: int
    """The number of classes that a classifier has to tell apart."""
    kind: str
    """The kind of noise, as in ``NOISE``."""
    protocol: str | None = None
    """Whose generator made the labels; None where no generator did."""
    rate: float | None = None
    """The nominal rate; None when unknown."""
    seed: int | None = None
    """The seed of the generator; None where there was no draw."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """Whatever else is worth keeping, as plain JSON values. Not part of the fingerprint."""
    realised_rate: float | None = field(init=False)
    """The share of samples whose noisy label is not the true one; None when unknown."""
    fingerprint: str = field(init=False)
    """SHA-256 over the labels, clean and noisy, and kind, protocol, rate, seed, class count."""

    def __post_init__(self) -> None:
        def put(name: str, value: Any) -> None:
            object.__setattr__(self, name, value)

        classes = check_argument(self.num_classes, Classes, "num_classes")
        put("num_classes", classes)
        put("noisy", as_labels(self.noisy, classes, name="noisy"))
        self.noisy.setflags(write=False)
        put("seed", check_argument(self.seed, Seed | None, "seed"))
        put("details", json.loads(json.dumps(dict(self.details))))
        put("realised_rate", None)
        if self.clean is not None:
            clean = as_labels(self.clean, classes, name="clean", open_set=True)
            if clean.shape != self.noisy.shape:
                raise UserError(
                    f"clean has {len(clean)} labels and noisy {len(self.noisy)}; "
                    "both need one label for each sample"
                )
            clean.setflags(write=False)
            put("clean", clean)
            put("realised_rate", float(np.mean(clean != self.noisy)))
        record = json.dumps(self._record(), sort_keys=True)
        put("fingerprint", _digest(record, self._arrays()))

    def __len__(self) -> int:
        return len(self.noisy)

    def __repr__(self) -> str:
        return (
            f"NoisyLabels({self.summary()}, n={len(self)}, num_classes={self.num_classes}, "
            f"fingerprint={self.fingerprint[:12]})"
        )

    @property
    def wrong(self) -> NDArray[np.bool_] | None:
        """Which samples carry a wrong label; None when the true labels are unknown."""
        return None if self.clean is None else self.clean != self.noisy

    @property
    def open_set(self) -> NDArray[np.bool_] | None:
        """Which samples belong to none of the classes; None when unknown."""
        return None if self.clean is None else self.clean < 0

    @functools.cached_property
    def transition(self) -> NDArray[np.float64] | None:
        """``transition[i, j]``: the share of true class i that is labelled j; rows sum to 1.

        Samples outside all classes do not enter; a class without samples has an identity row.
        None when the true labels are unknown. Made when it is first asked for: it has as many
        entries as there are pairs of classes.
        """
        if self.clean is None:
            return None
        return _transition(self.clean, self.noisy, self.num_classes)

    def summary(self) -> str:
        """Say kind, protocol, nominal and realised rate in one line."""
        parts = [self.kind]
        if self.protocol is not None:
            parts.append(f"protocol {self.protocol}")
        if self.rate is not None:
            parts.append(f"nominal {self.rate:.4g}")
        realised = self.realised_rate
        parts.append("realised unknown" if realised is None else f"realised {realised:.4g}")
        return ", ".join(parts)

    def take(self, index: ArrayLike) -> NoisyLabels:
        """Return the manifest of some of the samples, in the order of their positions."""
        rows = np.asarray(index)
        clean = None if self.clean is None else self.clean[rows]
        return dataclasses.replace(self, clean=clean, noisy=self.noisy[rows])

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the manifest as ``.npz``, whole or not at all, and return its path."""
        target = Path(path)
        arrays = self._arrays()
        meta = json.dumps({**self._record(), "details": dict(self.details)}, sort_keys=True)
        text = {"meta": np.array(meta), "digest": np.array(_digest(meta, arrays))}
        write_arrays(target, text | arrays)
        return target

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> NoisyLabels:
        """Read a manifest that :meth:`save` wrote, and verify that nothing in it was changed."""
        source = Path(path)
        if not source.is_file():
            raise DataError(f"there is no noise manifest {source}")
        try:
            found = load_arrays(source)
            arrays = {name: found[name] for name in found.keys() & {"noisy", "clean"}}
            meta, digest = str(found["meta"]), str(found["digest"])
            record = json.loads(meta)
            intact = digest == _digest(meta, arrays) and record.pop("format") == _FORMAT
            if intact:
                return cls(clean=arrays.get("clean"), noisy=arrays["noisy"], **record)
        except Exception as error:  # numpy, zipfile and zlib raise all sorts
            raise DataError(f"{source} is not a whole noise manifest: {one_line(error)}") from error
        raise DataError(f"{source} was changed after it was written; make the noise anew")

    def _record(self) -> dict[str, Any]:
        return {
            "format": _FORMAT,
            "num_classes": self.num_classes,
            "kind": self.kind,
            "protocol": self.protocol,
            "rate": self.rate,
            "seed": self.seed,
        }

    def _arrays(self) -> dict[str, NDArray[Any]]:
        known = {} if self.clean is None else {"clean": self.clean}
        return {"noisy": self.noisy} | known


def _digest(meta: str, arrays: Mapping[str, NDArray[Any]]) -> str:
    sha = hashlib.sha256(meta.encode())
    for name in sorted(arrays):
        sha.update(f"\0{name}\0{len(arrays[name])}\0".encode())
        sha.update(np.ascontiguousarray(arrays[name], dtype="<i8").tobytes())
    return sha.hexdigest()


def _transition(clean: Int64, noisy: Int64, num_classes: int) -> NDArray[np.float64]:
    known = clean >= 0
    counts = np.zeros((num_classes, num_classes))
    np.add.at(counts, (clean[known], noisy[known]), 1.0)
    totals = counts.sum(axis=1, keepdims=True)
    matrix = np.where(totals > 0, counts / np.maximum(totals, 1.0), np.eye(num_classes))
    matrix.setflags(write=False)
    return matrix
