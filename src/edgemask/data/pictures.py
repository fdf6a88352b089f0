"""Pictures in memory: lists of Pillow images or arrays, of one size or of many."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from edgemask.data.bundle import DataBundle, measure
from edgemask.data.images import Fit, as_rgb
from edgemask.data.labels import find_classes
from edgemask.data.rows import RowNames
from edgemask.data.splits import Labels, PictureSplit, Split, TensorSplit, stratified_holdout
from edgemask.data.views import IMAGENET
from edgemask.errors import DataError

__all__ = ["from_pictures", "picture_split"]

_SMALL = 96


def from_pictures(
    x: Sequence[Any],
    y: Any,
    *,
    x_test: Sequence[Any] | None = None,
    y_test: Any = None,
    class_names: Sequence[str] | None = None,
    id: Sequence[Any] | None = None,  # noqa: A002
    size: int | None = None,
    test_fraction: float = 0.2,
    seed: int = 0,
    clean: bool = False,
    name: str = "pictures",
) -> DataBundle:
    """Make a dataset of a list of pictures.

    Args:
        x: Pillow images, or arrays ``(H, W)``, ``(H, W, C)`` or ``(C, H, W)``.
        y: Their labels.
        x_test: Test pictures; without them a part of ``x`` is held out.
        y_test: Their labels.
        class_names: Names of the classes, where labels are their numbers.
        id: What to call each picture; its position otherwise.
        size: Height and width to resize to; 224, or that of small square pictures, otherwise.
        test_fraction: The part of each class to hold out when there are no test pictures.
        seed: Which pictures are held out.
        clean: Whether the labels are known to be right.
        name: What to call the dataset.
    """
    pictures = [_pixels(picture, place) for place, picture in enumerate(x)]
    given = [labels for labels in (y, y_test) if labels is not None]
    classes = find_classes(given, where=f"{name}: labels", class_names=class_names)
    labels = classes.numbers(y, where=f"{name}: labels")
    if len(labels) != len(pictures):
        raise DataError(f"{name}: {len(pictures)} pictures, but {len(labels)} labels")
    rows = RowNames.of(id, len(pictures), where=name)
    side = size or _common_side(pictures) or 224
    if x_test is None:
        kept, held = stratified_holdout(labels, test_fraction, seed=seed)
        test = picture_split([pictures[i] for i in held], labels[held], side, rows.take(held))
    else:
        kept = np.arange(len(labels))
        numbers = classes.numbers(y_test, where=f"{name}: test labels")
        tested = [_pixels(picture, place) for place, picture in enumerate(x_test)]
        if len(tested) != len(numbers):
            raise DataError(f"{name}: {len(tested)} test pictures, but {len(numbers)} labels")
        test = picture_split(
            tested, numbers, side, RowNames(np.arange(len(numbers)), prefix="test ")
        )
    train = picture_split([pictures[i] for i in kept], labels[kept], side, rows.take(kept))
    return DataBundle(
        name=name,
        num_classes=len(classes.names),
        class_names=classes.names,
        label_values=classes.values,
        input_shape=(3, side, side),
        train=train,
        tests={"test": test},
        normalisation=measure(train.data) if isinstance(train, TensorSplit) else IMAGENET,
        recipe="array-images" if side <= _SMALL else "images",
        clean_known=clean,
        clean_test=x_test is not None or clean,
    )


def _pixels(picture: Any, place: int) -> np.ndarray[Any, Any]:
    """Return the pixels as an array, which is compared and copied more easily than an image."""
    if isinstance(picture, Tensor):
        picture = picture.detach().cpu().numpy()
    return np.asarray(as_rgb(picture, f"picture {place}"))


def _common_side(pictures: Sequence[np.ndarray[Any, Any]]) -> int | None:
    sizes = {picture.shape[:2] for picture in pictures}
    if len(sizes) == 1:
        height, width = sizes.pop()
        if height == width <= _SMALL:
            return int(height)
    return None


def picture_split(
    pictures: Sequence[Any], labels: Labels, side: int, names: Sequence[str] | None = None
) -> Split:
    """Return pictures of any size as samples of one size, small ones as one tensor."""
    pictures = [_pixels(picture, place) for place, picture in enumerate(pictures)]
    if side > _SMALL:
        return PictureSplit(pictures, labels, size=side, names=names)
    fit, unused = Fit(side), torch.Generator()
    images = [fit(as_rgb(picture, "a picture"), unused) for picture in pictures]
    data = torch.stack(images) if images else torch.empty(0, 3, side, side, dtype=torch.uint8)
    return TensorSplit(data, labels, names)
