"""New samples for a trained model, read and prepared as its training data were."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from edgemask.data.columns import Columns, columns_of, is_frame
from edgemask.data.encoders import Encoder, TableEncoder
from edgemask.data.images import EXTENSIONS, is_picture, to_8_bit
from edgemask.data.pictures import picture_split
from edgemask.data.readers.csvfile import picture_files, read_table
from edgemask.data.rows import RowNames
from edgemask.data.splits import FileSplit, SparseSplit, Split, TensorSplit
from edgemask.data.tables import encoded_split
from edgemask.errors import DataError, UserError

__all__ = ["read_inputs", "read_rows"]

_TABLES = (".csv", ".tsv", ".tab", ".parquet", ".pq")


def read_inputs(inputs: Any, about: Mapping[str, Any], encoder: Encoder | None) -> Split:
    """Return new samples as a split whose labels mean nothing.

    Args:
        inputs: The samples: arrays, a frame, texts, pictures, files or folders.
        about: The model's card, with ``input_shape``.
        encoder: The encoder of the training data, where there was one.
    """
    shape = tuple(about["input_shape"])
    if encoder is not None:
        table = read_rows(inputs, encoder)
        ids = table.values.get(encoder.id_column or "")
        names = RowNames.of(table.rows if ids is None else ids, len(table), where=table.name)
        return encoded_split(encoder, table, _no_labels(len(table)), names)
    if hasattr(inputs, "tocsr"):
        _check_shape(inputs.shape[1:], shape)
        return SparseSplit(inputs, _no_labels(inputs.shape[0]))
    if isinstance(inputs, str | Path) or _are(inputs, str | Path):
        return _file_split(inputs, shape)
    if is_picture(inputs):
        inputs = [inputs]
    if isinstance(inputs, list | tuple) and len(shape) == 3:
        return picture_split(inputs, _no_labels(len(inputs)), shape[-1])
    if is_frame(inputs) or isinstance(inputs, Mapping):
        inputs = _features(columns_of(inputs), shape)
    return _array_split(inputs, shape, tokens=about.get("views") == "as-given")


def read_rows(inputs: Any, encoder: Encoder | None) -> Columns:
    """Return rows of a table or texts, from memory or from a file.

    Args:
        inputs: A frame, rows, texts, or the path of a CSV, Parquet or (for texts) text file.
        encoder: The encoder that is to take them.
    """
    columns: Sequence[str] = getattr(encoder, "text_columns", ())
    inputs = inputs[0] if _are(inputs, Path) and len(inputs) == 1 else inputs
    if _are(inputs, Path):
        raise UserError(f"expected one file of rows, got {len(inputs)}; give them one at a time")
    if isinstance(inputs, Path) or (isinstance(inputs, str) and _is_table(inputs)):
        path = Path(inputs)
        if columns and path.suffix.lower() == ".txt":
            return _texts(_lines(path), columns, path.name)
        return read_table(path)
    if columns and isinstance(inputs, str):
        return _texts([inputs], columns, "texts")
    if columns and not is_frame(inputs) and not isinstance(inputs, Mapping):
        items = inputs.tolist() if hasattr(inputs, "tolist") else list(inputs)
        if not items or isinstance(items[0], str):
            return _texts(items, columns, "texts")
    if getattr(inputs, "ndim", 2) == 1 and hasattr(inputs, "to_list"):  # a Series of texts
        return _texts(inputs.to_list(), columns, "texts")
    if isinstance(inputs, Tensor):
        inputs = inputs.numpy()
    table = columns_of(inputs, name="inputs")
    if isinstance(encoder, TableEncoder) and not is_frame(inputs):
        return _named_like(table, encoder)
    return table


def _named_like(table: Columns, encoder: TableEncoder) -> Columns:
    """Give the columns of an array the names of the training data, where there are as many."""
    names = [column.name for column in encoder.columns]
    numbered = list(table.values) == [str(place) for place in range(len(table.values))]
    if not numbered or set(names) <= table.values.keys() or len(names) != len(table.values):
        return table
    return replace(table, values=dict(zip(names, table.values.values(), strict=True)))


def _texts(texts: Sequence[Any], columns: Sequence[str], name: str) -> Columns:
    if len(columns) != 1:
        raise UserError(
            f"the model reads the columns {', '.join(columns)}; give a table that has them"
        )
    return columns_of({columns[0]: list(texts)}, name=name)


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read as UTF-8 text ({error})") from error


def _is_table(word: str) -> bool:
    return word.lower().endswith((*_TABLES, ".txt")) and "\n" not in word


def _are(inputs: Any, kind: Any) -> bool:
    return (
        isinstance(inputs, list | tuple)
        and len(inputs) > 0
        and all(isinstance(entry, kind) for entry in inputs)
    )


def _no_labels(count: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.zeros(count, dtype=np.int64)


def _check_shape(found: Sequence[int], shape: tuple[int, ...]) -> None:
    if tuple(found) != shape:
        raise UserError(f"the model takes samples of shape {shape}, got {tuple(found)}")


def _features(table: Columns, shape: tuple[int, ...]) -> Any:
    """Return a frame as an array, for a model that was trained on arrays."""
    numeric = all(column.dtype.kind in "iufb" for column in table.values.values())
    if not numeric or (len(table.values),) != shape:
        raise UserError(
            f"the model was trained on arrays of shape {shape} without names of columns; give as "
            "many columns of numbers, in the same order"
        )
    return np.stack(list(table.values.values()), axis=1).astype(np.float64)


def _array_split(inputs: Any, shape: tuple[int, ...], *, tokens: bool) -> Split:
    data = inputs
    if not isinstance(data, Tensor):
        array = np.asarray(data)
        if array.dtype.kind not in "iufb":
            raise UserError(
                f"cannot read {array.dtype} values as samples; the model takes samples of shape "
                f"{shape}"
            )
        if array.dtype == np.uint16 and len(shape) == 3:
            array = to_8_bit(array, "inputs")
        data = torch.as_tensor(array)
    if data.ndim == 4 and data.shape[1:] != shape and data.shape[3] == shape[0]:
        data = data.permute(0, 3, 1, 2)
    if data.ndim == 3 and len(shape) == 3 and shape[0] == 1:
        data = data[:, None]
    _check_shape(data.shape[1:], shape)
    if tokens and data.ndim == 2 and not data.is_floating_point():
        data = data.long()
    elif data.dtype != torch.uint8:
        data = data.float()
        broken = (~data.isfinite().flatten(1).all(1)).nonzero()
        if len(broken):
            raise UserError(
                f"input {int(broken[0])} holds values that are not finite numbers, and so do "
                f"{len(broken)} of {len(data)} inputs; fill them in or leave them out"
            )
    return TensorSplit(data, _no_labels(len(data)))


def _file_split(inputs: Any, shape: tuple[int, ...]) -> Split:
    given = [inputs] if isinstance(inputs, str | Path) else list(inputs)
    if len(shape) != 3:
        raise UserError(
            f"the model was trained on arrays of shape {shape}, without names of columns, and "
            "takes arrays (predict --npz FILE), no files of images or tables"
        )
    paths: list[Path] = []
    for entry in map(Path, given):
        if entry.is_dir():
            found = sorted(p for p in entry.rglob("*") if p.suffix.lower() in EXTENSIONS)
            if not found:
                raise UserError(f"the folder {entry} holds no image file")
            paths += found
        elif not entry.is_file():
            raise UserError(f"there is no file or folder {entry}")
        elif entry.suffix.lower() in _TABLES:
            paths += picture_files(entry)
        else:
            paths.append(entry)
    return FileSplit(paths, _no_labels(len(paths)), size=shape[-1])
