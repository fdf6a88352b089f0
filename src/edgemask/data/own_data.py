"""Data of your own that is in memory already: arrays and map-style datasets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from edgemask.data.bundle import DataBundle, Normalisation, class_numbers, measure
from edgemask.data.splits import DatasetSplit, TensorSplit, dataset_labels, stratified_holdout
from edgemask.data.views import RECIPES
from edgemask.errors import DataError

__all__ = ["from_arrays", "from_dataset"]


def from_arrays(
    x: Tensor | NDArray[Any],
    y: Sequence[Any] | NDArray[Any] | Tensor,
    *,
    x_test: Tensor | NDArray[Any] | None = None,
    y_test: Sequence[Any] | NDArray[Any] | Tensor | None = None,
    class_names: Sequence[str] | None = None,
    test_fraction: float = 0.2,
    seed: int = 0,
    clean: bool = False,
    y_clean: Sequence[Any] | NDArray[Any] | Tensor | None = None,
    recipe: str | None = None,
    normalisation: Normalisation | None = None,
    name: str = "arrays",
) -> DataBundle:
    """Make a dataset of arrays.

    Args:
        x: uint8 images ``(N, H, W)``, ``(N, H, W, C)`` or ``(N, C, H, W)`` with 1 or 3 channels; or
            floats: images ``(N, C, H, W)`` or features ``(N, D)``.
        y: ``(N,)`` class numbers from 0, or names.
        x_test: Test samples; without them a part of the training data is held out.
        y_test: Their labels.
        class_names: Names in the order of the numbers; without them, the numbers or sorted names.
        test_fraction: The part of each class to hold out when there are no test samples.
        seed: Which samples are held out.
        clean: Whether ``y`` is known to be right.
        y_clean: The true labels beside ``y``, if they are known; used for evaluation only.
        recipe: An entry of ``views.RECIPES``; chosen by the kind of data otherwise.
        normalisation: Mean and std per channel or feature; measured on the training data otherwise.
        name: What to call the dataset.

    Example:
        >>> import numpy as np
        >>> bundle = from_arrays(np.random.rand(50, 4).astype("f4"), np.arange(50) % 5)
        >>> bundle.num_classes, bundle.input_shape, len(bundle.train), len(bundle.test)
        (5, (4,), 40, 10)
    """
    samples = _samples(x, "x", name)
    names = _class_names((y, y_test, y_clean), class_names, name)
    labels = class_numbers(y, names, where=f"{name}: y")
    if len(samples) != len(labels):
        raise DataError(f"{name}: {len(samples)} samples in x but {len(labels)} labels in y")
    true = None if y_clean is None else class_numbers(y_clean, names, where=f"{name}: y_clean")
    if true is not None and len(true) != len(labels):
        raise DataError(f"{name}: {len(labels)} labels in y but {len(true)} in y_clean")
    if (x_test is None) != (y_test is None):
        raise DataError(f"{name}: x_test and y_test are given together or not at all")
    if x_test is not None and y_test is not None:
        test = TensorSplit(
            _samples(x_test, "x_test", name), class_numbers(y_test, names, where=f"{name}: y_test")
        )
        if test.data.shape[1:] != samples.shape[1:]:
            raise DataError(
                f"{name}: training samples have shape {tuple(samples.shape[1:])}, "
                f"test samples {tuple(test.data.shape[1:])}"
            )
        kept = np.arange(len(labels))
    else:
        kept, held = stratified_holdout(labels, test_fraction, seed=seed)
        test_labels = labels if true is None else true
        test = TensorSplit(samples[torch.from_numpy(held)], test_labels[held])
    train = TensorSplit(samples[torch.from_numpy(kept)], labels[kept])
    if normalisation is None:
        fixed = RECIPES[recipe].normalisation if recipe else None
        normalisation = fixed or measure(train.data)
    return DataBundle(
        name=name,
        num_classes=len(names),
        class_names=names,
        input_shape=tuple(train.data.shape[1:]),
        train=train,
        tests={"test": test},
        normalisation=normalisation,
        recipe=recipe or _kind(train.data),
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
    labels: Sequence[Any] | NDArray[Any] | Tensor | None = None,
    test_labels: Sequence[Any] | NDArray[Any] | Tensor | None = None,
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
        labels: ``(N,)`` class numbers of ``train``.
        test_labels: ``(M,)`` class numbers of ``test``.
        test_fraction: The part of each class to hold out when there is no test set.
        seed: Which samples are held out.
        clean: Whether the labels of ``train`` are known to be right.
        name: What to call the dataset.
    """
    found = dataset_labels(train) if labels is None else np.asarray(labels)
    if class_names is None:
        class_names = getattr(train, "classes", None)
    if class_names is None and num_classes is not None:
        class_names = [str(number) for number in range(num_classes)]
    names = _class_names((found,), class_names, name)
    found = class_numbers(found, names, where=f"{name}: training labels")
    if test is None:
        from torch.utils.data import Subset

        kept, held = stratified_holdout(found, test_fraction, seed=seed)
        splits = [DatasetSplit(Subset(train, part.tolist()), found[part]) for part in (kept, held)]
    else:
        test_found = dataset_labels(test) if test_labels is None else np.asarray(test_labels)
        test_found = class_numbers(test_found, names, where=f"{name}: test labels")
        splits = [DatasetSplit(train, found), DatasetSplit(test, test_found)]
    probe = splits[0].raw(torch.arange(min(len(splits[0]), 256)))
    images = probe.dtype == torch.uint8 and probe.ndim == 4
    kind = _kind(probe) if images else "as-given"
    return DataBundle(
        name=name,
        num_classes=len(names),
        class_names=names,
        input_shape=tuple(probe.shape[1:]),
        train=splits[0],
        tests={"test": splits[1]},
        normalisation=measure(probe) if images else ((0.0,), (1.0,)),
        recipe=kind,
        clean_known=clean,
        clean_test=test is not None or clean,
    )


