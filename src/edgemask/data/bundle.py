"""A dataset, ready to be trained on: its samples, its names and how to prepare it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from edgemask.data.encoders import Encoder
from edgemask.data.splits import Labels, Split
from edgemask.data.views import RECIPES
from edgemask.data.views import Constants as Normalisation
from edgemask.errors import DataError

__all__ = ["DataBundle", "Normalisation", "measure"]


@dataclass(frozen=True, kw_only=True)
class DataBundle:
    """A dataset: training samples, test sets, and what a model has to know about them."""

    name: str
    """What the dataset is called."""
    num_classes: int
    """How many outputs a classifier needs."""
    class_names: tuple[str, ...]
    """One name per class, in the order of the class numbers."""
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
    label_values: tuple[Any, ...] | None = None
    """The label of each class as it was given (a number, a name, a boolean); None: its name."""
    encoder: Encoder | None = None
    """How rows of a table or texts became the samples; fitted on the training samples."""
    notes: tuple[str, ...] = ()
    """What was understood of the data, for the person who gave them."""

    def __post_init__(self) -> None:
        if len(self.class_names) != self.num_classes:
            raise DataError(
                f"{self.name}: {len(self.class_names)} class names for {self.num_classes} classes"
            )
        twice = [n for n, count in Counter(self.class_names).items() if count > 1]
        if twice:
            raise DataError(f"{self.name}: several classes have the name {twice[0]!r}")
        for part, split in self.tests.items():
            if not len(split):
                raise DataError(f"{self.name}: the test set {part!r} has no samples")
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
    def values(self) -> tuple[Any, ...]:
        """The label of each class: as it was given, otherwise its name."""
        return self.class_names if self.label_values is None else self.label_values

    @property
    def label_classes(self) -> int:
        """The number of classes among the training labels, those out of distribution included."""
        return max(self.num_classes, int(self.train.labels.max()) + 1)


def measure(data: Tensor) -> Normalisation:
    """Return mean and standard deviation per channel or feature; a constant one gets std 1."""
    values = data[:: max(1, len(data) // 10_000)].double()
    if data.dtype == torch.uint8:
        values = values / 255
    axes = [axis for axis in range(values.ndim) if axis != 1]
    std, mean = torch.std_mean(values, dim=axes, correction=0)
    std = torch.where(std > 1e-8, std, 1.0)
    return tuple(mean.tolist()), tuple(std.tolist())
