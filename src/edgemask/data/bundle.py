"""A dataset, ready to be trained on: its samples, its names and how to prepare it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from edgemask.data.splits import DatasetSplit, Labels, Split, TensorSplit, stratified_holdout
from edgemask.data.views import RECIPES
from edgemask.errors import DataError

__all__ = ["DataBundle", "class_numbers", "from_arrays", "from_dataset"]

Normalisation = tuple[tuple[float, ...], tuple[float, ...]]


@dataclass(frozen=True, kw_only=True)
class DataBundle:
    """A dataset: training samples, test sets, and what a model has to know about them."""

    name: str
    """What the dataset is called."""
    num_classes: int
    """How many outputs a classifier needs."""
    class_names: tuple[str, ...]
    """One name a class, in the order of the class numbers."""
    input_shape: tuple[int, ...]
    """The shape of one sample as the model sees it: (C, H, W) or (D,)."""
    train: Split
    """The training samples with the labels that came with them."""
    tests: Mapping[str, Split]
    """Test sets by name; the first one is the main one."""
    validation: Split | None = None
    """Clean validation samples, where the dataset has them."""
    normalisation: Normalisation
    """Mean and standard deviation per channel or feature (of pixels in 0..1)."""
    recipe: str
    """Which entry of ``views.RECIPES`` makes the views."""
    clean_known: bool
    """Whether the training labels are the true ones, so that noise can be put on them."""
    clean_test: bool = True
    """Whether the test labels are trustworthy; False where they were held out of noisy data."""
    true_labels: Labels | None = field(default=None, repr=False)
    """True training labels beside noisy given ones, for evaluation only, where they are known."""

    def __post_init__(self) -> None:
        if len(self.class_names) != self.num_classes:
            raise DataError(
                f"{self.name}: {len(self.class_names)} class names for {self.num_classes} classes"
            )
        RECIPES[self.recipe]  # an unknown name raises here
        channels = {len(values) for values in self.normalisation}
        if not channels <= {1, self.input_shape[0]}:
            raise DataError(
                f"{self.name}: the normalisation of recipe {self.recipe!r} is for {max(channels)} "
                f"channels, the samples have {self.input_shape[0]}"
            )

    @property
    def test(self) -> Split:
        """The main test set."""
        return next(iter(self.tests.values()))

    @property
    def label_classes(self) -> int:
        """The number of classes among the training labels, those out of distribution included."""
        return max(self.num_classes, int(self.train.labels.max()) + 1)


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
        num_classes: How many classes there are; found in the labels otherwise.
        class_names: Their names; the attribute ``classes`` of the dataset otherwise.
        labels: ``(N,)`` class numbers of ``train``.
        test_labels: ``(M,)`` class numbers of ``test``.
        test_fraction: The part of each class to hold out when there is no test set.
        seed: Which samples are held out.
        clean: Whether the labels of ``train`` are known to be right.
        name: What to call the dataset.
    """
    found = _dataset_labels(train, labels)
    if class_names is None and len(getattr(train, "classes", None) or ()) > int(found.max()):
        class_names = [str(entry) for entry in train.classes]
    if class_names is None:
        count = num_classes or int(found.max()) + 1
        class_names = [str(number) for number in range(count)]
    names = tuple(class_names)
    found = class_numbers(found, names, where=f"{name}: training labels")
    if test is None:
        from torch.utils.data import Subset

        kept, held = stratified_holdout(found, test_fraction, seed=seed)
        splits = [DatasetSplit(Subset(train, part.tolist()), found[part]) for part in (kept, held)]
    else:
        test_found = class_numbers(
            _dataset_labels(test, test_labels), names, where=f"{name}: test labels"
        )
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


def class_numbers(y: Any, names: Sequence[str], *, where: str) -> Labels:
    """Turn labels, numbers or names, into class numbers, and check their range."""
    values = np.asarray(y)
    if values.ndim != 1:
        raise DataError(f"{where}: labels must be one-dimensional, got shape {values.shape}")
    if values.dtype.kind in "iub":
        numbers = values.astype(np.int64)
        wrong = np.flatnonzero((numbers < 0) | (numbers >= len(names)))
        if len(wrong):
            raise DataError(
                f"{where}: label {numbers[wrong[0]]} of sample {wrong[0]} is out of range; "
                f"expected 0..{len(names) - 1} ({len(wrong)} such labels)"
            )
        return numbers
    if values.dtype.kind in "US":
        known = {entry: number for number, entry in enumerate(names)}
        numbers = np.array([known.get(str(value), -1) for value in values], dtype=np.int64)
        if (numbers < 0).any():
            first = int(np.flatnonzero(numbers < 0)[0])
            raise DataError(f"{where}: sample {first} has the unknown class {str(values[first])!r}")
        return numbers
    raise DataError(f"{where}: labels must be integers or names, got dtype {values.dtype}")


def measure(data: Tensor) -> Normalisation:
    """Return mean and standard deviation per channel or feature; a constant one gets std 1."""
    values = data[:: max(1, len(data) // 10_000)].double()
    if data.dtype == torch.uint8:
        values = values / 255
    axes = [axis for axis in range(values.ndim) if axis != 1]
    std, mean = torch.std_mean(values, dim=axes, correction=0)
    std = torch.where(std > 1e-8, std, 1.0)
    return tuple(mean.tolist()), tuple(std.tolist())


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
        return tuple(str(number) for number in range(max(count, 2)))
    kinds = ", ".join(str(values.dtype) for values in arrays)
    raise DataError(f"{name}: labels must be all integers or all names, got {kinds}")


def _dataset_labels(dataset: Any, labels: Any) -> NDArray[Any]:
    for values in (labels, getattr(dataset, "targets", None), getattr(dataset, "labels", None)):
        if values is not None:
            return np.asarray(values)
    return np.array([int(dataset[position][1]) for position in range(len(dataset))])
