"""CIFAR-10, CIFAR-100 and the open-set CIFAR80N-O from the official python files."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
from numpy.typing import NDArray

from edgemask._options import Check
from edgemask._pickles import read_pickle
from edgemask.data.bundle import DataBundle, Normalisation
from edgemask.data.readers._archives import extract
from edgemask.data.readers._files import find_folder, read_checked
from edgemask.data.splits import Labels, TensorSplit
from edgemask.data.views import find_recipe
from edgemask.errors import DataError

__all__ = ["cifar10", "cifar80n_o", "cifar100"]

_SOURCE = "https://www.cs.toronto.edu/~kriz/cifar.html (the python version)"
_TRAIN10 = {
    "data_batch_1": "c99cafc152244af753f735de768cd75f",
    "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
    "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
    "data_batch_4": "634d18415352ddfa80567beed471001a",
    "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
}
_TEST10 = {"test_batch": "40351d587109b95175f43aff81a1287e"}
_META10 = {"batches.meta": "5ff9c542aee3614f3951f8cda6e48888"}
_TRAIN100 = {"train": "16019d7e3df5f24257cddd939b257f8d"}
_TEST100 = {"test": "f0ef6b0ae62326f3e7ffdfab6717acfc"}
_META100 = {"meta": "7973b15100ade9c7d40fb424638fde48"}
_ARCHIVE10 = ("cifar-10-python.tar.gz", "c58f30108f718f92721af3b95e74349a", "cifar-10-batches-py")
_ARCHIVE100 = ("cifar-100-python.tar.gz", "eb9058c3a382ffc7106e4002c42a8d85", "cifar-100-python")
_Recipe10 = Annotated[str | None, Check(partial(find_recipe, "cifar10"))]
_Recipe100 = Annotated[str | None, Check(partial(find_recipe, "cifar100"))]
CLOSED = 80
"""Classes of CIFAR80N-O: fine classes 0..79; images of the others are out of distribution."""


def cifar10(root: Path | None = None, *, recipe: _Recipe10 = None) -> DataBundle:
    """60,000 colour images of 32 x 32 pixels in 10 classes, from ``cifar-10-batches-py/``.

    Args:
        root: The folder that holds it.
        recipe: Whose views and normalisation: ``dividemix``, ``jo-src``, ``ca2c`` or ``plain``;
            those of JAL, ANL and APL otherwise.

    Reference:
        Krizhevsky, Learning Multiple Layers of Features from Tiny Images, 2009.
        https://www.cs.toronto.edu/~kriz/cifar.html
    """
    _unpack(root, *_ARCHIVE10)
    folder = find_folder(root, "cifar-10-batches-py", (*_TRAIN10, *_TEST10, *_META10), _SOURCE)
    names = _names(folder, _META10, b"label_names")
    train = _split(folder, _TRAIN10, b"labels")
    test = _split(folder, _TEST10, b"labels")
    return _bundle("cifar10", find_recipe("cifar10", recipe), names, train, test)


def cifar100(root: Path | None = None, *, recipe: _Recipe100 = None) -> DataBundle:
    """60,000 colour images of 32 x 32 pixels in 100 classes, from ``cifar-100-python/``.

    Args:
        root: The folder that holds it.
        recipe: Whose views and normalisation: ``dividemix``, ``jo-src``, ``jo-snc``, ``ca2c`` or
            ``plain``; those of JAL, ANL and APL otherwise.

    Reference:
        Krizhevsky, Learning Multiple Layers of Features from Tiny Images, 2009.
        https://www.cs.toronto.edu/~kriz/cifar.html
    """
    names, train, test = _fine(root)
    return _bundle("cifar100", find_recipe("cifar100", recipe), names, train, test)


def cifar80n_o(root: Path | None = None, *, recipe: _Recipe100 = "jo-src") -> DataBundle:
    """CIFAR-100 with twenty classes out of distribution: 50,000 training images, 80 classes.

    The labels of the training images are the true fine ones, 80..99 for images that belong to none
    of the 80 classes; open-set noise has to give every image one of the 80 labels before training.
    The test set holds the 8,000 images of the 80 classes.

    Args:
        root: The folder that holds ``cifar-100-python/``.
        recipe: Whose views and normalisation, as for CIFAR-100; Jo-SRC's, who defined it,
            otherwise.

    Reference:
        Yao et al., Jo-SRC: A Contrastive Approach for Combating Noisy Labels, CVPR 2021.
    """
    names, train, test = _fine(root)
    closed = np.flatnonzero(test.labels < CLOSED)
    test = TensorSplit(test.data[closed], test.labels[closed])
    return _bundle("cifar80n-o", find_recipe("cifar100", recipe), names[:CLOSED], train, test)


def _fine(root: Path | None) -> tuple[tuple[str, ...], TensorSplit, TensorSplit]:
    _unpack(root, *_ARCHIVE100)
    folder = find_folder(root, "cifar-100-python", (*_TRAIN100, *_TEST100, *_META100), _SOURCE)
    names = _names(folder, _META100, b"fine_label_names")
    train = _split(folder, _TRAIN100, b"fine_labels")
    return names, train, _split(folder, _TEST100, b"fine_labels")


def _unpack(root: Path | None, archive: str, md5: str, name: str) -> None:
    """Unpack the official archive if it is there and the folder is not."""
    if root is not None and (root / archive).is_file() and not (root / name).exists():
        read_checked(root / archive, md5)
        extract(root / archive, root / name)


def _bundle(
    name: str,
    recipe: tuple[str, Normalisation],
    names: tuple[str, ...],
    train: TensorSplit,
    test: TensorSplit,
) -> DataBundle:
    return DataBundle(
        name=name,
        num_classes=len(names),
        class_names=names,
        input_shape=(3, 32, 32),
        train=train,
        tests={"test": test},
        recipe=recipe[0],
        normalisation=recipe[1],
        clean_known=True,
    )


def _names(folder: Path, meta: dict[str, str], key: bytes) -> tuple[str, ...]:
    ((file, md5),) = meta.items()
    content = _content(folder / file, md5)
    return tuple(name.decode() for name in content[key])


def _content(path: Path, md5: str) -> dict[bytes, Any]:
    content = read_pickle(read_checked(path, md5), path)
    if not isinstance(content, dict):
        raise DataError(f"{path}: holds a {type(content).__name__}, expected a dictionary")
    return content


def _split(folder: Path, files: dict[str, str], key: bytes) -> TensorSplit:
    images: list[NDArray[np.uint8]] = []
    labels: list[Labels] = []
    for file, md5 in files.items():
        content = _content(folder / file, md5)
        images.append(content[b"data"].reshape(-1, 3, 32, 32))
        labels.append(np.asarray(content[key], dtype=np.int64))
    return TensorSplit(torch.from_numpy(np.concatenate(images)), np.concatenate(labels))
