"""Loaders: batches that carry the sample index, and epochs that resume at any batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from edgemask._random import torch_stream
from edgemask.data.bundle import DataBundle
from edgemask.data.splits import Split
from edgemask.data.views import Augment, build
from edgemask.errors import DataError, UserError

__all__ = ["Batch", "Loader", "iterate"]

T = TypeVar("T")


class Batch(NamedTuple):
    """What a loader yields."""

    index: Tensor  # type: ignore[assignment]
    """``(B,)`` int64: the stable positions of the samples in their split."""
    views: tuple[Tensor, ...]
    """One float tensor ``(B, ...)`` per view."""
    target: Tensor
    """``(B,)`` class numbers or ``(B, C)`` soft targets, as given to the loader."""


class Loader:
    """Iterates over a split in batches.

    All that is random (order, views) is drawn from streams named by seed, epoch and batch, so an
    epoch resumes at any batch, bit for bit, with any number of workers (:meth:`batches`).

    Under data-parallel training ``batch_size`` is that of one rank. The ranks share one order: a
    step takes the next ``batch_size * world_size`` samples of it, and each rank a contiguous part.
    No sample is repeated that ``indices`` does not repeat, so metrics are not biased. When
    shuffling, all ranks have equally many batches and the parts differ by at most one sample; a
    remainder of less than ``least_rows`` samples per rank, or of a single one, joins the batch
    before it, since batch normalisation cannot work on one; fewer samples than ranks make no batch
    at all. Without shuffling the last batch may be missing on some ranks.
    Views are drawn per rank.

    Args:
        split: Where the samples are.
        targets: ``(N,)`` class numbers or ``(N, C)`` soft targets for the whole split; its own
            labels otherwise. How they were made is not the loader's business.
        bundle: The dataset, to build named views and to check targets.
        views: Names of views (``none``, ``weak``, ``strong``) or augmentations of your own.
        batch_size: Samples per batch and rank.
        step_samples: Samples of a step over all ranks, where it is not ``batch_size`` times their
            number; the parts of the ranks then differ by one.
        least_rows: Samples that each rank must have in a batch.
        shuffle: Draw a new order every epoch; without it samples come in the order given.
        seed: Names the random streams.
        drop_last: Leave out the last batch when it is smaller than the others and not the only one.
        indices: Positions to iterate over: an array, or a function of the epoch that returns one
            (:class:`~edgemask.data.BalancedSubset`). All of them otherwise. Positions may repeat.
        weights: One weight for each of ``indices``, to be had from :meth:`weight`.
        rank: Which of the parallel processes this is.
        world_size: How many there are.
        workers: Processes that prepare batches ahead; 0 works in this one.

    Example:
        >>> from edgemask.data import Loader, load
        >>> digits = load("digits")
        >>> loader = Loader(digits.train, bundle=digits, views=("weak", "strong"), batch_size=32)
        >>> batch = next(iter(loader))
        >>> batch.index.shape, [tuple(view.shape) for view in batch.views]
        (torch.Size([32]), [(32, 1, 8, 8), (32, 1, 8, 8)])
    """

    def __init__(
        self,
        split: Split,
        targets: NDArray[Any] | Tensor | None = None,
        *,
        bundle: DataBundle | None = None,
        views: Sequence[str | Augment] = ("weak",),
        batch_size: int,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
        indices: NDArray[Any]
        | Tensor
        | Sequence[int]
        | Callable[[int], NDArray[Any]]
        | None = None,
        weights: NDArray[Any] | Tensor | Sequence[float] | None = None,
        rank: int = 0,
        world_size: int = 1,
        workers: int = 0,
        step_samples: int | None = None,
        least_rows: int = 2,
    ):
        if batch_size < 1 or workers < 0 or not 0 <= rank < world_size:
            raise ValueError(
                f"expected batch_size >= 1, workers >= 0 and 0 <= rank < world_size, got "
                f"batch_size={batch_size}, workers={workers}, rank={rank}, world_size={world_size}"
            )
        self.split = split
        self.targets = _check_targets(
            split.labels if targets is None else targets, len(split), bundle
        )
        self.views = tuple(_augment(view, bundle) for view in views)
        self.batch_size, self.shuffle, self.seed = batch_size, shuffle, seed
        self.drop_last, self.rank, self.world_size = drop_last, rank, world_size
        self.workers = workers
        self._joined = step_samples or batch_size * world_size
        self._least = max(2, least_rows * world_size)
        self._subset: Callable[[int], NDArray[Any]] | None = indices if callable(indices) else None
        fixed = np.arange(len(split)) if indices is None or callable(indices) else indices
        self._indices = _check_indices(fixed, len(split))
        self._weights = _weight_table(weights, self._indices, len(split))
        self.epoch = 0
        self._drawn: tuple[int, NDArray[np.int64]] | None = None
        self._order: tuple[tuple[int, int], Tensor] | None = None

    def __len__(self) -> int:
        """The number of batches of this epoch on this rank."""
        count = len(self._epoch_indices(self.epoch))
        if self.shuffle and count < self.world_size:
            return 0
        full, rest = divmod(count, self._joined)
        if not rest or (self.drop_last and full):
            return full
        if not self.shuffle:
            return full + int(rest > self.rank)
        return full if full and rest < self._least else full + 1

    @property
    def num_samples(self) -> int:
        """The number of samples of this epoch, over all ranks, before any is dropped."""
        return len(self._epoch_indices(self.epoch))

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch, which names the random streams of order and views."""
        if epoch < 0:
            raise ValueError(f"epoch must not be negative, got {epoch}")
        self.epoch = epoch

    def weight(self, index: Tensor) -> Tensor:
        """Return the weights of the samples at ``index`` (float32), 1 where none were given."""
        if self._weights is None:
            return torch.ones(len(index))
        return self._weights[index.cpu()]

    def __iter__(self) -> Iterator[Batch]:
        return self.batches()

    def batches(self, start: int = 0) -> Iterator[Batch]:
        """Yield the batches of the epoch from number ``start`` on, to resume one bit for bit."""
        return iterate(self.batch, range(start, len(self)), self.workers)

    def state_dict(self) -> dict[str, int]:
        """Refuse: count the batches instead and continue with :meth:`batches`."""
        raise UserError(
            "a loader has no state: count the batches of the epoch that are done, and continue "
            "with set_epoch(epoch) and batches(start)"
        )

    def batch(self, position: int, *, cycle: int = 0) -> Batch:
        """Return one batch of the epoch; ``cycle`` counts repeated passes within it."""
        index = self._step(position, cycle).tensor_split(self.world_size)[self.rank]
        key = (self.seed, self.epoch, cycle, position, self.rank)
        generators = [torch_stream(*key, 1 + number) for number in range(len(self.views))]
        return Batch(index, self.split.views(index, self.views, generators), self.targets[index])

    def step_size(self, position: int, *, cycle: int = 0) -> int:
        """Return the number of samples of a step over all ranks."""
        return len(self._step(position, cycle))

    def _step(self, position: int, cycle: int) -> Tensor:
        """Return the positions of the samples of a step, over all ranks."""
        order = self._epoch_order(cycle)
        joined = self._joined
        stop = (position + 1) * joined
        if self.shuffle and 0 < len(order) - stop < min(joined, self._least):
            stop = stop if self.drop_last else len(order)
        return order[position * joined : stop]

    def _epoch_indices(self, epoch: int) -> NDArray[np.int64]:
        if self._subset is None:
            return self._indices
        if self._drawn is None or self._drawn[0] != epoch:
            self._drawn = (epoch, _check_indices(self._subset(epoch), len(self.split)))
        return self._drawn[1]

    def _epoch_order(self, cycle: int) -> Tensor:
        key = (self.epoch, cycle)
        if self._order is None or self._order[0] != key:
            order = torch.from_numpy(self._epoch_indices(self.epoch))
            if self.shuffle:
                stream = torch_stream(self.seed, self.epoch, cycle)
                order = order[torch.randperm(len(order), generator=stream)]
            self._order = (key, order)
        return self._order[1]


