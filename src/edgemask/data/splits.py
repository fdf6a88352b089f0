"""Where samples are kept: one tensor, image files, or any map-style dataset."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor

from edgemask._random import numpy_stream, seeded_globals
from edgemask.data.images import Fit, as_rgb, is_picture, read_image
from edgemask.errors import DataError

if TYPE_CHECKING:
    from PIL.Image import Image

    from edgemask.data.views import Augment

__all__ = [
    "DatasetSplit",
    "FileSplit",
    "PictureSplit",
    "SparseSplit",
    "Split",
    "TensorSplit",
    "dataset_labels",
    "positions_by_class",
    "relative_name",
    "stratified_holdout",
]

Labels = NDArray[np.int64]


class Split(Protocol):
    """Samples with their given labels."""

    @property
    def labels(self) -> Labels:
        """``(N,)`` int64, as they came with the data: clean or noisy."""
        ...

    @property
    def names(self) -> Sequence[str] | None:
        """What to call each sample (a file path), where it has a name."""
        ...

    def __len__(self) -> int: ...

    def views(
        self, index: Tensor, augments: Sequence[Augment], generators: Sequence[Generator]
    ) -> tuple[Tensor, ...]:
        """Return one float tensor per augmentation for the samples at ``index``."""
        ...

    def raw(self, index: Tensor) -> Tensor:
        """Return the samples as stored: uint8 ``(B, C, H, W)`` or float ``(B, ...)``."""
        ...


class TensorSplit:
    """Samples in memory.

    Args:
        data: Images as uint8 ``(N, C, H, W)``, features as float32 ``(N, D)``, or the token ids of
            texts as int64 ``(N, length)``.
        labels: ``(N,)`` class numbers.
        names: What to call each sample.
        texts: What to show of each sample: its text, or its row of the table.
    """

    def __init__(
        self,
        data: Tensor,
        labels: Labels,
        names: Sequence[str] | None = None,
        texts: Sequence[str] | None = None,
    ):
        if len(data) != len(labels):
            raise DataError(f"{len(data)} samples but {len(labels)} labels")
        images = data.dtype == torch.uint8 and data.ndim == 4
        tokens = data.dtype == torch.int64 and data.ndim == 2
        if not images and not tokens and not data.is_floating_point():
            raise DataError(
                f"samples must be uint8 images (N, C, H, W), float features or int64 tokens, "
                f"got {data.dtype} of shape {tuple(data.shape)}"
            )
        self.data = data.contiguous()
        self.labels = np.asarray(labels, dtype=np.int64)
        self.names = names
        self.texts = texts

    def __len__(self) -> int:
        return len(self.data)

    def views(
        self, index: Tensor, augments: Sequence[Augment], generators: Sequence[Generator]
    ) -> tuple[Tensor, ...]:
        """Return one view per augmentation."""
        batch = self.data.index_select(0, index)
        return tuple(a(batch, g) for a, g in zip(augments, generators, strict=True))

    def raw(self, index: Tensor) -> Tensor:
        """Return the samples as stored."""
        return self.data[index]


class SparseSplit:
    """Features of which most are 0, kept as a sparse matrix; only a batch of them is made dense.

    Args:
        matrix: Any matrix of scipy, ``(N, D)``.
        labels: ``(N,)`` class numbers.
        names: What to call each sample.
        texts: What to show of each sample.
    """

    def __init__(
        self,
        matrix: Any,
        labels: Labels,
        names: Sequence[str] | None = None,
        texts: Sequence[str] | None = None,
    ):
        rows = matrix.tocsr()
        if rows.shape[0] != len(labels):
            raise DataError(f"{rows.shape[0]} samples but {len(labels)} labels")
        self._starts = rows.indptr.astype(np.int64)
        self._columns = rows.indices.astype(np.int64)
        self._values = rows.data.astype(np.float32)
        self.width = int(rows.shape[1])
        self.labels = np.asarray(labels, dtype=np.int64)
        self.names = names
        self.texts = texts

    def __len__(self) -> int:
        return len(self.labels)

    def views(
        self, index: Tensor, augments: Sequence[Augment], generators: Sequence[Generator]
    ) -> tuple[Tensor, ...]:
        """Return one view per augmentation."""
        batch = self.raw(index)
        return tuple(a(batch, g) for a, g in zip(augments, generators, strict=True))

    def raw(self, index: Tensor) -> Tensor:
        """Return the samples as dense float32."""
        places = index.numpy()
        starts = self._starts[places]
        lengths = self._starts[places + 1] - starts
        rows = np.repeat(np.arange(len(places)), lengths)
        first = np.repeat(np.cumsum(lengths) - lengths, lengths)
        entries = np.repeat(starts, lengths) + np.arange(len(rows)) - first
        dense = np.zeros((len(places), self.width), dtype=np.float32)
        # Entries of one place add up, as scipy defines it.
        np.add.at(dense, (rows, self._columns[entries]), self._values[entries])
        return torch.from_numpy(dense)


class _Images:
    """What image splits share: each image is fitted to one size when it is read."""

    labels: Labels
    size: int

    def __len__(self) -> int:
        return len(self.labels)

    def _image(self, position: int) -> Image:
        raise NotImplementedError

    def views(
        self, index: Tensor, augments: Sequence[Augment], generators: Sequence[Generator]
    ) -> tuple[Tensor, ...]:
        """Decode each image once and return one view per augmentation."""
        images = [self._image(position) for position in index.tolist()]
        return tuple(
            a(torch.stack([a.fit(image, g) for image in images]), g)
            for a, g in zip(augments, generators, strict=True)
        )

    def raw(self, index: Tensor) -> Tensor:
        """Return the images as uint8, scaled and cropped in the centre."""
        fit, unused = Fit(self.size), torch.Generator()
        images = [self._image(position) for position in index.tolist()]
        return torch.stack([fit(image, unused) for image in images])


class FileSplit(_Images):
    """Samples in image files, decoded when they are read.

    Args:
        paths: One file per sample.
        labels: ``(N,)`` class numbers.
        size: Height and width of the images that :meth:`raw` returns.
        root: Names of samples are given relative to this folder.
    """

    def __init__(
        self, paths: Sequence[Path], labels: Labels, *, size: int, root: Path | None = None
    ):
        if len(paths) != len(labels):
            raise DataError(f"{len(paths)} files but {len(labels)} labels")
        # Bytes in one array: a million Path objects would be copied into every worker.
        self._paths = np.array([os.fsencode(path) for path in paths])
        self.labels = np.asarray(labels, dtype=np.int64)
        self.size = size
        self.root = root

    @property
    def paths(self) -> list[Path]:
        """The files, in the order of the samples."""
        return [self.path(position) for position in range(len(self))]

    @cached_property
    def names(self) -> Sequence[str]:
        """The files relative to the root."""
        return [relative_name(path, self.root) for path in self.paths]

    def path(self, position: int) -> Path:
        """Return the file of a sample."""
        return Path(os.fsdecode(bytes(self._paths[position])))

    def _image(self, position: int) -> Image:
        return read_image(self.path(position))


class PictureSplit(_Images):
    """Pictures of any size that are in memory.

    Args:
        pictures: Arrays ``(H, W, 3)`` of uint8.
        labels: ``(N,)`` class numbers.
        size: Height and width of the images that :meth:`raw` returns.
        names: What to call each sample.
    """

    def __init__(
        self,
        pictures: Sequence[NDArray[Any]],
        labels: Labels,
        *,
        size: int,
        names: Sequence[str] | None = None,
    ):
        self.pictures = pictures
        self.labels = np.asarray(labels, dtype=np.int64)
        self.size = size
        self.names = names

    def _image(self, position: int) -> Image:
        return as_rgb(self.pictures[position], f"picture {position}")


class DatasetSplit:
    """Samples of any map-style dataset whose items start with ``(sample, label, ...)``.

    A float sample is used as it is: the dataset's own transform has made the view, and each
    view reads the dataset again. Meanwhile the global generators of torch, numpy and
    Python are seeded from the loader's stream and put back afterwards, so that random transforms
    are reproducible. A uint8 image, ``(C, H, W)`` or a Pillow one, goes through the views of the
    bundle. Integers of other types (tokens of a text) are left as they are.
    """

    def __init__(self, dataset: Any, labels: Labels, names: Sequence[str] | None = None):
        if len(dataset) != len(labels):
            raise DataError(f"{len(dataset)} samples but {len(labels)} labels")
        self.dataset = dataset
        self.labels = np.asarray(labels, dtype=np.int64)
        self.names = names

    def __len__(self) -> int:
        return len(self.labels)

    def views(
        self, index: Tensor, augments: Sequence[Augment], generators: Sequence[Generator]
    ) -> tuple[Tensor, ...]:
        """Read the dataset once per augmentation and return the views."""
        return tuple(a(self._read(index, g), g) for a, g in zip(augments, generators, strict=True))

    def raw(self, index: Tensor) -> Tensor:
        """Return the samples as the dataset gives them."""
        return self._read(index, torch.Generator().manual_seed(0))

    def _read(self, index: Tensor, generator: Generator) -> Tensor:
        with seeded_globals(generator):
            samples = [_item(self.dataset, position)[0] for position in index.tolist()]
        tensors = [_as_tensor(sample) for sample in samples]
        shapes = {tuple(tensor.shape) for tensor in tensors}
        if len(shapes) > 1:
            raise DataError(f"the samples of a dataset must have one shape, got {sorted(shapes)}")
        return torch.stack(tensors)


def dataset_labels(dataset: Any) -> NDArray[Any]:
    """Return the labels of a map-style dataset: ``targets``, ``labels``, or from its items."""
    for values in (getattr(dataset, "targets", None), getattr(dataset, "labels", None)):
        if values is not None:
            return np.asarray(values)
    return np.array([_item(dataset, position)[1] for position in range(len(dataset))])


def _item(dataset: Any, position: int) -> Any:
    item = dataset[position]
    if not isinstance(item, tuple | list) or len(item) < 2:
        raise DataError(
            f"item {position} of the dataset is a {type(item).__name__}; expected a tuple that "
            f"starts with (sample, label)"
        )
    return item


def _as_tensor(sample: Any) -> Tensor:
    if isinstance(sample, Tensor):
        return sample
    if isinstance(sample, np.ndarray):
        return torch.from_numpy(sample)
    if is_picture(sample):
        grey = sample.getbands() == ("L",)
        pixels = np.array(sample if grey else as_rgb(sample, "a picture"))
        return torch.from_numpy(np.atleast_3d(pixels)).permute(2, 0, 1)
    raise DataError(
        f"samples must be tensors, arrays or images, got {type(sample).__name__}; give the "
        f"dataset a transform that makes tensors"
    )


def positions_by_class(labels: NDArray[Any]) -> list[NDArray[np.int64]]:
    """Return the positions of each label that occurs, in the order of the labels.

    One sort, whatever the number of classes.

    Example:
        >>> [group.tolist() for group in positions_by_class(np.array([5, 0, 5]))]
        [[1], [0, 2]]
    """
    order = np.argsort(labels, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(labels[order])) + 1) if len(order) else []


def stratified_holdout(labels: Labels, fraction: float, *, seed: int = 0) -> tuple[Labels, Labels]:
    """Divide positions into (kept, held out), each class in the same proportion.

    A class with at least two samples keeps one and holds out at least one.

    Args:
        labels: ``(N,)`` class numbers.
        fraction: The part of each class to hold out, in (0, 1).
        seed: Which of the possible divisions.

    Example:
        >>> kept, held = stratified_holdout(np.array([0, 0, 0, 0, 1, 1]), 0.5)
        >>> len(kept), sorted(np.array([0, 0, 0, 0, 1, 1])[held].tolist())
        (3, [0, 0, 1])
    """
    if not 0.0 < fraction < 1.0:
        raise DataError(f"the held-out fraction must lie between 0 and 1, got {fraction!r}")
    held: list[Labels] = []
    for members in positions_by_class(labels):
        if len(members) > 1:
            count = min(max(round(fraction * len(members)), 1), len(members) - 1)
            stream = numpy_stream(seed, int(labels[members[0]]))
            held.append(stream.permutation(members)[:count])
    chosen = np.sort(np.concatenate(held)) if held else np.empty(0, dtype=np.int64)
    return np.setdiff1d(np.arange(len(labels)), chosen), chosen


def relative_name(path: Path, root: Path | None) -> str:
    """Return the path below ``root``, or the whole path where it is not there."""
    return path.relative_to(root).as_posix() if root and path.is_relative_to(root) else str(path)
