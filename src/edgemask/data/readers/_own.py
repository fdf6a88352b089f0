"""From lists of image files and labels to a dataset: what folders and CSV files share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from edgemask.data.bundle import DataBundle, measure
from edgemask.data.images import OnBroken, load_images, read_image, sound_images
from edgemask.data.splits import (
    FileSplit,
    Labels,
    Split,
    TensorSplit,
    relative_name,
    stratified_holdout,
)
from edgemask.data.views import IMAGENET
from edgemask.errors import DataError

__all__ = ["SMALL", "bundle_of_files"]

SMALL = 96
"""Images with sides of at most this many pixels are kept in memory."""
_MEMORY = 2 * 1024**3
_PROBED = 32

Listing = tuple[Sequence[Path], Labels]


def bundle_of_files(
    name: str,
    root: Path,
    parts: Mapping[str, Listing],
    class_names: tuple[str, ...],
    *,
    size: int | None,
    test_fraction: float,
    seed: int,
    clean: bool,
    on_broken: OnBroken,
    true_labels: Labels | None = None,
    label_values: tuple[Any, ...] | None = None,
    notes: tuple[str, ...] = (),
) -> DataBundle:
    """Make a dataset of image files.

    Args:
        name: What to call it.
        root: The folder that names of samples are relative to.
        parts: Files and class numbers of ``train`` and of test sets, the main one first.
        class_names: The classes.
        size: Height and width to resize images to; None keeps images of one small square size, and
            takes 224 otherwise.
        test_fraction: The part of each class to hold out when there is no test set.
        seed: Which samples are held out.
        clean: Whether the labels are known to be right.
        on_broken: What to do with files that are no images.
        true_labels: True labels of ``train``, where they are known.
        label_values: The label of each class as it was given.
        notes: What was understood of the data.
    """
    sound = {key: sound_images(paths, on_broken=on_broken) for key, (paths, _) in parts.items()}
    files = {key: [parts[key][0][i] for i in kept] for key, kept in sound.items()}
    labels = {key: parts[key][1][kept] for key, kept in sound.items()}
    true = None if true_labels is None else true_labels[sound["train"]]
    clean_test = len(parts) > 1 or clean or true is not None
    if len(parts) == 1:
        kept, held = stratified_holdout(labels["train"], test_fraction, seed=seed)
        held_labels = (labels["train"] if true is None else true)[held]
        files = {
            part: [files["train"][i] for i in chosen]
            for part, chosen in (("train", kept), ("test", held))
        }
        labels = {"train": labels["train"][kept], "test": held_labels}
        true = None if true is None else true[kept]
    if not files["train"]:
        raise DataError(f"{root}: there are no training images")
    small = _common_small_size(files["train"]) if size is None else size
    side = small or 224
    total = sum(len(paths) for paths in files.values()) * 3 * side * side
    in_memory = side <= SMALL and total <= _MEMORY
    splits: dict[str, Split] = {}
    for part, paths in files.items():
        if in_memory:
            names = [relative_name(path, root) for path in paths]
            splits[part] = TensorSplit(load_images(paths, side), labels[part], names)
        else:
            splits[part] = FileSplit(paths, labels[part], size=side, root=root)
    recipe = "array-images" if side <= SMALL else "images"
    train = splits.pop("train")
    return DataBundle(
        name=name,
        num_classes=len(class_names),
        class_names=class_names,
        input_shape=(3, side, side),
        train=train,
        tests=splits,
        validation=_validation(splits),
        normalisation=measure(train.data) if isinstance(train, TensorSplit) else IMAGENET,
        recipe=recipe,
        clean_known=clean,
        clean_test=clean_test,
        true_labels=true,
        label_values=label_values,
        notes=notes,
    )


def _validation(tests: Mapping[str, Split]) -> Split | None:
    """Return the validation part of data that have a test part besides; it stays a test, too."""
    names = ("val", "valid", "validation") if "test" in tests else ()
    return next((tests[name] for name in names if name in tests), None)


def _common_small_size(paths: Sequence[Path]) -> int | None:
    """Return the side of the first images if they are all square, alike and small."""
    sizes = {read_image(path).size for path in paths[:: max(1, len(paths) // _PROBED)][:_PROBED]}
    if len(sizes) == 1:
        width, height = sizes.pop()
        if width == height <= SMALL:
            return width
    return None
