"""Data of your own that is in memory already: arrays, frames, texts, pictures and datasets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from edgemask.data.bundle import DataBundle, Normalisation, measure
from edgemask.data.columns import is_frame
from edgemask.data.images import is_picture, to_8_bit
from edgemask.data.labels import find_classes
from edgemask.data.pictures import from_pictures
from edgemask.data.rows import RowNames
from edgemask.data.splits import (
    DatasetSplit,
    SparseSplit,
    Split,
    TensorSplit,
    dataset_labels,
    stratified_holdout,
)
from edgemask.data.tables import from_table, from_texts
from edgemask.data.views import RECIPES
from edgemask.errors import DataError

__all__ = ["from_arrays", "from_dataset", "from_samples"]

Vector = Sequence[Any] | NDArray[Any] | Tensor


def from_samples(
    data: Any,
    labels: Any = None,
    *,
    test: Any = None,
    class_names: Sequence[str] | None = None,
    id: Any = None,  # noqa: A002 - as the command calls it
    text: str | Sequence[str] | None = None,
    tokenizer: str | None = None,
    **options: Any,
) -> DataBundle:
    """Make a dataset of whatever holds samples in memory.

    Args:
        data: An array, tensor or matrix of scipy; a frame of pandas or polars; a
            ``datasets.Dataset``; a list of rows, texts, Pillow images or arrays; or any map-style
            dataset of ``(sample, label)``.
        labels: The labels, or the name of their column.
        test: Test data in the same form, ``(samples, labels)``, or samples that hold their labels;
            without it a part of the data is held out.
        class_names: Names of the classes, where labels are their numbers.
        id: The column that names the samples, or their names; otherwise they are numbered from 0.
        text: The column or columns of a table that hold text; the others are not used then.
        tokenizer: Name or folder of a transformers tokenizer; texts become TF-IDF vectors without.
        options: What the kind of data takes besides: see :func:`from_table`, :func:`from_texts`,
            :func:`from_pictures`, :func:`from_arrays` and :func:`from_dataset`.

    Example:
        >>> bundle = from_samples([[0.1, 2.0], [0.3, 1.0]] * 10, ["no", "yes"] * 10)
        >>> bundle.class_names, bundle.input_shape, len(bundle.train), len(bundle.test)
        (('no', 'yes'), (2,), 16, 4)
    """
    kind = _kind_of(data)
    if kind == "table":
        return from_table(
            data, labels, test=test, class_names=class_names, id=id, text=text,
            tokenizer=tokenizer, **options,
        )  # fmt: skip
    if text is not None:
        raise DataError("text= names a column of a table; these data have no columns")
    if kind == "dataset":
        if id is not None:
            raise DataError("id= is for tables and arrays; a map-style dataset has positions only")
        return from_dataset(data, test, labels=labels, class_names=class_names, **options)
    if labels is None:
        raise DataError("fit(samples) needs labels: fit(samples, labels)")
    x_test, y_test = _test_pair(test)
    if kind == "texts":
        options["tokenizer"] = tokenizer
    makers: dict[str, Callable[..., DataBundle]] = {
        "texts": from_texts,
        "pictures": from_pictures,
        "arrays": from_arrays,
    }
    return makers[kind](
        data, labels, x_test=x_test, y_test=y_test, class_names=class_names, id=id, **options
    )


def _test_pair(test: Any) -> tuple[Any, Any]:
    if test is None:
        return None, None
    if isinstance(test, tuple) and len(test) == 2:
        return test
    raise DataError("test must be a pair (samples, labels)")


def _kind_of(data: Any) -> str:
    """Return which function makes a dataset of an object."""
    package = type(data).__module__.partition(".")[0]
    if package == "datasets" and "input_ids" in getattr(data, "column_names", ()):
        raise DataError(
            "the dataset holds tokens (input_ids); give the texts and model='hf:NAME', and they "
            "are tokenised as the model needs it"
        )
    if is_frame(data):
        return "table"
    if package == "scipy" or isinstance(data, Tensor):
        return "arrays"
    if isinstance(data, np.ndarray):
        if data.dtype.kind in "US" and data.ndim == 1:
            return "texts"
        return "table" if data.dtype.kind in "OUS" and data.ndim == 2 else "arrays"
    if isinstance(data, list | tuple):
        return _kind_of_list(data)
    if isinstance(data, dict):
        return "table"
    if hasattr(data, "__getitem__") and hasattr(data, "__len__"):
        return "dataset"
    raise DataError(
        f"cannot read a {type(data).__name__} as samples; give an array, a frame of pandas or "
        "polars, a datasets.Dataset, a matrix of scipy, a list of rows, texts or pictures, or a "
        "map-style dataset"
    )


def _kind_of_list(data: Sequence[Any]) -> str:
    if not data:
        raise DataError("there are no samples")
    if all(isinstance(item, str) for item in data):
        return "texts"
    first = data[0]
    if is_picture(first) or (isinstance(first, np.ndarray | Tensor) and first.ndim in (2, 3)):
        return "pictures"
    if isinstance(first, dict):
        return "table"
    if isinstance(first, tuple) and len(first) == 2 and hasattr(first[0], "shape"):
        return "dataset"  # (sample, label)
    if any(isinstance(value, str) or value is None for value in _items(first)):
        return "table"
    return "arrays"


def _items(row: Any) -> Sequence[Any]:
    return row if isinstance(row, list | tuple) else ()


def from_arrays(
    x: Any,
    y: Vector,
    *,
    x_test: Any = None,
    y_test: Vector | None = None,
    class_names: Sequence[str] | None = None,
    id: Sequence[Any] | None = None,  # noqa: A002
    test_fraction: float = 0.2,
    seed: int = 0,
    clean: bool = False,
    y_clean: Vector | None = None,
    recipe: str | None = None,
    normalisation: Normalisation | None = None,
    name: str = "arrays",
) -> DataBundle:
    """Make a dataset of arrays.

    Args:
        x: uint8 or uint16 images ``(N, H, W)``, ``(N, H, W, C)`` or ``(N, C, H, W)`` with 1 or 3
            channels; floats: images ``(N, C, H, W)`` or features ``(N, D)``, where NaN is a missing
            value; or a sparse matrix of scipy ``(N, D)``.
        y: ``(N,)`` labels: names, whole numbers or booleans.
        x_test: Test samples; without them a part of the training data is held out.
        y_test: Their labels.
        class_names: Names of the classes 0, 1, ...; without them, the labels that occur.
        id: What to call each sample; its position otherwise.
        test_fraction: The part of each class to hold out when there are no test samples.
        seed: Which samples are held out.
        clean: Whether ``y`` is known to be right.
        y_clean: The true labels beside ``y``, if they are known; used for evaluation only.
        recipe: An entry of ``views.RECIPES``; chosen by the kind of data otherwise. With
            ``"as-given"``, whole numbers are the token ids of texts and stay as they are.
        normalisation: Mean and std per channel or feature; measured on the training data otherwise.
        name: What to call the dataset.

    Example:
        >>> import numpy as np
        >>> bundle = from_arrays(np.random.rand(50, 4).astype("f4"), np.arange(50) % 5)
        >>> bundle.num_classes, bundle.input_shape, len(bundle.train), len(bundle.test)
        (5, (4,), 40, 10)
    """
    if (x_test is None) != (y_test is None):
        raise DataError(f"{name}: x_test and y_test are given together or not at all")
    tokens = recipe == "as-given"
    samples = _samples(x, "x", name, tokens=tokens)
    tested = None if x_test is None else _samples(x_test, "x_test", name, tokens=tokens)
    if _has_gaps(samples) or _has_gaps(tested):
        if recipe is not None or normalisation is not None:
            raise DataError(
                f"{name}: with missing values (NaN) there is no choice of recipe and normalisation"
            )
        return from_table(
            _numpy(samples), y, test=None if tested is None else (_numpy(tested), y_test),
            class_names=class_names, id=id, test_fraction=test_fraction, seed=seed, clean=clean,
            true_label=y_clean, name=name,
        )  # fmt: skip
    given = [labels for labels in (y, y_test, y_clean) if labels is not None]
    if samples.shape[0] != len(y):
        raise DataError(f"{name}: {samples.shape[0]} samples in x but {len(y)} labels in y")
    rows = RowNames.of(id, samples.shape[0], where=name)
    classes = find_classes(given, where=f"{name}: y", class_names=class_names)
    labels = classes.numbers(y, where=f"{name}: y")
    true = None if y_clean is None else classes.numbers(y_clean, where=f"{name}: y_clean")
    if true is not None and len(true) != len(labels):
        raise DataError(f"{name}: {len(labels)} labels in y but {len(true)} in y_clean")
    if tested is not None:
        numbers = classes.numbers(y_test, where=f"{name}: y_test")
        test = _split(tested, numbers, RowNames(np.arange(len(numbers)), prefix="test "))
        if tested.shape[1:] != samples.shape[1:]:
            raise DataError(
                f"{name}: training samples have shape {tuple(samples.shape[1:])}, "
                f"test samples {tuple(tested.shape[1:])}"
            )
        kept = np.arange(len(labels))
    else:
        kept, held = stratified_holdout(labels, test_fraction, seed=seed)
        test_labels = labels if true is None else true
        test = _split(samples[_index(samples, held)], test_labels[held], rows.take(held))
    data = samples[_index(samples, kept)]
    train = _split(data, labels[kept], rows.take(kept))
    if normalisation is None:
        fixed = RECIPES[recipe].normalisation if recipe else None
        dense = isinstance(data, Tensor)
        measured = dense and recipe != "as-given"
        normalisation = fixed or (measure(data) if measured else ((0.0,), (1.0,)))
    return DataBundle(
        name=name,
        num_classes=len(classes.names),
        class_names=classes.names,
        label_values=classes.values,
        input_shape=tuple(data.shape[1:]),
        train=train,
        tests={"test": test},
        normalisation=normalisation,
        recipe=recipe or _recipe(data),
        clean_known=clean,
        clean_test=x_test is not None or clean or true is not None,
        true_labels=None if true is None else true[kept],
    )


def from_dataset(
    train: Any,
    test: Any = None,
    *,
    num_classes: int | None = None,
    class_names: Sequence[str] | None = None,
    labels: Vector | None = None,
    test_labels: Vector | None = None,
    test_fraction: float = 0.2,
    seed: int = 0,
    clean: bool = False,
    name: str = "dataset",
) -> DataBundle:
    """Make a dataset of any map-style torch dataset, or several.

    Items are tuples that start with ``(sample, label)``. Float samples are used as they come; uint8
    images ``(C, H, W)`` go through the views of this package. Labels are taken from ``labels``,
    else from the attribute ``targets`` or ``labels`` of the dataset, else by going through it once.

    Args:
        train: The training samples.
        test: The test samples; without them a part of ``train`` is held out.
        num_classes: How many classes there are, where neither names nor labels tell.
        class_names: Their names; the attribute ``classes`` of the dataset otherwise.
        labels: ``(N,)`` labels of ``train``.
        test_labels: ``(M,)`` labels of ``test``.
        test_fraction: The part of each class to hold out when there is no test set.
        seed: Which samples are held out.
        clean: Whether the labels of ``train`` are known to be right.
        name: What to call the dataset.
    """
    found = dataset_labels(train) if labels is None else labels
    if class_names is None:
        class_names = getattr(train, "classes", None)
    if class_names is None and num_classes is not None:
        class_names = [str(number) for number in range(num_classes)]
    given = [found]
    if test is not None:
        given.append(dataset_labels(test) if test_labels is None else test_labels)
    classes = find_classes(given, where=f"{name}: labels", class_names=class_names)
    numbers = classes.numbers(found, where=f"{name}: training labels")
    if test is None:
        from torch.utils.data import Subset

        kept, held = stratified_holdout(numbers, test_fraction, seed=seed)
        splits = [
            DatasetSplit(Subset(train, part.tolist()), numbers[part], RowNames(part))
            for part in (kept, held)
        ]
    else:
        test_numbers = classes.numbers(given[1], where=f"{name}: test labels")
        splits = [
            DatasetSplit(train, numbers, RowNames(np.arange(len(numbers)))),
            DatasetSplit(test, test_numbers),
        ]
    probe = splits[0].raw(torch.arange(min(len(splits[0]), 256)))
    images = probe.dtype == torch.uint8 and probe.ndim == 4
    kind = _recipe(probe) if images else "as-given"
    return DataBundle(
        name=name,
        num_classes=len(classes.names),
        class_names=classes.names,
        label_values=classes.values,
        input_shape=tuple(probe.shape[1:]),
        train=splits[0],
        tests={"test": splits[1]},
        normalisation=measure(probe) if images else ((0.0,), (1.0,)),
        recipe=kind,
        clean_known=clean,
        clean_test=test is not None or clean,
    )


def _samples(x: Any, argument: str, name: str, *, tokens: bool = False) -> Any:
    """Return samples as a tensor, or as a CSR matrix."""
    if hasattr(x, "tocsr"):
        return _sparse(x, argument, name)
    data = x if isinstance(x, Tensor) else _tensor(x, argument, name)
    if tokens and data.ndim == 2 and not data.is_floating_point():
        return data.long()
    if data.dtype == torch.uint8 and data.ndim == 3:
        data = data[:, None]
    if data.dtype == torch.uint8 and data.ndim == 4:
        if data.shape[1] not in (1, 3) and data.shape[3] in (1, 3):
            data = data.permute(0, 3, 1, 2)
        if data.shape[1] in (1, 3):
            return data.contiguous()
    if data.ndim >= 2 and data.dtype != torch.uint8 and not data.is_complex():
        data = data.float()
        usable = torch.isfinite(data.flatten(1))
        if data.ndim == 2:
            usable |= data.isnan()  # missing values of a table
        if not usable.all():
            row = int((~usable.all(1)).nonzero()[0])
            raise DataError(f"{name}: {argument} has a value that is not finite in sample {row}")
        return data
    raise DataError(
        f"{name}: {argument} has dtype {data.dtype} and shape {tuple(data.shape)}; expected uint8 "
        f"images (N, H, W), (N, H, W, C) or (N, C, H, W) with 1 or 3 channels, or floats (N, D)"
    )


def _tensor(x: Any, argument: str, name: str) -> Tensor:
    try:
        array = np.asarray(x)
    except ValueError as error:
        raise DataError(
            f"{name}: the rows of {argument} do not have equally many values ({error})"
        ) from error
    if array.dtype.kind not in "iufbc":
        raise DataError(
            f"{name}: {argument} has dtype {array.dtype}; expected numbers. For rows with text, "
            "give a frame with named columns"
        )
    if array.dtype == np.uint16 and array.ndim in (3, 4):
        array = to_8_bit(array, f"{name}: {argument}")
    return torch.from_numpy(np.require(array, requirements=["C", "W"]))


def _sparse(x: Any, argument: str, name: str) -> Any:
    matrix = x.tocsr()
    broken = np.flatnonzero(~np.isfinite(matrix.data))
    if broken.size:
        row = int(np.searchsorted(matrix.indptr, broken[0], side="right")) - 1
        raise DataError(f"{name}: {argument} has a value that is not finite in sample {row}")
    return matrix


def _has_gaps(samples: Any) -> bool:
    return (
        isinstance(samples, Tensor)
        and samples.ndim == 2
        and samples.is_floating_point()
        and bool(samples.isnan().any())
    )


def _numpy(samples: Any) -> Any:
    return samples.numpy() if isinstance(samples, Tensor) else samples.toarray()


def _index(samples: Any, positions: NDArray[np.int64]) -> Any:
    return torch.from_numpy(positions) if isinstance(samples, Tensor) else positions


def _split(samples: Any, labels: NDArray[np.int64], names: Sequence[str]) -> Split:
    if isinstance(samples, Tensor):
        return TensorSplit(samples, labels, names)
    return SparseSplit(samples, labels, names)


def _recipe(data: Any) -> str:
    if not isinstance(data, Tensor):
        return "as-given"
    if data.dtype != torch.uint8:
        return "float-images" if data.ndim == 4 else "features"
    return "array-images"
