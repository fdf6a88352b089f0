"""Labels of any kind as class numbers: names, whole numbers, booleans and categories."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from edgemask.errors import DataError

__all__ = ["Classes", "find_classes", "is_missing", "labels_from_text"]

MISSING = frozenset(
    {"", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "NAN", "NULL", "null", "NaT"}
)
"""Words that stand for a missing value in a text file."""

_MANY = 50
_FAR = 1_000_000  # a whole number so large beside small ones is a mistake, not a class
_SETS = 0.01


@dataclass(frozen=True)
class Classes:
    """The classes of a dataset.

    Args:
        names: One name per class.
        values: The label of each class as it was given: a name, a number or a boolean.
    """

    names: tuple[str, ...]
    values: tuple[Any, ...]

    def numbers(
        self, labels: Any, *, where: str, rows: Sequence[str] | None = None
    ) -> NDArray[np.int64]:
        """Return the class number of each label.

        Args:
            labels: ``(N,)`` labels.
            where: What they are, for messages.
            rows: What to call the samples in messages; their positions otherwise.
        """
        given = _as_array(labels, where, rows)
        known = {value: number for number, value in enumerate(self.values)}
        if given.dtype.kind not in "OU" and all(not isinstance(v, str) for v in self.values):
            order = np.argsort(np.asarray(self.values))
            places = np.searchsorted(np.asarray(self.values), given, sorter=order)
            numbers = order[np.minimum(places, len(order) - 1)]
            found = np.where(np.asarray(self.values)[numbers] == given, numbers, -1)
        else:
            found = np.array([known.get(value, -1) for value in given.tolist()], dtype=np.int64)
        wrong = np.flatnonzero(found < 0)
        if wrong.size:
            first = int(wrong[0])
            label = given.tolist()[first]
            raise DataError(
                f"{where}: the label {label!r} of {_called(first, rows)} is unknown "
                f"({wrong.size} such labels); the classes are {_listed(self.names)}"
            )
        return found.astype(np.int64)


def find_classes(
    labels: Sequence[Any],
    *,
    where: str,
    class_names: Sequence[str] | None = None,
    rows: Sequence[str] | None = None,
) -> Classes:
    """Return the classes that occur in labels, sorted; numbers that do not occur are no classes.

    Args:
        labels: Arrays of labels: the training labels first, then those of test sets.
        where: What they are, for messages.
        class_names: All classes in order; labels are then these names or their positions.
        rows: What to call the training samples in messages; their positions otherwise.

    Raises:
        DataError: Labels are missing, real numbers, several per sample, or all the same; or one
            is a number far from all others.

    Example:
        >>> find_classes([[3, 1, 3, 2]], where="y").names
        ('1', '2', '3')
    """
    arrays = [
        _as_array(values, where, None if number else rows) for number, values in enumerate(labels)
    ]
    if not len(arrays[0]):
        raise DataError(f"{where}: there are no labels")
    kinds = {_family(array) for array in arrays if len(array)}
    if len(kinds) > 1:
        raise DataError(
            f"{where}: the labels must be all numbers or all names, got {' and '.join(kinds)}"
        )
    if class_names is not None:
        names = tuple(str(entry) for entry in class_names)
        numbered = kinds != {"names"}
        return Classes(names, tuple(range(len(names))) if numbered else names)
    if kinds == {"names"}:
        _refuse_sets(np.concatenate(arrays), where)
    found = sorted({value for array in arrays for value in np.unique(array).tolist()})
    _check_count(found, len(arrays[0]), where)
    if kinds == {"numbers"}:
        _refuse_far(found, np.concatenate(arrays), where)
    return Classes(tuple(_name(value) for value in found), tuple(found))


def labels_from_text(labels: Iterable[str]) -> NDArray[Any]:
    """Return labels of a text file: numbers where all of them are, otherwise names.

    Example:
        >>> labels_from_text(["2", "1"]).tolist(), labels_from_text(["02", "1"]).tolist()
        ([2, 1], ['02', '1'])
    """
    words = [label.strip() for label in labels]
    present = [word for word in words if word not in MISSING]
    if present and all(_is_number(word) for word in set(present)):
        values = [float(word) if word not in MISSING else math.nan for word in words]
        whole = all("." not in word and "e" not in word.lower() for word in present)
        if whole and len(present) == len(words):
            return np.array([int(word) for word in words])
        return np.array(values)
    return np.array([None if word in MISSING else word for word in words], dtype=object)


def is_missing(value: Any) -> bool:
    """Whether a value stands for a missing one: None, NaN, ``pandas.NA`` or an empty word."""
    if value is None or isinstance(value, str):
        return value is None or value in MISSING
    if isinstance(value, float | np.floating):
        return math.isnan(value)
    return type(value).__name__ in ("NAType", "NaTType")


def _is_number(word: str) -> bool:
    """Whether a word is a number and not a code with leading zeros."""
    digits = word.lstrip("+-")
    if not digits or digits[0] not in "0123456789.":
        return False
    if len(digits) > 1 and digits[0] == "0" and digits[1].isdigit():
        return False
    try:
        return math.isfinite(float(word)) and "_" not in word
    except ValueError:
        return False


def _as_array(labels: Any, where: str, rows: Sequence[str] | None) -> NDArray[Any]:
    """Return labels as a plain array of numbers, booleans or names, without missing ones."""
    array = _plain(labels, where)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise DataError(
            f"{where}: labels must be one-dimensional, one per sample, got shape {array.shape}. "
            "Several labels per sample (multi-label) are not supported; if each row has a single "
            "1, give labels.argmax(1)"
        )
    if array.dtype.kind == "O":
        array = _from_objects(array, where, rows)
    if array.dtype.kind == "f":
        _refuse_missing(np.flatnonzero(np.isnan(array)), where, rows)
        real = np.flatnonzero((array != np.round(array)) | ~np.isfinite(array))
        if real.size:
            raise DataError(
                f"{where}: the labels look like real numbers ({array[real[0]]:g} in "
                f"{_called(int(real[0]), rows)}): EdgeMask is for classification, not for "
                "regression"
            )
    if array.dtype.kind == "S":
        array = np.char.decode(array, "utf-8")
    if array.dtype.kind not in "iubfU":
        raise DataError(
            f"{where}: labels must be names, whole numbers or booleans, got {array.dtype}"
        )
    return array


def _plain(labels: Any, where: str) -> NDArray[Any]:
    if isinstance(labels, Tensor):
        return labels.detach().cpu().numpy()
    if isinstance(labels, np.ndarray):
        return labels
    for method in ("to_list", "tolist"):  # pandas and polars
        if hasattr(labels, method):
            labels = getattr(labels, method)()
            break
    items = list(labels)
    if any(isinstance(item, list | tuple | set | dict) for item in items):
        widths = {len(item) for item in items if hasattr(item, "__len__")}
        if len(widths) == 1 and all(isinstance(item, list | tuple) for item in items):
            return np.array(items)
        raise DataError(
            f"{where}: a sample has several labels (multi-label), which is not supported; give "
            "one label per sample"
        )
    kinds = {type(item) for item in items}
    if kinds <= {int, bool} and len(kinds) == 1:
        return np.array(items)
    array = np.empty(len(items), dtype=object)
    array[:] = items
    return array


def _from_objects(array: NDArray[Any], where: str, rows: Sequence[str] | None) -> NDArray[Any]:
    items = array.tolist()
    _refuse_missing(np.flatnonzero([is_missing(item) for item in items]), where, rows)
    if all(isinstance(item, bool | np.bool_) for item in items):
        return np.array(items, dtype=bool)
    if all(isinstance(item, int | np.integer) for item in items):
        if max(map(abs, items), default=0) >= 2**63:
            raise DataError(f"{where}: the label {max(items, key=abs)} is too large for a number")
        return np.array(items, dtype=np.int64)
    if all(isinstance(item, int | float | np.number) for item in items):
        return np.array(items, dtype=np.float64)
    several = next(
        (i for i in items if isinstance(i, list | tuple | set | dict | np.ndarray)), None
    )
    if several is not None:
        raise DataError(
            f"{where}: a sample has several labels ({several!r}; multi-label), which is not "
            "supported; give one label per sample"
        )
    return np.array([_name(item) for item in items], dtype=np.str_)


def _refuse_missing(places: NDArray[Any], where: str, rows: Sequence[str] | None) -> None:
    if places.size:
        listed = ", ".join(_called(int(place), rows) for place in places[:5])
        more = ", ..." if places.size > 5 else ""
        are = "labels are" if places.size > 1 else "label is"
        raise DataError(
            f"{where}: {places.size} {are} missing ({listed}{more}); fill them in, or remove these "
            "rows"
        )


def _refuse_sets(labels: NDArray[Any], where: str) -> None:
    """Refuse labels many of which are sets of labels, written as one word.

    Such are ``a|b`` (or with ``;`` or ``,``) where a and b are labels themselves, and lists in
    brackets.
    """
    names, counts = np.unique(labels, return_counts=True)
    known = set(names.tolist())
    sets = [n for n, name in enumerate(names.tolist()) if _is_set(name, known)]
    number = int(counts[sets].sum())
    if number and number >= _SETS * len(labels):
        look = "label looks like a set" if number == 1 else "labels look like sets"
        raise DataError(
            f"{where}: {number} {look} of labels ({str(names[sets[0]])!r}; multi-label), "
            "which is not supported; keep one label per sample (the main one), or make a data set "
            "per label with 'yes' and 'no'"
        )


def _is_set(name: str, known: Collection[str]) -> bool:
    if name[:1] + name[-1:] in ("[]", "()", "{}"):
        return any(mark in name for mark in ",'\"")
    for separator in "|;,":
        parts = [part.strip() for part in name.split(separator)]
        if len(parts) > 1 and all(part in known for part in parts):
            return True
    return False


def _check_count(found: Sequence[Any], count: int, where: str) -> None:
    if len(found) < 2:
        raise DataError(
            f"{where}: all labels are {_name(found[0])!r}, which is one class; a classifier needs "
            "at least two classes"
        )
    if len(found) > max(_MANY, count / 2):
        kind = "names"
        if not isinstance(found[0], str):
            kind = "numbers to be predicted (regression)"
        raise DataError(
            f"{where}: {len(found)} different labels for {count} samples look like identifiers or "
            f"{kind}: EdgeMask is for classification; check which column is the label"
        )


def _refuse_far(found: Sequence[Any], labels: NDArray[Any], where: str) -> None:
    *_, near, far = sorted(found, key=abs)
    if abs(far) > max(_FAR, 1000 * abs(near)):
        count = int((labels == far).sum())
        raise DataError(
            f"{where}: {count} {'label is' if count == 1 else 'labels are'} {_name(far)}, far from "
            f"all others, which go up to {_name(near)}; correct or remove such samples, or give "
            "names for labels if it is a class"
        )


def _family(array: NDArray[Any]) -> str:
    return {"U": "names", "b": "booleans"}.get(array.dtype.kind, "numbers")


def _name(value: Any) -> str:
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value)


def _called(place: int, rows: Sequence[str] | None) -> str:
    name = str(place) if rows is None else rows[place]
    return name if name.startswith("line ") else f"sample {name}"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:10]) + (", ..." if len(names) > 10 else "")
