"""Corrections: what a person decided about labels, as a CSV file with one row per sample."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from edgemask._files import write_text
from edgemask._text import as_csv, from_csv, printable
from edgemask.errors import DataError, UserError, nearest

__all__ = ["CorrectedLabels", "Correction", "Corrections", "read_corrections"]

Action = Literal["keep", "relabel", "drop"]
_ACTIONS = ("keep", "relabel", "drop")
_COLUMNS = ("id", "action", "label", "given", "check")
_MAX_BYTES = 1 << 28


@dataclass(frozen=True, kw_only=True)
class Correction:
    """The decision about one sample."""

    id: str
    """The sample: its file name relative to the folder, its key, or its row number from 0."""
    action: Action
    """``keep``: the given label is right; ``relabel``: ``label`` is; ``drop``: leave it out."""
    label: str = ""
    """The name of the right class, for ``relabel``."""
    given: str = ""
    """The name of the given class when it was reviewed; empty where that was not recorded."""
    check: int | None = None
    """Place in the random draw "to know, check 100", counted from 1; None for other samples."""
    where: str = ""
    """Where the decision was read, for error messages."""


@dataclass(frozen=True)
class CorrectedLabels:
    """The labels of a set of samples after corrections."""

    labels: NDArray[np.int64]
    """Class number of each sample; that of a dropped one is as given."""
    kept: NDArray[np.bool_]
    """False for samples that are dropped."""
    reviewed: NDArray[np.bool_]
    """True for samples whose label a person has confirmed or set."""
    given: NDArray[np.int64]
    """Class number of each sample as it came."""

    def summary(self, class_names: Sequence[str]) -> dict[str, Any]:
        """Return the counts: kept, relabelled, dropped, and labels by class before and after."""
        changed = self.kept & (self.labels != self.given)
        size = len(class_names)
        pairs = Counter(
            zip(self.given[changed].tolist(), self.labels[changed].tolist(), strict=True)
        )
        return {
            "kept": int((self.reviewed & self.kept & ~changed).sum()),
            "relabelled": int(changed.sum()),
            "dropped": int((~self.kept).sum()),
            "before": np.bincount(self.given, minlength=size).tolist(),
            "after": np.bincount(self.labels[self.kept], minlength=size).tolist(),
            "changes": [[given, label, count] for (given, label), count in sorted(pairs.items())],
        }


@dataclass(frozen=True)
class Corrections:
    """Decisions about samples, at most one for each.

    Example:
        >>> decisions = read_corrections([{"id": "b.png", "action": "relabel", "label": "dog"}])
        >>> decisions.apply(["a.png", "b.png"], [0, 0], ["cat", "dog"]).labels.tolist()
        [0, 1]
    """

    rows: tuple[Correction, ...]

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def fingerprint(self) -> str:
        """A hash of the decisions, whatever their order and wherever they were read."""
        rows = sorted((row.id, row.action, row.label) for row in self.rows)
        return hashlib.sha256(json.dumps(rows).encode()).hexdigest()[:16]

    def apply(
        self, ids: Sequence[Any] | None, labels: ArrayLike, class_names: Sequence[str]
    ) -> CorrectedLabels:
        """Return the corrected labels of samples.

        Args:
            ids: What each sample is called; None: its row number, from 0.
            labels: Class number of each sample.
            class_names: Names in the order of the class numbers.

        Raises:
            UserError: If a correction names a sample or class that does not exist, or was made for
                another given label, or if an id stands for several samples.
        """
        given = np.array(labels, dtype=np.int64)
        place_of = self._places(ids, len(given))
        number = {printable(name, max_length=None): n for n, name in enumerate(class_names)}
        result = CorrectedLabels(
            given.copy(), np.ones(len(given), dtype=bool), np.zeros(len(given), dtype=bool), given
        )
        for row in self.rows:
            place = place_of[row.id]
            now = printable(class_names[given[place]], max_length=None)
            if row.action == "relabel" and row.label not in number:
                raise UserError(
                    f"{row.where}: there is no class {row.label!r}{nearest(row.label, number)}"
                )
            if row.given not in ("", now) and row.label != now:
                raise UserError(
                    f"{row.where}: the sample {row.id!r} was reviewed with the label "
                    f"{row.given!r}, and now has {now!r}; use the data that were reviewed"
                )
            if row.action == "relabel":
                result.labels[place] = number[row.label]
            result.kept[place] = row.action != "drop"
            result.reviewed[place] = row.action != "drop"
        return result

    def _places(self, ids: Sequence[Any] | None, count: int) -> dict[str, int]:
        """Return the position of each sample that a correction names."""
        wanted = {row.id: row for row in self.rows}
        places: dict[str, int] = {}
        for place, name in enumerate(range(count) if ids is None else ids):
            key = printable(name, max_length=None)
            if key not in wanted:
                continue
            if key in places:
                raise UserError(
                    f"{wanted[key].where}: several samples have the id {key!r}; name them by a "
                    "column whose values differ"
                )
            places[key] = place
        for key, row in wanted.items():
            if key not in places:
                rows = f"; rows are numbered 0 to {count - 1}"
                if ids is not None and count:
                    rows = f"; samples are called like {printable(ids[0])!r}"
                raise UserError(f"{row.where}: there is no sample {key!r} in the data{rows}")
        return places

    def checked(self) -> tuple[int, int]:
        """Return how many labels were wrong, of how many that were drawn at random and checked.

        The random draw is gone through in order: it counts up to the first one without a decision,
        so that the samples that count are a random sample. A dropped sample counts as wrong.

        Example:
            >>> right = {"id": "a.png", "action": "keep", "check": 1}
            >>> wrong = {"id": "b.png", "action": "drop", "check": 2}
            >>> read_corrections([right, wrong]).checked()
            (1, 2)
        """
        drawn = {row.check: row.action for row in self.rows if row.check is not None}
        wrong = count = 0
        while count + 1 in drawn:
            count += 1
            wrong += drawn[count] != "keep"
        return wrong, count

    def save(self, path: str | Path) -> None:
        """Write the decisions as a CSV file, which a spreadsheet opens as text."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(_COLUMNS)
        for row in self.rows:
            check = "" if row.check is None else str(row.check)
            writer.writerow(map(as_csv, (row.id, row.action, row.label, row.given, check)))
        write_text(Path(path), out.getvalue())


