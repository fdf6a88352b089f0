"""Rows of a table as vectors: numbers standardised, categories one-hot, missing values filled."""

from __future__ import annotations

import datetime as dt
import math
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from edgemask.data.columns import Columns
from edgemask.data.labels import is_missing
from edgemask.errors import DataError, EdgeMaskWarning

__all__ = ["Column", "TableEncoder", "fit_table"]

Kind = Literal["number", "boolean", "date", "category"]
Floats = NDArray[np.float64]

# Beside the words that always do, these stand for a missing value in a column of numbers.
_NO_NUMBER = frozenset({"?", "-", "--", ".", "None", "none", "unknown"})
_TRUE, _FALSE = frozenset({"true", "yes", "t", "y"}), frozenset({"false", "no", "f", "n"})
_DAY = np.timedelta64(1, "D")


@dataclass(frozen=True)
class Column:
    """How one column becomes numbers.

    Args:
        name: The column.
        kind: ``number``, ``boolean`` (0 or 1), ``date`` (days since 1970) or ``category``.
        fill: What stands in for a missing number: the median.
        mean: Mean of the numbers.
        std: Their standard deviation.
        missing: Whether a feature of its own says that the value is missing.
        values: The categories, each a feature.
        other: Whether all other categories share one more feature.
    """

    name: str
    kind: Kind
    fill: float = 0.0
    mean: float = 0.0
    std: float = 1.0
    missing: bool = False
    values: tuple[str, ...] = ()
    other: bool = False

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the features that the column becomes."""
        own = tuple(f"{self.name}={value}" for value in self.values)
        if self.kind != "category":
            own = (self.name,)
        more = (f"{self.name}: other",) if self.other else ()
        return own + more + ((f"{self.name}: missing",) if self.missing else ())

    def encode(self, values: NDArray[Any], where: str) -> NDArray[np.float32]:
        """Return the features of the column, ``(N, features)``."""
        if self.kind == "category":
            return self._one_hot(values, where)
        numbers, strange = as_numbers(values, self.kind)
        if strange:
            _warn(
                f"{where}: column {self.name!r} holds {len(strange)} values that are no "
                f"{self.kind} ({_some(strange)}); they count as missing"
            )
        _refuse_infinite(numbers, where, self.name)
        gaps = np.isnan(numbers)
        scaled = (np.where(gaps, self.fill, numbers) - self.mean) / self.std
        columns = [scaled, gaps.astype(np.float64)] if self.missing else [scaled]
        return np.stack(columns, axis=1).astype(np.float32)

    def _one_hot(self, values: NDArray[Any], where: str) -> NDArray[np.float32]:
        words = _words(values)
        places = {value: place for place, value in enumerate(self.values)}
        rest = len(places) if self.other else -1
        gap = len(self.features) - 1 if self.missing else -1
        found = np.array([gap if w is None else places.get(w, rest) for w in words], dtype=np.int64)
        unseen = [w for w in words if w is not None and w not in places] if rest < 0 else []
        if unseen:
            _warn(
                f"{where}: column {self.name!r} has values that the training data did not have "
                f"({_some(unseen)}) in {len(unseen)} rows; they are encoded as none of the known"
            )
        table = np.zeros((len(words), len(self.features)), dtype=np.float32)
        known = np.flatnonzero(found >= 0)
        table[known, found[known]] = 1.0
        return table

    def describe(self) -> str:
        """Return the column in a few words."""
        text = f"{self.name} ({self.kind}"
        if self.kind == "category":
            text += f" of {len(self.values)}{' and others' if self.other else ''}"
        elif self.kind == "date":
            text += " as days since 1970"
        return text + (", missing values filled)" if self.missing else ")")


@dataclass(frozen=True)
class TableEncoder:
    """Encodes rows of a table.

    Args:
        columns: How each column becomes numbers, in the order of the features.
        id_column: The column that names rows, where there was one.
        label_column: The column of labels, where there was one.
    """

    columns: tuple[Column, ...]
    id_column: str | None = None
    label_column: str | None = None

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the features."""
        return tuple(name for column in self.columns for name in column.features)

    def encode(self, rows: Columns) -> NDArray[np.float32]:
        """Return the features of each row, ``(N, features)``; other columns are ignored."""
        missing = [column.name for column in self.columns if column.name not in rows.values]
        if missing:
            raise DataError(
                f"{rows.name}: the columns {', '.join(map(repr, missing))} of the training data "
                f"are missing; there are: {', '.join(rows.values)}"
            )
        parts = [column.encode(rows[column.name], rows.name) for column in self.columns]
        return np.concatenate(parts, axis=1)

    def to_json(self) -> dict[str, Any]:
        """Return the encoder as plain values."""
        return {
            "kind": "table",
            "columns": [{**asdict(c), "values": list(c.values)} for c in self.columns],
            "id_column": self.id_column,
            "label_column": self.label_column,
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> TableEncoder:
        """Return the encoder of :meth:`to_json`."""
        columns = tuple(
            Column(**{**column, "values": tuple(column["values"])}) for column in values["columns"]
        )
        return cls(columns, values["id_column"], values["label_column"])

    def describe(self) -> str:
        """Return the columns in a few words."""
        shown = ", ".join(column.describe() for column in self.columns[:12])
        more = f" and {len(self.columns) - 12} more" if len(self.columns) > 12 else ""
        return f"columns: {shown}{more}"


def fit_table(
    rows: Columns,
    *,
    categories: Sequence[str] = (),
    max_categories: int = 100,
    id_column: str | None = None,
    label_column: str | None = None,
) -> tuple[TableEncoder, list[str]]:
    """Fit an encoder to the rows of a training set.

    Args:
        rows: The feature columns.
        categories: Columns whose values are names even where they look like numbers.
        max_categories: The most frequent categories of a column that get a feature each.
        id_column: Stored with the encoder.
        label_column: Likewise.

    Returns:
        The encoder, and what was left out: ``"column (reason)"``.
    """
    for name in categories:
        rows[name]  # an unknown one is refused
    columns, left_out = [], []
    for name, values in rows.values.items():
        forced = name in categories or name in rows.categories
        try:
            columns.append(_fit_column(name, values, rows.name, max_categories, forced=forced))
        except _Unusable as reason:
            left_out.append(f"{name} ({reason})")
    if not columns:
        listed = "; ".join(left_out) or "the table has none beside label and id"
        raise DataError(f"{rows.name}: there is no column to learn from: {listed}")
    return TableEncoder(tuple(columns), id_column, label_column), left_out


class _Unusable(Exception):  # noqa: N818 - a reason, caught where it is raised
    """Why a column cannot be a feature."""


def _fit_column(name: str, values: NDArray[Any], where: str, most: int, *, forced: bool) -> Column:
    kind: Kind = "category" if forced else _kind(values)
    if kind == "category":
        return _fit_category(name, values, most)
    numbers, _ = as_numbers(values, kind)
    _refuse_infinite(numbers, where, name)
    known = numbers[~np.isnan(numbers)]
    if not known.size:
        raise _Unusable("all values are missing")
    fill = float(np.median(known))
    filled = np.where(np.isnan(numbers), fill, numbers)
    std = float(filled.std())
    return Column(
        name,
        kind,
        fill=fill,
        mean=float(filled.mean()),
        std=std if std > 1e-12 * max(1.0, float(np.abs(filled).max())) else 1.0,
        missing=known.size < numbers.size,
    )


def _fit_category(name: str, values: NDArray[Any], most: int) -> Column:
    words = _words(values)
    counts = Counter(word for word in words if word is not None)
    total = sum(counts.values())
    if len(counts) > max(10, 0.5 * total):
        raise _Unusable(_strange_text(counts, total))
    ranked = sorted(counts, key=lambda word: (-counts[word], word))
    return Column(
        name,
        "category",
        missing=total < len(words),
        values=tuple(sorted(ranked[:most])),
        other=len(ranked) > most,
    )


def _strange_text(counts: Mapping[str, int], total: int) -> str:
    """Say why words with so many different values are no categories."""
    numbers = sum(count for word, count in counts.items() if _number(word) is not None)
    if 0.8 * total < numbers < total:
        odd = next(word for word in counts if _number(word) is None)
        return f"numbers but for {total - numbers} values such as {odd!r}; correct these"
    return f"{len(counts)} different values in {total} rows: a text or an identifier"


def _kind(values: NDArray[Any]) -> Kind:
    if values.dtype.kind == "b":
        return "boolean"
    if values.dtype.kind in "iufm":
        return "number"
    if values.dtype.kind == "M":
        return "date"
    present = [value for value in values.tolist() if not _is_gap(value)]
    if not present:
        raise _Unusable("all values are missing")
    odd = next((v for v in present if isinstance(v, list | dict | set | bytes | np.ndarray)), None)
    if odd is not None or hasattr(present[0], "getbands"):
        raise _Unusable(f"holds {type(present[0] if odd is None else odd).__name__} values")
    distinct = set(present)
    if all(_boolean(value) is not None for value in distinct):
        return "boolean"
    if all(_number(value) is not None for value in distinct):
        return "number"
    if all(_date(value) is not None for value in distinct):
        return "date"
    return "category"


def as_numbers(values: NDArray[Any], kind: Kind) -> tuple[Floats, list[str]]:
    """Return numbers, NaN where a value is missing, and the values that are none."""
    if values.dtype.kind == "M":
        days = (values - np.datetime64(0, "D")) / _DAY
        return days.astype(np.float64), []
    if values.dtype.kind == "m":
        return (values / np.timedelta64(1, "s")).astype(np.float64), []
    if values.dtype.kind in "iufb":
        return values.astype(np.float64), []
    parse = {"number": _number, "boolean": _boolean, "date": _date}[kind]
    numbers = np.full(len(values), math.nan)
    strange = []
    for place, value in enumerate(values.tolist()):
        if _is_gap(value):
            continue
        number = parse(value)
        if number is None and kind == "boolean":
            number = _number(value)
        if number is None:
            strange.append(str(value))
        else:
            numbers[place] = number
    return numbers, strange


def _is_gap(value: Any) -> bool:
    return is_missing(value.strip() if isinstance(value, str) else value) or (
        isinstance(value, str) and value.strip() in _NO_NUMBER
    )


def _number(value: Any) -> float | None:
    if isinstance(value, str) and "_" in value:
        return None
    if isinstance(value, dt.timedelta):
        return value.total_seconds()
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def _boolean(value: Any) -> float | None:
    if isinstance(value, bool | np.bool_):
        return float(value)
    word = value.strip().lower() if isinstance(value, str) else ""
    return 1.0 if word in _TRUE else 0.0 if word in _FALSE else None


def _date(value: Any) -> float | None:
    """Return the days since 1970 of a date or of a word in ISO form (2024-05-31)."""
    if isinstance(value, str):
        word = value.strip()
        if len(word) < 8 or not word[:4].isdigit():
            return None
        try:
            value = dt.datetime.fromisoformat(word)
        except ValueError:
            return None
    if isinstance(value, dt.datetime):
        if value.tzinfo is not None:
            value = value.astimezone(dt.UTC).replace(tzinfo=None)
        return float((value - dt.datetime(1970, 1, 1)) / dt.timedelta(days=1))  # noqa: DTZ001
    if isinstance(value, dt.date):
        return float((value - dt.date(1970, 1, 1)).days)
    return None


def _words(values: NDArray[Any]) -> list[str | None]:
    found: list[str | None] = []
    for value in values.tolist():
        word = str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
        found.append(None if is_missing(value) or word.strip() in ("", "?") else word.strip())
    return found


def _refuse_infinite(numbers: Floats, where: str, name: str) -> None:
    infinite = np.flatnonzero(np.isinf(numbers))
    if infinite.size:
        raise DataError(
            f"{where}: column {name!r} is infinite, not finite in sample {infinite[0]} "
            f"({infinite.size} such values); correct or remove these rows"
        )


def _some(words: Sequence[str]) -> str:
    distinct = list(dict.fromkeys(words))
    return ", ".join(map(repr, distinct[:3])) + (", ..." if len(distinct) > 3 else "")


def _warn(message: str) -> None:
    warnings.warn(message, EdgeMaskWarning, stacklevel=4)
