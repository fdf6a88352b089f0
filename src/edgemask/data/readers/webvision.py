"""The first 50 classes of WebVision, with ILSVRC-2012 as a second test set."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

from edgemask._options import Check
from edgemask.data.bundle import DataBundle
from edgemask.data.images import EXTENSIONS, OnBroken
from edgemask.data.readers._files import file_split, find_folder, read_list
from edgemask.data.splits import FileSplit
from edgemask.data.views import find_recipe
from edgemask.errors import DataError

__all__ = ["webvision_mini"]

CLASSES = 50
_TRAIN, _VAL = "info/train_filelist_google.txt", "info/val_filelist.txt"
_SOURCE = "https://data.vision.ee.ethz.ch/cvl/webvision/ (WebVision 1.0, resized Google images)"


def webvision_mini(
    root: Path | None = None,
    *,
    recipe: Annotated[str | None, Check(partial(find_recipe, "webvision-mini"))] = None,
    ilsvrc12: bool = True,
    on_broken: OnBroken = "error",
) -> DataBundle:
    """The Google images of WebVision's first 50 classes, with two test sets.

    The tests are the validation images of WebVision and of ILSVRC-2012 in these classes.

    Expected below the root::

        webvision/info/train_filelist_google.txt    lines "google/q0001/....jpg 0"
        webvision/info/val_filelist.txt             lines "val000001.jpg 23"
        webvision/info/synsets.txt                  lines "n01440764 tench, ..."
        webvision/google/...                        training images
        webvision/val_images_256/...                validation images
        imagenet/val/n01440764/...                  ILSVRC-2012 validation, one folder per synset
                                                    (or a class number: imagenet/val/0/...)

    Args:
        root: The folder that holds all this.
        recipe: Whose views and normalisation: ``dividemix`` or ``ssr`` (299 pixels), ``elr-plus``
            (227), ``jo-snc``, ``unicon`` or ``disc``; those of JAL, ANL and APL otherwise (224).
        ilsvrc12: Whether to read the second test set.
        on_broken: ``error``, or ``skip`` to check all images first and leave the broken ones out.

    Reference:
        Li et al., WebVision Database: Visual Learning and Understanding from Web Data, arXiv
        1708.02862, 2017; its first 50 classes: Jiang et al., MentorNet, ICML 2018.
        https://data.vision.ee.ethz.ch/cvl/webvision/
    """
    folder = find_folder(root, "webvision", (_TRAIN, _VAL, "google", "val_images_256"), _SOURCE)
    size = {"dividemix": 299, "ssr": 299, "elr-plus": 227}.get(recipe or "", 224)
    synsets = _synsets(folder)
    parts = {}
    for part, listing, images in (("train", _TRAIN, "."), ("webvision", _VAL, "val_images_256")):
        entries = [
            (folder / images / name, label)
            for name, label in read_list(folder / listing, None)
            if label < CLASSES
        ]
        parts[part] = file_split(
            folder, entries, size=size, on_broken=on_broken, source=folder / listing
        )
    tests = {"webvision": parts["webvision"]}
    if ilsvrc12:
        tests["ilsvrc12"] = _imagenet(folder, list(synsets), size, on_broken)
    full, normalisation = find_recipe("webvision-mini", recipe)
    return DataBundle(
        name="webvision-mini",
        num_classes=CLASSES,
        class_names=tuple(synsets.values()) or tuple(str(n) for n in range(CLASSES)),
        input_shape=(3, size, size),
        train=parts["train"],
        tests=tests,
        normalisation=normalisation,
        recipe=full,
        clean_known=False,
    )


def _synsets(folder: Path) -> dict[str, str]:
    """Return synset and first name of each class; nothing where the list is not there."""
    path = folder / "info" / "synsets.txt"
    if not path.is_file():
        return {}
    lines = path.read_text(encoding="utf-8").splitlines()[:CLASSES]
    if len(lines) < CLASSES:
        raise DataError(f"{path}: expected at least {CLASSES} lines, got {len(lines)}")
    pairs = (line.partition(" ") for line in lines)
    return {synset: names.partition(",")[0].strip() for synset, _, names in pairs}


def _imagenet(webvision: Path, synsets: list[str], size: int, on_broken: OnBroken) -> FileSplit:
    places = [webvision.parent / "imagenet" / "val", webvision / "imagenet" / "val"]
    folder = next((place for place in places if place.is_dir()), None)
    if folder is None:
        raise DataError(
            f"{places[0]}: missing. Put the ILSVRC-2012 validation images there, a folder for each "
            f"synset, or do without that test set (ilsvrc12=False)"
        )
    entries = []
    for number in range(CLASSES):
        names = [str(number), *synsets[number : number + 1]]
        found = next((folder / name for name in names if (folder / name).is_dir()), None)
        if found is None:
            raise DataError(
                f"{folder}: has no folder for class {number} ({' or '.join(names)}); folders named "
                f"by synset need {webvision / 'info' / 'synsets.txt'}"
            )
        files = sorted(file for file in found.iterdir() if file.suffix.lower() in EXTENSIONS)
        entries += [(file, number) for file in files]
    return file_split(folder, entries, size=size, on_broken=on_broken, source=folder)
