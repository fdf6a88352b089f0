"""A corrected copy of data: decisions about labels applied to a table, arrays or a folder."""

from __future__ import annotations

import csv
import io
import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from edgemask._files import atomic_write, write_arrays, write_text
from edgemask.audit import CorrectedLabels, Corrections, read_corrections
from edgemask.data.columns import separator_of
from edgemask.data.labels import find_classes, labels_from_text
from edgemask.data.readers.csvfile import picture_column, read_table
from edgemask.data.readers.imagefolder import list_images
from edgemask.data.rows import RowNames
from edgemask.data.splits import relative_name
from edgemask.errors import DataError, UserError

__all__ = ["CorrectedData", "write_corrected"]

_KINDS = {
    ".csv": "csv",
    ".tsv": "csv",
    ".tab": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".npz": "npz",
}


@dataclass(frozen=True, kw_only=True)
class CorrectedData:
    """What was written."""

    path: Path
    """The new file or folder."""
    samples: int
    """How many samples it holds."""
    kept: int
    """How many labels were reviewed and left as they were."""
    relabelled: int
    """How many labels were changed."""
    dropped: int
    """How many samples were left out."""
    empty_classes: tuple[str, ...] = ()
    """Classes that have no sample any more."""


def write_corrected(
    data: str | Path,
    corrections: Any,
    out: str | Path,
    *,
    label: str = "label",
    id: str | None = None,  # noqa: A002 - as the command calls it
    copy: bool = False,
) -> CorrectedData:
    """Write data with corrected labels; the original stays as it is.

    Args:
        data: ``imagefolder:PATH``, ``csv:FILE``, ``parquet:FILE`` or ``npz:FILE``, or the path
            alone.
        corrections: What was decided: a CSV file, a frame or a list of mappings.
        out: The new file, or for an image folder the new folder; it must not exist yet.
        label: The column of a table that holds the labels.
        id: The column that names its samples; otherwise image files, or row numbers from 0.
        copy: Whether to copy images; otherwise links to them are made.

    Raises:
        UserError: If the corrections do not fit the data, or ``out`` exists.
    """
    kind, source = _source(str(data))
    target = Path(out).expanduser()
    if os.path.lexists(target):
        raise UserError(f"{target} exists already; give another --out")
    decisions = read_corrections(corrections)
    if kind == "imagefolder":
        return _folder(source, decisions, target, copy=copy)
    if copy:
        raise UserError("copy is for image folders; a table is always a file of its own")
    if target.suffix.lower() != source.suffix.lower():
        raise UserError(f"{target}: the corrected data are a {source.suffix} file as well")
    if kind == "npz":
        return _npz(source, decisions, target)
    return _table(source, decisions, target, label, id)


def _source(spec: str) -> tuple[str, Path]:
    kind, colon, rest = spec.partition(":")
    if colon and kind in ("imagefolder", *_KINDS.values()):
        return kind, Path(rest).expanduser()
    path = Path(spec).expanduser()
    if path.is_dir():
        return "imagefolder", path
    if path.suffix.lower() in _KINDS:
        return _KINDS[path.suffix.lower()], path
    raise UserError(
        f"{spec!r} cannot be written anew: expected an image folder, a table or an .npz file of "
        "your own; to train on corrected labels of other data, use train --corrections"
    )


def _result(path: Path, labels: CorrectedLabels, names: Sequence[str]) -> CorrectedData:
    counts = labels.summary(names)
    before, after = counts["before"], counts["after"]
    return CorrectedData(
        path=path,
        samples=int(labels.kept.sum()),
        kept=counts["kept"],
        relabelled=counts["relabelled"],
        dropped=counts["dropped"],
        empty_classes=tuple(
            name for name, had, has in zip(names, before, after, strict=True) if had and not has
        ),
    )


def _folder(source: Path, decisions: Corrections, out: Path, *, copy: bool) -> CorrectedData:
    root, names, parts = list_images(source)
    if out.resolve().is_relative_to(root.resolve()):
        raise UserError(f"{out} lies inside {root}, which is not to be changed; choose another")
    files = [path for paths, _ in parts.values() for path in paths]
    given = np.concatenate([labels for _, labels in parts.values()])
    result = decisions.apply([relative_name(path, root) for path in files], given, names)
    depth = 0 if len(parts) == 1 and not (root / "train").is_dir() else 1
    changed = result.labels != given
    taken: set[Path] = set()
    pairs: list[tuple[Path, Path]] = []
    # Samples that stay where they are come first, so that they keep their names.
    for place in np.argsort(changed, kind="stable"):
        if result.kept[place]:
            folders = list(files[place].relative_to(root).parts)
            old, folders[depth] = folders[depth], names[result.labels[place]]
            target = _free(Path(*folders), old, taken) if changed[place] else Path(*folders)
            taken.add(target)
            pairs.append((files[place], target))
    _write_folder(pairs, out, copy=copy)
    return _result(out, result, names)


