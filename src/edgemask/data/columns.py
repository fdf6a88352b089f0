"""Tables as named columns, whatever library or file they come from."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgemask._text import printable
from edgemask.errors import DataError, MissingExtraError, nearest, one_line

__all__ = ["Columns", "columns_of", "is_frame", "read_csv", "read_parquet", "separator_of"]

_DELIMITERS = ",;\t|"
_DECIMAL = re.compile(r"\s*[+-]?\d+,\d+\s*")


@dataclass(frozen=True)
class Columns:
    """A table: columns of one length by name.

    Args:
        values: Arrays by name: numbers, booleans, dates, or objects (text, None where missing).
        rows: What to call each row in messages and in results: its number from 0, or its id.
        name: What to call the table in messages.
        categories: Columns that hold names even where they look like numbers.
        class_names: Names of the classes by label column, where the table knows them.
        lines: The line of each row in a text file, all of whose values are words.
    """

    values: dict[str, NDArray[Any]]
    rows: Sequence[str]
    name: str
    categories: frozenset[str] = frozenset()
    class_names: Mapping[str, Sequence[str]] = ()  # type: ignore[assignment]
    lines: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, column: str) -> NDArray[Any]:
        if column not in self.values:
            names = list(self.values)
            raise DataError(
                f"{self.name}: there is no column {column!r}{nearest(column, names) or '.'} "
                f"Columns: {printable(', '.join(names))}"
            )
        return self.values[column]

    def take(self, positions: NDArray[np.int64]) -> Columns:
        """Return some of the rows."""
        return Columns(
            {name: column[positions] for name, column in self.values.items()},
            [self.rows[int(place)] for place in positions],
            self.name,
            self.categories,
            self.class_names,
            None if self.lines is None else self.lines[positions],
        )

    @property
    def places(self) -> Sequence[str] | None:
        """What to call rows in messages: their lines in a file; None: as the samples are called."""
        return None if self.lines is None else [f"line {line}" for line in self.lines]


def is_frame(data: Any) -> bool:
    """Whether an object is a frame of pandas or polars, or a ``datasets.Dataset``."""
    package = type(data).__module__.partition(".")[0]
    return package in ("pandas", "polars", "datasets") and hasattr(data, "__len__")


def columns_of(data: Any, *, name: str = "table") -> Columns:
    """Return the columns of a frame, a mapping of columns, or a two-dimensional array.

    Args:
        data: A frame of pandas or polars, a ``datasets.Dataset``, a mapping from names to columns,
            a list of mappings, or rows of values; columns without names are called by number.
        name: What to call the table in messages.
    """
    package = type(data).__module__.partition(".")[0]
    if package == "pandas":
        return _from_pandas(data, name)
    if package == "polars":
        return _from_polars(data, name)
    if package == "datasets":
        return _from_datasets(data, name)
    if isinstance(data, Mapping):
        return _joined({str(key): _array(column) for key, column in data.items()}, name)
    if isinstance(data, list | tuple) and data and all(isinstance(row, Mapping) for row in data):
        names = dict.fromkeys(str(key) for row in data for key in row)
        return _joined({key: _array([row.get(key) for row in data]) for key in names}, name)
    rows = np.asarray(data, dtype=None if isinstance(data, np.ndarray) else object)
    if rows.ndim != 2:
        raise DataError(
            f"{name}: expected rows of equally many values, got shape {rows.shape}; give a frame, "
            "a list of rows, or an array (samples, features)"
        )
    return _joined({str(place): rows[:, place] for place in range(rows.shape[1])}, name)


def _joined(values: dict[str, NDArray[Any]], name: str, **more: Any) -> Columns:
    lengths = {len(column) for column in values.values()}
    if len(lengths) != 1:
        raise DataError(f"{name}: the columns must have one length, got {sorted(lengths)}")
    return Columns(values, [str(row) for row in range(lengths.pop())], name, **more)


def _array(values: Any) -> NDArray[Any]:
    if isinstance(values, np.ndarray) and values.dtype.kind in "iufbM":
        return values
    items = list(values)
    if items and {type(item) for item in items} in ({int}, {float}, {bool}):
        return np.array(items)
    array = np.empty(len(items), dtype=object)
    array[:] = items
    return array


def _from_pandas(frame: Any, name: str) -> Columns:
    if frame.ndim != 2:
        raise DataError(f"{name}: expected a DataFrame, got a Series; give its values, or a frame")
    names = [str(column) for column in frame.columns]
    _refuse_twins(names, name)
    values, categories = {}, set()
    for place, column in enumerate(names):
        series = frame.iloc[:, place]
        kind = str(series.dtype)
        if kind == "category":
            categories.add(column)
        if series.dtype.kind in "iufbM" and isinstance(series.dtype, np.dtype):
            values[column] = series.to_numpy()
        elif kind.startswith("datetime64"):  # with a time zone
            values[column] = series.dt.tz_convert(None).to_numpy()
        else:
            values[column] = np.array(
                [
                    None if missing else item
                    for item, missing in zip(series, series.isna(), strict=True)
                ]
                + [None],
                dtype=object,
            )[:-1]
    rows = [str(row) for row in range(len(frame))]
    index = [str(entry) for entry in frame.index]
    if type(frame.index).__name__ != "RangeIndex" and len(set(index)) == len(index):
        rows = index
    return Columns(values, rows, name, frozenset(categories))


def _from_polars(frame: Any, name: str) -> Columns:
    if not hasattr(frame, "get_columns"):
        raise DataError(f"{name}: expected a polars DataFrame, got {type(frame).__name__}")
    values, categories = {}, set()
    for series in frame.get_columns():
        kind = str(series.dtype)
        if kind.startswith(("Categorical", "Enum")):
            categories.add(series.name)
        values[series.name] = _array(series.to_list())
    return _joined(values, name, categories=frozenset(categories))


def _from_datasets(data: Any, name: str) -> Columns:
    if not hasattr(data, "column_names") or not isinstance(data.column_names, list):
        raise DataError(
            f"{name}: expected one split of a dataset, got {type(data).__name__}; give one of "
            f"them, such as data['train']"
        )
    plain = data.with_format(None)
    values = {column: _array(plain[column]) for column in data.column_names}
    names = {
        column: feature.names
        for column, feature in data.features.items()
        if hasattr(feature, "names")
    }
    return _joined(values, name, class_names=names)


def read_csv(path: Path) -> Columns:
    """Read a CSV file with a header; values stay words, separated by ``, ; |`` or tabs."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            first = file.readline()
            file.seek(0)
            separator = separator_of(first)
            reader = csv.reader(file, delimiter=separator, strict=True)
            header = [name.strip() for name in next(reader, [])]
            if not header:
                raise DataError(
                    f"{path}: is empty; expected a header with the names of the columns"
                )
            _check_header(header, path)
            rows = list(_rows(reader, len(header), path))
            lines = np.array([line for line, _ in rows], dtype=np.int64)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path}: is not UTF-8 ({one_line(error)}); save the table as CSV in UTF-8"
        ) from error
    except csv.Error as error:
        raise DataError(f"{path}: cannot be read as CSV ({one_line(error)})") from error
    if not rows:
        raise DataError(f"{path}: there are no rows")
    values: dict[str, NDArray[Any]] = {}
    for place, name in enumerate(header):
        column = np.empty(len(rows), dtype=object)
        words = [row[place] for _, row in rows]
        if separator == ";":  # where the comma is free to be a decimal one
            words = [word.replace(",", ".") if _DECIMAL.fullmatch(word) else word for word in words]
        column[:] = words
        values[name or f"(column {place + 1})"] = column
    return _joined(values, path.name, lines=lines)


