"""MNIST and Fashion-MNIST from their idx files."""

from __future__ import annotations

import gzip
import io
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgemask.data.bundle import DataBundle
from edgemask.data.labels import Classes
from edgemask.data.own_data import from_arrays
from edgemask.data.readers._files import find_folder
from edgemask.errors import DataError, one_line

__all__ = ["fashion_mnist", "mnist", "read_idx"]

DEBIAN_FASHION_MNIST = Path("/usr/share/datasets/fashion-mnist")
_FASHION = (
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
    "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
)  # fmt: skip


def mnist(root: Path | None = None) -> DataBundle:
    """70,000 handwritten digits of 28 x 28 grey pixels, from the four idx files in ``mnist/``.

    Reference:
        LeCun et al., Gradient-Based Learning Applied to Document Recognition, Proceedings of the
        IEEE, 1998.
    """
    files = _files(root, "mnist", "the original distribution or any mirror")
    return _bundle("mnist", files, tuple(str(number) for number in range(10)))


def fashion_mnist(root: Path | None = None) -> DataBundle:
    """70,000 articles of clothing of 28 x 28 grey pixels, from ``fashion-mnist/`` or Debian.

    Reference:
        Xiao et al., Fashion-MNIST: A Novel Image Dataset for Benchmarking Machine Learning
        Algorithms, arXiv 1708.07747, 2017. github.com/zalandoresearch/fashion-mnist
    """
    own = None if root is None else root / "fashion-mnist"
    if (own is None or not own.is_dir()) and DEBIAN_FASHION_MNIST.is_dir():
        root = DEBIAN_FASHION_MNIST.parent
    source = "github.com/zalandoresearch/fashion-mnist or Debian's package dataset-fashion-mnist"
    return _bundle("fashion-mnist", _files(root, "fashion-mnist", source), _FASHION)


def _files(root: Path | None, name: str, source: str) -> list[Path]:
    """Return training images and labels, test images and labels; plain or gzipped."""
    folder = find_folder(root, name, (), source)
    found = []
    for stem in ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1"):
        names = [f"{stem}-ubyte", f"{stem}-ubyte.gz", f"{stem.replace('-idx', '.idx')}-ubyte"]
        present = [folder / entry for entry in names if (folder / entry).is_file()]
        if not present:
            raise DataError(
                f"{folder}: missing {stem}-ubyte.gz (or unpacked). Get the dataset from {source} "
                f"and put it there"
            )
        found.append(present[0])
    return found


def _bundle(name: str, files: list[Path], class_names: tuple[str, ...]) -> DataBundle:
    x, y, x_test, y_test = (read_idx(file) for file in files)
    for images, labels, file in ((x, y, files[0]), (x_test, y_test, files[2])):
        if images.ndim != 3 or labels.ndim != 1 or len(images) != len(labels):
            raise DataError(f"{file}: holds {images.shape} for labels of shape {labels.shape}")
    classes = Classes(class_names, tuple(range(len(class_names))))
    return from_arrays(
        x,
        classes.numbers(y, where=str(files[1])),
        x_test=x_test,
        y_test=classes.numbers(y_test, where=str(files[3])),
        class_names=class_names,
        clean=True,
        recipe=name,
        name=name,
    )


def read_idx(path: Path) -> NDArray[Any]:
    """Read an idx file of unsigned bytes, plain or gzipped.

    The size that the header promises is checked against the content before anything is made of it.
    """
    try:
        data = path.read_bytes()
        if data[:2] == b"\x1f\x8b":
            data = _gunzip(data)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(
            f"{path}: cannot be read ({one_line(error)}); get the file again"
        ) from error
    if len(data) < 4 or data[:3] != b"\0\0\x08" or len(data) < 4 + 4 * data[3]:
        raise DataError(f"{path}: not an idx file of unsigned bytes")
    shape = struct.unpack(f">{data[3]}I", data[4 : 4 + 4 * data[3]])
    expected = 4 + 4 * len(shape) + int(np.prod(shape, dtype=object))
    if not shape or len(data) != expected:
        raise DataError(
            f"{path}: its header promises {expected} bytes ({' x '.join(map(str, shape))}), "
            f"it has {len(data)}; get the file again"
        )
    return np.frombuffer(data, dtype=np.uint8, offset=4 + 4 * len(shape)).reshape(shape).copy()


def _gunzip(data: bytes, limit: int = 1 << 30) -> bytes:
    """Decompress, but never to more than ``limit`` bytes."""
    with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
        content = file.read(limit + 1)
    if len(content) > limit:
        raise EOFError(f"it unpacks to more than {limit} bytes")
    return content
