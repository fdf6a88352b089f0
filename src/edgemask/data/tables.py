"""Tables and texts: rows are encoded as numbers, by an encoder fitted on the training rows."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from edgemask.data.bundle import DataBundle
from edgemask.data.columns import Columns, columns_of
from edgemask.data.encoders import Encoder
from edgemask.data.encoders.table import fit_table
from edgemask.data.encoders.text import Analyzer, fit_tfidf
from edgemask.data.encoders.tokens import fit_tokens
from edgemask.data.labels import Classes, find_classes, is_missing, labels_from_text
from edgemask.data.pictures import from_pictures
from edgemask.data.rows import RowNames
from edgemask.data.splits import Labels, SparseSplit, Split, TensorSplit, stratified_holdout
from edgemask.errors import DataError, EdgeMaskWarning

__all__ = ["encoded_split", "from_table", "from_texts", "texts_of"]

_SPLITS = {"train": "train", "test": "test", "val": "val", "valid": "val", "validation": "val"}
_SHOWN = 300


def from_table(
    data: Any,
    label: Any = None,
    *,
    test: Any = None,
    id: Any = None,  # noqa: A002 - as the command calls it
    text: str | Sequence[str] | None = None,
    tokenizer: str | None = None,
    true_label: Any = None,
    class_names: Sequence[str] | None = None,
    ignore: Sequence[str] = (),
    categories: Sequence[str] = (),
    max_categories: int = 100,
    max_features: int = 5000,
    analyzer: Analyzer = "word",
    ngrams: Sequence[int] = (1, 1),
    max_length: int = 128,
    test_fraction: float = 0.2,
    seed: int = 0,
    clean: bool = False,
    name: str = "table",
) -> DataBundle:
    """Make a dataset of a table.

    Numbers are standardised, with the median in place of missing ones and a feature that tells
    which these are; dates count days; booleans are 0 or 1; categories are one-hot. All of it is
    measured on the training rows alone and stored with the model. A column of which almost every
    value is different is left out, with a warning. A column ``split`` that holds ``train``,
    ``test`` and ``val`` divides the rows.

    Args:
        data: A frame of pandas or polars, a ``datasets.Dataset``, a mapping of columns, or rows.
        label: The column of labels, or the labels; otherwise the column ``label``.
        test: More rows of the same kind for testing; or a pair of rows and labels.
        id: The column that names rows, or the names; otherwise rows are numbered from 0.
        text: The column or columns that hold text; the other ones are not used then.
        tokenizer: Name or folder of a transformers tokenizer; texts become TF-IDF vectors without.
        true_label: The column of true labels, or these; used for evaluation only.
        class_names: Names of the classes, where labels are their numbers.
        ignore: Columns that are no features.
        categories: Columns whose numbers are names: codes, years, places.
        max_categories: The most frequent categories of a column that get a feature each.
        max_features: The most frequent terms of a text that get a feature each.
        analyzer: What a term is: ``word``, ``char`` or ``char_wb``.
        ngrams: Shortest and longest sequence of them.
        max_length: Tokens of a text, with a tokenizer.
        test_fraction: The part of each class to hold out when there are no test rows.
        seed: Which rows are held out.
        clean: Whether the labels are known to be right.
        name: What to call the dataset.

    Example:
        >>> rows = {"age": [31, None, 4, 50] * 5, "sex": list("mfmm") * 5, "ill": [0, 1, 1, 0] * 5}
        >>> bundle = from_table(rows, "ill")
        >>> bundle.encoder.features
        ('age', 'age: missing', 'sex=f', 'sex=m')
    """
    table = data if isinstance(data, Columns) else columns_of(data, name=name)
    used: dict[str, str] = {}
    labels = _column(table, label, "label", used)
    true = None if true_label is None else _column(table, true_label, "true label", used)
    rows = RowNames.of(_ids(table, id, used), len(table), where=table.name)
    pictures = _picture_column(table)
    if text is None and pictures is not None:
        return _from_picture_column(
            table, pictures, labels, test, label, rows, class_names or _known(table, used),
            test_fraction=test_fraction, seed=seed, clean=clean, name=name,
        )  # fmt: skip
    texts = [text] if isinstance(text, str) else list(text or ())
    parts = _split_column(table, [*texts, *used.values()])
    features = _without(table, [*used.values(), *ignore, *(["split"] if parts is not None else [])])
    named = {"id_column": used.get("id"), "label_column": used.get("label")}
    tested = None if test is None else _test_table(test, label, used, name)

    def fit(part: Columns) -> tuple[Encoder, list[str]]:
        if not texts:
            return fit_table(part, categories=categories, max_categories=max_categories, **named)
        words = texts_of(part, texts)
        if tokenizer is not None:
            encoder: Encoder = fit_tokens(
                words, tokenizer, max_length=max_length, text_columns=tuple(texts), **named
            )
        else:
            encoder = fit_tfidf(
                words, max_features=max_features, analyzer=analyzer, ngrams=ngrams,
                name=table.name, text_columns=tuple(texts), **named,
            )  # fmt: skip
        return encoder, []

    return _bundle(
        _Source(features, labels, true, rows, parts),
        tested,
        fit,
        class_names=class_names or _known(table, used),
        test_fraction=test_fraction,
        seed=seed,
        clean=clean,
        name=name,
        notes=[_unused(features, texts)] if texts else [],
    )


def from_texts(
    texts: Sequence[str],
    labels: Any,
    *,
    x_test: Sequence[str] | None = None,
    y_test: Any = None,
    class_names: Sequence[str] | None = None,
    id: Any = None,  # noqa: A002
    tokenizer: str | None = None,
    name: str = "texts",
    **options: Any,
) -> DataBundle:
    """Make a dataset of texts: TF-IDF vectors, or the token ids of a transformers tokenizer.

    Args:
        texts: The texts.
        labels: Their labels.
        x_test: Test texts; without them a part of ``texts`` is held out.
        y_test: Their labels.
        class_names: Names of the classes, where labels are their numbers.
        id: What to call each text; its position otherwise.
        tokenizer: Name or folder of a transformers tokenizer.
        name: What to call the dataset.
        options: ``max_features``, ``analyzer``, ``ngrams``, ``max_length``, ``test_fraction``,
            ``seed`` and ``clean`` of :func:`from_table`.

    Example:
        >>> bundle = from_texts(["good film", "bad film", "good", "bad"] * 5, list("+-+-") * 5)
        >>> bundle.encoder.terms, bundle.input_shape
        (('bad', 'film', 'good'), (3,))
    """
    test = None if x_test is None else ({"text": list(x_test)}, y_test)
    return from_table(
        {"text": list(texts)}, labels, test=test, id=id, text="text", tokenizer=tokenizer,
        class_names=class_names, name=name, **options,
    )  # fmt: skip


@dataclass(frozen=True)
class _Source:
    """Rows with their labels."""

    table: Columns
    labels: Any
    true: Any
    rows: RowNames
    parts: NDArray[Any] | None = None


def _bundle(
    source: _Source,
    test: _Source | None,
    fit: Callable[[Columns], tuple[Encoder, list[str]]],
    *,
    class_names: Sequence[str] | None,
    test_fraction: float,
    seed: int,
    clean: bool,
    name: str,
    notes: list[str],
) -> DataBundle:
    where, called = f"{source.table.name}: labels", source.table.places or source.rows
    given = [source.labels, source.true, None if test is None else test.labels]
    classes = find_classes(
        [labels for labels in given if labels is not None],
        where=where, class_names=class_names, rows=called,
    )  # fmt: skip
    labels = classes.numbers(source.labels, where=where, rows=called)
    if len(labels) != len(source.table):
        raise DataError(f"{name}: {len(source.table)} samples, but {len(labels)} labels")
    true = None if source.true is None else classes.numbers(source.true, where=f"{name}: true")
    places = _places(source, labels, test, test_fraction, seed)
    kept = places.pop("train")
    if not len(kept):
        raise DataError(f"{source.table.name}: there is no row of the split 'train'")
    encoder, left_out = fit(source.table.take(kept))
    if left_out:
        warnings.warn(
            f"{source.table.name}: left out: {', '.join(left_out)}", EdgeMaskWarning, stacklevel=4
        )
    truth = labels if true is None else true
    tests = {
        part: encoded_split(encoder, source.table.take(held), truth[held], source.rows.take(held))
        for part, held in places.items()
    }
    if test is not None:
        numbers = classes.numbers(
            test.labels, where=f"{test.table.name}: labels", rows=test.table.places or test.rows
        )
        tests = {"test": encoded_split(encoder, test.table, numbers, test.rows)} | tests
    train = encoded_split(encoder, source.table.take(kept), labels[kept], source.rows.take(kept))
    return DataBundle(
        name=name,
        num_classes=len(classes.names),
        class_names=classes.names,
        label_values=classes.values,
        input_shape=_shape(train),
        train=train,
        tests=tests,
        validation=tests.get("val") if "test" in tests else None,
        normalisation=((0.0,), (1.0,)),
        recipe="features" if isinstance(train, TensorSplit) and _is_float(train) else "as-given",
        clean_known=clean,
        clean_test=test is not None or source.parts is not None or clean or true is not None,
        true_labels=None if true is None else true[kept],
        encoder=encoder,
        notes=(_summary(source, classes, encoder), *notes),
    )


def _places(
    source: _Source, labels: Labels, test: _Source | None, test_fraction: float, seed: int
) -> dict[str, Labels]:
    """Return the positions of training rows and of each test set."""
    if source.parts is not None:
        return {
            part: np.flatnonzero(source.parts == part)
            for part in ("train", "test", "val")
            if part == "train" or (source.parts == part).any()
        }
    if test is not None:
        return {"train": np.arange(len(labels))}
    kept, held = stratified_holdout(labels, test_fraction, seed=seed)
    return {"train": kept, "test": held}


def encoded_split(
    encoder: Encoder, table: Columns, labels: Labels, names: Sequence[str] | None = None
) -> Split:
    """Return rows of a table, encoded, as samples with their texts to show.

    Args:
        encoder: The encoder, fitted.
        table: The rows.
        labels: Their class numbers.
        names: What to call them.
    """
    columns = getattr(encoder, "text_columns", ())
    if columns:
        texts = texts_of(table, columns)
        encoded = encoder.encode(texts)  # type: ignore[arg-type]
        if hasattr(encoded, "tocsr"):
            return SparseSplit(encoded, labels, names, _shortened(texts))
        return TensorSplit(torch.from_numpy(encoded), labels, names, _shortened(texts))
    features = encoder.encode(table)  # type: ignore[arg-type]
    return TensorSplit(torch.from_numpy(features), labels, names, _shown_rows(table))


def texts_of(table: Columns, columns: Sequence[str]) -> list[str]:
    """Return the text of each row, several columns joined by line breaks."""
    found = [table[column].tolist() for column in columns]
    strange = [v for part in found for v in part if not isinstance(v, str) and not is_missing(v)]
    if strange:
        raise DataError(
            f"{table.name}: the column {columns[0]!r} holds {type(strange[0]).__name__} values, "
            "no text"
        )
    return [
        "\n".join("" if not isinstance(word, str) else word for word in row)
        for row in zip(*found, strict=True)
    ]


def _shortened(texts: Sequence[str]) -> list[str]:
    return [text if len(text) <= _SHOWN else text[:_SHOWN] + "…" for text in texts]


def _shown_rows(table: Columns) -> list[str]:
    shown = list(table.values)[:12]
    columns = [table.values[name].tolist() for name in shown]
    return _shortened(
        [
            ", ".join(f"{name}={_cell(value)}" for name, value in zip(shown, row, strict=True))
            for row in zip(*columns, strict=True)
        ]
    )


def _cell(value: Any) -> str:
    if is_missing(value):
        return "?"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _column(table: Columns, given: Any, role: str, used: dict[str, str]) -> Any:
    """Return labels, from a column that is named or from what was given beside the table."""
    if given is None:
        given = role
        if role not in table.values:
            raise DataError(
                f"{table.name}: which column holds the labels? Name it (--label COLUMN, or "
                f"fit(data, 'COLUMN')); the columns are: {', '.join(table.values)}"
            )
    if not isinstance(given, str):
        return given
    values = table[given]
    used[role] = given
    return labels_from_text(values.tolist()) if table.lines is not None else values


def _ids(table: Columns, given: Any, used: dict[str, str]) -> Any:
    if isinstance(given, str):
        used["id"] = given
        return table[given]
    if given is None and list(table.rows[:1]) != ["0"]:
        return table.rows  # the index of a frame
    return given


def _known(table: Columns, used: dict[str, str]) -> Sequence[str] | None:
    return dict(table.class_names).get(used.get("label", ""))


def _without(table: Columns, names: Sequence[str]) -> Columns:
    for name in names:
        table[name]  # an unknown one is refused
    kept = {key: value for key, value in table.values.items() if key not in names}
    return replace(table, values=kept)


def _split_column(table: Columns, used: Sequence[str]) -> NDArray[Any] | None:
    if "split" not in table.values or "split" in used:
        return None
    words = [str(value).strip().lower() for value in table["split"].tolist()]
    if not set(words) <= _SPLITS.keys() or "train" not in words:
        return None
    return np.array([_SPLITS[word] for word in words])


def _test_table(test: Any, label: Any, used: dict[str, str], name: str) -> _Source:
    """Return test rows with their labels."""
    labels: Any = label
    if isinstance(test, tuple) and len(test) == 2:
        test, labels = test
    table = test if isinstance(test, Columns) else columns_of(test, name=f"{name} (test)")
    found = _column(table, labels if not isinstance(label, str) or labels != label else label,
                    "label", {})  # fmt: skip
    if len(found) != len(table):
        raise DataError(f"{table.name}: {len(table)} test rows, but {len(found)} labels")
    ids = table.values.get(used.get("id", ""))
    rows = RowNames(np.arange(len(table)), prefix="test ")
    if ids is not None:
        rows = RowNames.of(ids, len(table), where=table.name)
    return _Source(table, found, None, rows)


def _picture_column(table: Columns) -> str | None:
    for name, values in table.values.items():
        if len(values) and values.dtype == object and hasattr(values[0], "getbands"):
            return name
    return None


def _from_picture_column(
    table: Columns,
    column: str,
    labels: Any,
    test: Any,
    label: Any,
    rows: RowNames,
    class_names: Sequence[str] | None,
    **options: Any,
) -> DataBundle:
    x_test = y_test = None
    if test is not None:
        tested = _test_table(test, label, {}, options["name"])
        x_test, y_test = tested.table[column].tolist(), tested.labels
    return from_pictures(
        table[column].tolist(), labels, x_test=x_test, y_test=y_test, class_names=class_names,
        id=list(rows), **options,
    )  # fmt: skip


def _shape(split: Split) -> tuple[int, ...]:
    if isinstance(split, SparseSplit):
        return (split.width,)
    assert isinstance(split, TensorSplit)
    return tuple(split.data.shape[1:])


def _is_float(split: TensorSplit) -> bool:
    return split.data.is_floating_point()


def _summary(source: _Source, classes: Classes, encoder: Encoder) -> str:
    shown = ", ".join(classes.names[:6]) + (", ..." if len(classes.names) > 6 else "")
    kind = "texts" if getattr(encoder, "text_columns", ()) else "a table"
    column = encoder.label_column
    of = f"label {column!r}" if column else "labels"
    return (
        f"read as {kind}: {len(source.table):,} rows, {of} with {len(classes.names)} classes "
        f"({shown}); {encoder.describe()}"
    )


def _unused(features: Columns, texts: Sequence[str]) -> str:
    rest = [name for name in features.values if name not in texts]
    return f"columns not used beside the text: {', '.join(rest)}" if rest else ""