def read_corrections(source: Any) -> Corrections:
    """Read decisions about samples.

    The columns ``id`` and ``action`` are needed, ``label`` where an action is ``relabel``;
    ``given`` and ``check`` are read where they are present, and others are left alone. A row
    without an action is undecided and changes nothing.

    Args:
        source: A CSV file, as the review page saves it; a pandas or polars frame; a list of
            mappings; or ``Corrections``.

    Raises:
        UserError: In one line with the place: a missing column, an unknown action, a missing label,
            an id that comes twice.
    """
    if isinstance(source, Corrections):
        return source
    if isinstance(source, str | Path):
        rows = _from_file(Path(source).expanduser())
    else:
        rows = _from_records(source)
    found: dict[str, Correction] = {}
    for where, row in rows:
        decision = _decision(where, row)
        if decision is None:
            continue
        if decision.id in found:
            raise UserError(
                f"{where}: the sample {decision.id!r} was decided before, at "
                f"{found[decision.id].where}; keep one row per sample"
            )
        found[decision.id] = decision
    return Corrections(tuple(found.values()))


def _from_file(path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    if not path.is_file():
        raise DataError(f"{path}: there is no such file of corrections")
    if path.stat().st_size > _MAX_BYTES:
        raise DataError(f"{path}: is too large for a file of corrections")
    try:
        text = path.read_text(encoding="utf-8-sig")
        lines = io.StringIO(text, newline="")
        first = text.partition("\n")[0]
        delimiter = next((mark for mark in ",;\t" if mark in first), ",")
        reader = csv.DictReader(lines, delimiter=delimiter, strict=True)
        _check_columns(reader.fieldnames or [], str(path))
        for row in reader:
            where = f"{path}, line {reader.line_num}"
            if None in row:
                raise DataError(f"{where}: has more fields than the header; quote them")
            yield where, {key: from_csv(value or "") for key, value in row.items()}
    except (OSError, csv.Error, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read as CSV ({error})") from error


def _from_records(source: Any) -> Iterator[tuple[str, dict[str, str]]]:
    if hasattr(source, "to_dicts"):  # a polars frame
        source = source.to_dicts()
    elif hasattr(source, "to_dict") and hasattr(source, "columns"):  # a pandas frame
        _check_columns(list(source.columns), "corrections")
        source = source.to_dict("records")
    if not isinstance(source, Iterable) or isinstance(source, Mapping):
        raise UserError(
            f"corrections must be a CSV file, a frame or a list of mappings, got {type(source)}"
        )
    for number, row in enumerate(source):
        where = f"corrections, row {number}"
        if not isinstance(row, Mapping):
            raise UserError(f"{where}: expected a mapping with id and action, got {row!r}")
        _check_columns(list(row), where)
        yield where, {str(key): _text(value) for key, value in row.items()}


def _check_columns(columns: Sequence[Any], where: str) -> None:
    for name in ("id", "action"):
        if name not in columns:
            shown = printable(", ".join(map(str, columns)))
            raise UserError(f"{where}: there is no column {name!r}; got {shown or 'none'}")


def _text(value: Any) -> str:
    """Return the text of a cell: nothing for a missing value, no fraction for a whole number."""
    if value is None or (isinstance(value, float | np.floating) and not math.isfinite(value)):
        return ""
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return "" if str(value) in ("<NA>", "NaT") else str(value)


def _decision(where: str, row: Mapping[str, str]) -> Correction | None:
    cells = {name: printable(row.get(name, ""), max_length=None) for name in _COLUMNS}
    action = cells["action"].strip().lower()
    if not action:
        return None
    if action not in _ACTIONS:
        raise UserError(
            f"{where}: unknown action {action!r}{nearest(action, _ACTIONS)}; expected keep, "
            "relabel or drop"
        )
    if not cells["id"]:
        raise UserError(f"{where}: the column 'id' is empty")
    if action == "relabel" and not cells["label"]:
        raise UserError(f"{where}: 'relabel' needs the right class in the column 'label'")
    check = cells["check"].strip()
    if check and not (check.isascii() and check.isdecimal() and 0 < int(check) < 10**9):
        raise UserError(f"{where}: check must be a place from 1, got {check!r}")
    return Correction(
        id=cells["id"],
        action=cast("Action", action),
        label=cells["label"] if action == "relabel" else "",
        given=cells["given"],
        check=int(check) if check else None,
        where=where,
    )