def _samples(x: Tensor | NDArray[Any], argument: str, name: str) -> Tensor:
    data = x if isinstance(x, Tensor) else torch.from_numpy(np.require(x, requirements=["C", "W"]))
    if data.dtype == torch.uint8 and data.ndim == 3:
        data = data[:, None]
    if data.dtype == torch.uint8 and data.ndim == 4:
        if data.shape[1] not in (1, 3) and data.shape[3] in (1, 3):
            data = data.permute(0, 3, 1, 2)
        if data.shape[1] in (1, 3):
            return data.contiguous()
    if data.ndim >= 2 and data.dtype != torch.uint8 and not data.is_complex():
        data = data.float()
        finite = torch.isfinite(data.flatten(1)).all(1)
        if not finite.all():
            row = int((~finite).nonzero()[0])
            raise DataError(f"{name}: {argument} has a value that is not finite in sample {row}")
        return data
    raise DataError(
        f"{name}: {argument} has dtype {data.dtype} and shape {tuple(data.shape)}; expected uint8 "
        f"images (N, H, W), (N, H, W, C) or (N, C, H, W) with 1 or 3 channels, or floats (N, D)"
    )


def _kind(data: Tensor) -> str:
    if data.dtype != torch.uint8:
        return "float-images" if data.ndim == 4 else "features"
    return "array-images"


def _class_names(labels: Sequence[Any], given: Sequence[str] | None, name: str) -> tuple[str, ...]:
    if given is not None:
        return tuple(str(entry) for entry in given)
    arrays = [np.asarray(values) for values in labels if values is not None]
    if not len(arrays[0]):
        raise DataError(f"{name}: there are no labels")
    if all(values.dtype.kind in "US" for values in arrays):
        return tuple(sorted({str(value) for values in arrays for value in values}))
    if all(values.dtype.kind in "iub" for values in arrays):
        count = max(int(values.max()) for values in arrays if len(values)) + 1
        if count > max(1000, 100 * sum(map(len, arrays))):
            raise DataError(
                f"{name}: the label {count - 1} would make {count} classes; number classes from 0"
            )
        return tuple(str(number) for number in range(max(count, 2)))
    kinds = ", ".join(str(values.dtype) for values in arrays)
    raise DataError(f"{name}: labels must be all integers or all names, got {kinds}")