class _Source(torch.utils.data.Dataset[Any]):
    """A batch per number, for a ``DataLoader``; a data error travels back as a value."""

    def __init__(self, make: Callable[[int], Any]):
        self.make = make

    def __getitem__(self, position: int) -> Any:
        try:
            return self.make(position)
        except DataError as error:
            return error


def _unchanged(item: T) -> T:
    return item


def iterate(make: Callable[[int], T], positions: range, workers: int) -> Iterator[T]:
    """Yield ``make(position)`` for each position, prepared ahead if there are workers."""
    if not workers:
        yield from map(make, positions)
        return
    # The generator keeps DataLoader from drawing from torch's global one.
    ahead: Any = torch.utils.data.DataLoader(
        _Source(make),
        batch_size=None,
        sampler=positions,
        num_workers=workers,
        collate_fn=_unchanged,
        generator=torch.Generator(),
    )
    for item in ahead:
        if isinstance(item, DataError):
            raise item
        yield item


def _augment(view: str | Augment, bundle: DataBundle | None) -> Augment:
    if not isinstance(view, str):
        return view
    if bundle is None:
        raise ValueError(f"the view {view!r} is given by name: pass bundle= as well")
    return build(bundle, view)


def _check_targets(targets: NDArray[Any] | Tensor, count: int, bundle: DataBundle | None) -> Tensor:
    """Return targets as a tensor: long class numbers in range, or float distributions."""
    values = targets.cpu() if isinstance(targets, Tensor) else torch.from_numpy(np.array(targets))
    if len(values) != count or values.ndim not in (1, 2):
        raise DataError(
            f"targets must be (N,) class numbers or (N, C) soft targets with N = {count}, "
            f"got shape {tuple(values.shape)}"
        )
    if values.ndim == 2:
        return values.float()
    if values.is_floating_point():
        raise DataError(f"targets of one dimension must be integers, got {values.dtype}")
    values = values.long()
    if bundle is not None and count:
        wrong = ((values < 0) | (values >= bundle.num_classes)).nonzero().flatten()
        if len(wrong):
            place = int(wrong[0])
            raise DataError(
                f"target {int(values[place])} of sample {place} is out of range 0.."
                f"{bundle.num_classes - 1} ({len(wrong)} such targets); an open-set dataset needs "
                f"its noise first"
            )
    return values


def _check_indices(indices: Any, count: int) -> NDArray[np.int64]:
    """Return positions as an int64 array, all of them in the split."""
    values = np.asarray(indices)
    if values.size == 0:
        return np.empty(0, dtype=np.int64)
    if values.ndim != 1 or values.dtype.kind not in "iu":
        raise DataError(f"indices must be a list of integers, got {values.dtype} {values.shape}")
    if values.min() < 0 or values.max() >= count:
        raise DataError(f"indices must lie in 0..{count - 1}, got {values.min()}..{values.max()}")
    return values.astype(np.int64)


def _weight_table(weights: Any, indices: NDArray[np.int64], count: int) -> Tensor | None:
    """Return a weight for every sample of the split, 1 for those not in ``indices``."""
    if weights is None:
        return None
    values = torch.as_tensor(weights, dtype=torch.float32)
    if values.shape != indices.shape:
        raise DataError(f"{len(indices)} indices but weights of shape {tuple(values.shape)}")
    table = torch.ones(count)
    table[torch.from_numpy(indices)] = values
    return table
