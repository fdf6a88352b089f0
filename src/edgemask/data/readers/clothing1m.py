"""Clothing1M: a million shop images with labels from their surrounding text."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

from edgemask._options import Check
from edgemask.data.bundle import DataBundle
from edgemask.data.images import OnBroken
from edgemask.data.readers._files import file_split, find_folder, read_list
from edgemask.data.splits import FileSplit
from edgemask.data.views import find_recipe
from edgemask.errors import DataError

__all__ = ["clothing1m"]

CLASS_NAMES = (
    "T-Shirt", "Shirt", "Knitwear", "Chiffon", "Sweater", "Hoodie", "Windbreaker",
    "Jacket", "Downcoat", "Suit", "Shawl", "Dress", "Vest", "Underwear",
)  # fmt: skip
_KEYS = {
    "train": "noisy_train_key_list.txt",
    "clean": "clean_train_key_list.txt",
    "val": "clean_val_key_list.txt",
    "test": "clean_test_key_list.txt",
}
_LABELS = ("noisy_label_kv.txt", "clean_label_kv.txt")
_SOURCE = "its authors (github.com/Cysu/noisy_label)"


def clothing1m(
    root: Path | None = None,
    *,
    recipe: Annotated[str | None, Check(partial(find_recipe, "clothing1m"))] = None,
    with_clean_train: bool = False,
    on_broken: OnBroken = "error",
) -> DataBundle:
    """A million images of clothing in 14 classes with noisy labels; clean validation and test sets.

    Expected in ``clothing1m/`` below the root, as published: ``images/``, and beside it or in
    ``annotations/`` the files ``noisy_label_kv.txt``, ``clean_label_kv.txt``,
    ``noisy_train_key_list.txt``, ``clean_train_key_list.txt``, ``clean_val_key_list.txt`` and
    ``clean_test_key_list.txt``. For the balanced subsets that most methods train on, see
    :class:`~edgemask.data.BalancedSubset`.

    Args:
        root: The folder that holds it.
        recipe: Whose views and normalisation: ``dividemix``, ``unicon`` or ``apl``; those of JAL
            otherwise.
        with_clean_train: Add the 47,570 images of the clean training list, with their noisy label
            if they have one and their clean one if not, as Jo-SRC does.
        on_broken: ``error``, or ``skip`` to check all images first and leave the broken ones out.

    Reference:
        Xiao et al., Learning from Massive Noisy Labeled Data for Image Classification, CVPR 2015.
        github.com/Cysu/noisy_label
    """
    folder = find_folder(root, "clothing1m", ("images",), _SOURCE)
    lists = folder / "annotations" if (folder / "annotations").is_dir() else folder
    missing = [name for name in (*_LABELS, *_KEYS.values()) if not (lists / name).is_file()]
    if missing:
        raise DataError(f"{lists}: missing {', '.join(missing)}. Get them from {_SOURCE}")
    noisy, clean = (dict(read_list(lists / name, len(CLASS_NAMES))) for name in _LABELS)

    def split(part: str, labels: dict[str, int], extra: str | None = None) -> FileSplit:
        keys = _keys(lists / _KEYS[part], labels)
        if extra is not None:
            keys += _keys(lists / _KEYS[extra], clean | noisy)
        return file_split(
            folder,
            [(folder / key, label) for key, label in keys],
            size=224,
            on_broken=on_broken,
            source=lists / _KEYS[part],
        )

    full, normalisation = find_recipe("clothing1m", recipe)
    return DataBundle(
        name="clothing1m",
        num_classes=len(CLASS_NAMES),
        class_names=CLASS_NAMES,
        input_shape=(3, 224, 224),
        train=split("train", noisy, "clean" if with_clean_train else None),
        tests={"test": split("test", clean)},
        validation=split("val", clean),
        normalisation=normalisation,
        recipe=full,
        clean_known=False,
    )


def _keys(path: Path, labels: dict[str, int]) -> list[tuple[str, int]]:
    found = []
    for line, key in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if key.strip():
            if key.strip() not in labels:
                raise DataError(f"{path}, line {line}: there is no label for {key.strip()!r}")
            found.append((key.strip(), labels[key.strip()]))
    return found