def _rows(reader: Any, width: int, path: Path) -> Iterator[tuple[int, list[str]]]:
    for row in reader:
        if not row:  # an empty line
            continue
        if len(row) != width:
            what = "more" if len(row) > width else "fewer"
            raise DataError(
                f"{path}, line {reader.line_num}: has {what} fields ({len(row)}) than the header "
                f"({width}); quote fields that hold the separator"
            )
        yield reader.line_num, row


def separator_of(header: str) -> str:
    """Return the mark between the columns of a text file, by its first line."""
    outside = "".join(header.split('"')[::2])  # of quotes
    return max(_DELIMITERS, key=outside.count)


def read_parquet(path: Path) -> Columns:
    """Read a Parquet file."""
    try:
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise MissingExtraError("pyarrow", "parquet", "to read Parquet files", error) from error
    try:
        table = parquet.read_table(path)
    except Exception as error:  # pyarrow raises all sorts for damaged files
        raise DataError(f"{path}: cannot be read as Parquet ({one_line(error)})") from error
    values, categories = {}, set()
    for name, column in zip(table.column_names, table.columns, strict=True):
        if str(column.type).startswith("dictionary"):
            categories.add(name)
        values[name] = _array(column.to_pylist())
    values.pop("__index_level_0__", None)  # pandas' row index
    _refuse_twins(list(table.column_names), str(path))
    return _joined(values, path.name, categories=frozenset(categories))


def _check_header(header: Sequence[str], path: Path) -> None:
    _refuse_twins([name for name in header if name], str(path))
    if all(name.replace(".", "", 1).lstrip("-").isdigit() for name in header):
        raise DataError(
            f"{path}: the first line holds numbers ({', '.join(header[:3])} ...); it must hold the "
            "names of the columns"
        )


def _refuse_twins(names: Sequence[str], where: str) -> None:
    twins = [name for place, name in enumerate(names) if name in names[:place]]
    if twins:
        raise DataError(f"{where}: the column {twins[0]!r} occurs twice; rename one of them")