def _free(path: Path, old: str, taken: set[Path]) -> Path:
    """Return a name that no other sample has: with its former class, then with a number."""
    tried, number = path, 1
    while tried in taken:
        more = f"-{old}" if number == 1 else f"-{old}-{number}"
        tried, number = path.with_name(f"{path.stem}{more}{path.suffix}"), number + 1
    return tried


def _write_folder(pairs: Sequence[tuple[Path, Path]], out: Path, *, copy: bool) -> None:
    """Make links or copies, all or none."""
    half: Path | None = None
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        half = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
        for source, name in pairs:
            target = half / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if copy:
                shutil.copy2(source, target)
            else:
                target.symlink_to(source.absolute())
        half.chmod(0o755)
        half.rename(out)
        half = None
    except OSError as error:
        hint = "" if copy else "; if this disk has no links, use --copy"
        raise UserError(f"cannot write {out}: {error.strerror or error}{hint}") from error
    finally:
        if half is not None:
            shutil.rmtree(half, ignore_errors=True)


def _table(
    source: Path, decisions: Corrections, out: Path, label: str, key: str | None
) -> CorrectedData:
    """Correct a CSV or Parquet file; samples have the ids that training gives them."""
    table = read_table(source, ".csv")
    given = table[label]
    words = given if table.lines is None else labels_from_text(given.tolist())
    where = f"{source}: labels"
    classes = find_classes([words], where=where, class_names=dict(table.class_names).get(label))
    images = None if key is not None else picture_column(table)
    ids: Sequence[str] = RowNames.of(
        None if key is None else table[key], len(table), where=str(source)
    )
    if images is not None:
        files = [source.parent / str(name).strip() for name in table[images]]
        ids = [relative_name(file, source.parent) for file in files]
    result = decisions.apply(ids, classes.numbers(words, where=where), classes.names)
    write = _write_parquet if table.lines is None else _write_csv
    moved = images if source.parent.resolve() != out.parent.resolve() else None
    write(source, out, result, label, moved)
    return _result(out, result, classes.names)


def _write_csv(
    source: Path, out: Path, result: CorrectedLabels, label: str, images: str | None
) -> None:
    """Write the rows that are kept as they stand, but for labels that changed.

    Args:
        source: The file.
        out: The new file.
        result: What to keep and change.
        label: The column of labels.
        images: The column of image files, where these must be found from another folder.
    """
    raw = source.read_bytes().decode("utf-8")
    text = raw.removeprefix("\ufeff")
    first = text.partition("\n")[0]
    delimiter = separator_of(first)
    rows = [row for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter) if row]
    header, body = [name.strip() for name in rows[0]], rows[1:]
    column = header.index(label)
    spelling: dict[int, str] = {}
    for row, number in zip(body, result.given.tolist(), strict=True):
        spelling.setdefault(number, row[column].strip())
    lines = io.StringIO()
    ending = "\r\n" if first.endswith("\r") else "\n"
    writer = csv.writer(lines, delimiter=delimiter, lineterminator=ending)
    writer.writerow(rows[0])
    for place in np.flatnonzero(result.kept):
        row = list(body[place])
        if result.labels[place] != result.given[place]:
            row[column] = spelling[int(result.labels[place])]
        if images is not None:
            file = source.parent / row[header.index(images)].strip()
            row[header.index(images)] = os.path.relpath(file, out.parent)
        writer.writerow(row)
    write_text(out, raw[: len(raw) - len(text)] + lines.getvalue())  # with its byte order mark


def _write_parquet(
    source: Path, out: Path, result: CorrectedLabels, label: str, images: str | None
) -> None:
    import pyarrow as pa
    import pyarrow.parquet as parquet

    del images
    table = parquet.read_table(source)
    values = table[label].to_pylist()
    value_of: dict[int, Any] = {}
    for value, number in zip(values, result.given.tolist(), strict=True):
        value_of.setdefault(number, value)
    for place in np.flatnonzero(result.labels != result.given):
        values[place] = value_of[int(result.labels[place])]
    place = table.column_names.index(label)
    column = pa.array(values, type=table.schema.field(label).type)
    table = table.set_column(place, table.schema.field(label), column)
    table = table.take(np.flatnonzero(result.kept))
    atomic_write(out, lambda file: parquet.write_table(table, file))


def _npz(source: Path, decisions: Corrections, out: Path) -> CorrectedData:
    from edgemask.runs import read_arrays

    arrays = read_arrays(source)
    if "x" not in arrays or "y" not in arrays or len(arrays["x"]) != len(arrays["y"]):
        raise DataError(f"{source}: expected arrays x and y of one length")
    values, given = np.unique(arrays["y"], return_inverse=True)
    named = arrays.get("class_names")
    if named is not None and values.dtype.kind in "iu":
        values, given = np.arange(len(named)), arrays["y"]
    names = [str(value) for value in (values if named is None else named)]
    result = decisions.apply(None, given, names)
    new = dict(arrays)
    new["y"] = values.astype(arrays["y"].dtype)[result.labels][result.kept]
    for name in ("x", "y_clean"):
        if name in new:
            new[name] = arrays[name][result.kept]
    write_arrays(out, new)
    return _result(out, result, names)
