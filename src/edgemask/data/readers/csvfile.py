"""Your own tables, texts and lists of pictures in CSV and Parquet files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from edgemask._options import Range
from edgemask.data.bundle import DataBundle
from edgemask.data.columns import Columns, read_csv, read_parquet
from edgemask.data.encoders.text import Analyzer
from edgemask.data.images import EXTENSIONS, OnBroken
from edgemask.data.labels import find_classes, is_missing, labels_from_text
from edgemask.data.readers._own import Listing, bundle_of_files
from edgemask.data.tables import from_table
from edgemask.errors import DataError

__all__ = ["csvfile", "parquet", "picture_column", "picture_files", "read_table"]

_SPLITS = {"train": "train", "test": "test", "val": "val", "valid": "val", "validation": "val"}
_PICTURES = ("path", "file", "filename", "file_name", "image", "image_path")
_READERS: dict[str, Callable[[Path], Columns]] = {
    ".parquet": read_parquet,
    ".pq": read_parquet,
    ".csv": read_csv,
    ".tsv": read_csv,
    ".tab": read_csv,
}
_OfTables = ("label", "id", "text", "true_label", "ignore", "categories", "max_categories",
             "max_features", "analyzer", "ngrams", "tokenizer", "max_length")  # fmt: skip


def csvfile(
    path: str | Path,
    *,
    label: str | None = None,
    id: str | None = None,  # noqa: A002 - as the command calls it
    text: str | list[str] | None = None,
    image: str | None = None,
    true_label: str | None = None,
    test: str | None = None,
    ignore: list[str] = [],  # noqa: B006 - read only
    categories: list[str] = [],  # noqa: B006
    max_categories: Annotated[int, Range(1)] = 100,
    max_features: Annotated[int, Range(1)] = 5000,
    analyzer: Analyzer = "word",
    ngrams: tuple[int, int] = (1, 1),
    tokenizer: str | None = None,
    max_length: Annotated[int, Range(1)] = 128,
    size: Annotated[int, Range(1)] | None = None,
    test_fraction: Annotated[float, Range(above=0, below=1)] = 0.2,
    seed: Annotated[int, Range(0)] = 0,
    clean: bool = False,
    on_broken: OnBroken = "error",
) -> DataBundle:
    """A CSV file with a header: rows of a table, texts, or the paths of images.

    With ``text`` it holds texts. With ``image``, or a column ``path`` (or ``file``, ``image`` ...)
    of names of image files, it lists images, relative to the CSV file. Otherwise each row is a
    sample, and the columns are its features. Columns are separated by ``, ; |`` or tabs.

    A column ``split`` (train, test, val) divides the rows; without test rows, a part of each class
    is held out. For images, a column ``clean`` holds the true label, for evaluation only.

    Args:
        path: The file.
        label: The column of labels; ``label`` otherwise.
        id: The column that names the samples; otherwise image files, or row numbers from 0.
        text: The column or columns that hold text.
        image: The column of image files.
        true_label: The column of true labels, for evaluation only.
        test: Another file of the same kind with test rows.
        ignore: Columns that are no features.
        categories: Columns whose numbers are names: codes, years, places.
        max_categories: The most frequent categories of a column that get a feature each.
        max_features: The most frequent terms of a text that get a feature each.
        analyzer: What a term is: ``word``, ``char`` or ``char_wb``.
        ngrams: Shortest and longest sequence of them.
        tokenizer: Name or folder of a transformers tokenizer; that of the model ``hf:PATH``.
        max_length: Tokens of a text, with a tokenizer.
        size: Height and width to resize images to; 224, or that of small square images, otherwise.
        test_fraction: The part of each class to hold out when there are no test rows.
        seed: Which samples are held out.
        clean: Whether the labels are known to be right.
        on_broken: ``error`` stops at a file that is missing or no image; ``skip`` checks all files
            first and leaves such files out, with a warning.
    """
    given = {key: value for key, value in locals().items() if key in _OfTables}
    path = Path(path)
    table = read_table(path, ".csv")
    pictures = image or (None if text else picture_column(table))
    if pictures is not None:
        return _pictures(
            path, table, pictures, label, true_label, id, test, size=size,
            test_fraction=test_fraction, seed=seed, clean=clean, on_broken=on_broken,
        )  # fmt: skip
    for option, value, default in (("size", size, None), ("on_broken", on_broken, "error")):
        if value != default:
            raise DataError(
                f"{path}: {option} is for images, and this is a table: there is no column of image "
                f"files; name it with image=COLUMN"
            )
    return _table(path, table, test, test_fraction=test_fraction, seed=seed, clean=clean, **given)


def parquet(
    path: str | Path,
    *,
    label: str | None = None,
    id: str | None = None,  # noqa: A002
    text: str | list[str] | None = None,
    true_label: str | None = None,
    test: str | None = None,
    ignore: list[str] = [],  # noqa: B006
    categories: list[str] = [],  # noqa: B006
    max_categories: Annotated[int, Range(1)] = 100,
    max_features: Annotated[int, Range(1)] = 5000,
    analyzer: Analyzer = "word",
    ngrams: tuple[int, int] = (1, 1),
    tokenizer: str | None = None,
    max_length: Annotated[int, Range(1)] = 128,
    test_fraction: Annotated[float, Range(above=0, below=1)] = 0.2,
    seed: Annotated[int, Range(0)] = 0,
    clean: bool = False,
) -> DataBundle:
    """A Parquet file: rows of a table, or texts with ``text``; otherwise as ``csv:FILE``.

    Args:
        path: The file.
        label: The column of labels; ``label`` otherwise.
        id: The column that names the samples; row numbers from 0 otherwise.
        text: The column or columns that hold text.
        true_label: The column of true labels, for evaluation only.
        test: Another file of the same kind with test rows.
        ignore: Columns that are no features.
        categories: Columns whose numbers are names: codes, years, places.
        max_categories: The most frequent categories of a column that get a feature each.
        max_features: The most frequent terms of a text that get a feature each.
        analyzer: What a term is: ``word``, ``char`` or ``char_wb``.
        ngrams: Shortest and longest sequence of them.
        tokenizer: Name or folder of a transformers tokenizer; that of the model ``hf:PATH``.
        max_length: Tokens of a text, with a tokenizer.
        test_fraction: The part of each class to hold out when there are no test rows.
        seed: Which samples are held out.
        clean: Whether the labels are known to be right.
    """
    given = {key: value for key, value in locals().items() if key in _OfTables}
    path = Path(path)
    table = read_table(path, ".parquet")
    return _table(path, table, test, test_fraction=test_fraction, seed=seed, clean=clean, **given)


def read_table(path: Path, suffix: str | None = None) -> Columns:
    """Read a CSV or Parquet file, whichever its name says.

    Args:
        path: The file.
        suffix: How to read it where its name does not say.
    """
    if not path.is_file():
        raise DataError(f"{path}: there is no such file")
    read = _READERS.get(path.suffix.lower()) or _READERS.get(suffix or "")
    if read is None:
        raise DataError(f"{path}: expected a table in a .csv, .tsv or .parquet file")
    return read(path)


def _table(path: Path, table: Columns, test: str | None, **options: Any) -> DataBundle:
    tested = None if test is None else read_table(_beside(path, test), path.suffix)
    return from_table(table, options.pop("label"), test=tested, name=path.stem, **options)


def _beside(path: Path, test: str) -> Path:
    """Return a file as it was named, or beside another one where it is only there."""
    there = Path(test).expanduser()
    return there if there.is_file() else path.parent / test


def picture_column(table: Columns) -> str | None:
    """Return the column that holds names of image files."""
    for name in _PICTURES:
        words = [str(value).strip() for value in table.values.get(name, ())]
        named = [word for word in words if word]
        if named and all(Path(word).suffix.lower() in EXTENSIONS for word in named):
            return name
    return None


def picture_files(path: Path) -> list[Path]:
    """Return the image files that a table lists."""
    table = read_table(path)
    column = picture_column(table)
    if column is None:
        raise DataError(
            f"{path}: has no column of image files ({', '.join(_PICTURES)}), which the model takes"
        )
    return [_file(path, table, column, place) for place in range(len(table))]


def _pictures(
    path: Path,
    table: Columns,
    column: str,
    label: str | None,
    true_label: str | None,
    id: str | None,  # noqa: A002
    test: str | None,
    **options: Any,
) -> DataBundle:
    if id is not None or test is not None:
        raise DataError(
            f"{path}: images are called by their file names, and test images are rows with 'test' "
            "in the column 'split'; leave out id and test"
        )
    files = [_file(path, table, column, place) for place in range(len(table))]
    label = label or "label"
    given = _labels(path, table, label)
    where = f"{path}: labels"
    true_label = true_label or ("clean" if "clean" in table.values else None)
    known = None if true_label is None else labels_from_text(table[true_label].tolist())
    true_known = known is not None and not any(is_missing(value) for value in known.tolist())
    found = [given] if not true_known else [given, known]
    classes = find_classes(found, where=where, rows=table.places)
    numbers = classes.numbers(given, where=where)
    true = classes.numbers(known, where=where) if true_known else None
    if options["on_broken"] == "error":
        for place, file in enumerate(files):
            if not _is_file(file):
                raise DataError(
                    f"{path}, {_line(table, place)}: there is no file {str(file)[:300]}"
                )
    parts = np.array([_part(path, table, place) for place in range(len(table))])
    listings: dict[str, Listing] = {}
    for part in ("train", "test", "val"):
        members = np.flatnonzero(parts == part)
        if members.size or part == "train":
            chosen = numbers if part == "train" or true is None else true
            listings[part] = [files[place] for place in members], chosen[members]
    train = np.flatnonzero(parts == "train")
    if not train.size:
        raise DataError(f"{path}: there is no row of the split 'train'")
    return bundle_of_files(
        path.stem, path.parent, listings, classes.names, label_values=classes.values,
        true_labels=None if true is None else true[train],
        notes=(f"read as a list of {len(files):,} images (column {column!r})",), **options,
    )  # fmt: skip


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # no name that a file can have
        return False


def _line(table: Columns, place: int) -> str:
    return table.places[place] if table.places is not None else f"row {place}"


def _file(path: Path, table: Columns, column: str, place: int) -> Path:
    word = str(table[column][place]).strip()
    if not word:
        raise DataError(f"{path}, {_line(table, place)}: the column {column!r} is empty")
    if "\0" in word:
        raise DataError(f"{path}, {_line(table, place)}: the path holds a null character")
    return path.parent / word


def _labels(path: Path, table: Columns, label: str) -> Any:
    words = table[label].tolist()
    for place, word in enumerate(words):
        if not str(word).strip():
            raise DataError(f"{path}, {_line(table, place)}: the column {label!r} is empty")
    return labels_from_text(words)


def _part(path: Path, table: Columns, place: int) -> str:
    if "split" not in table.values:
        return "train"
    word = str(table["split"][place]).strip().lower()
    if word not in _SPLITS:
        raise DataError(
            f"{path}, {_line(table, place)}: unknown split {word!r}; expected train, test or val"
        )
    return _SPLITS[word]
