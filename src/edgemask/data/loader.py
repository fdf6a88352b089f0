"""Loaders: batches that carry the sample index, and epochs that can be taken up anywhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from edgemask.data._checks import check_indices, check_targets, weight_table
from edgemask.data._random import torch_stream
from edgemask.data.bundle import DataBundle
from edgemask.data.splits import Split
from edgemask.data.views import Augment, build
from edgemask.errors import DataError

__all__ = ["Batch", "Loader", "iterate"]

T = TypeVar("T")


class Batch(NamedTuple):
    """What a loader yields."""

    index: Tensor  # type: ignore[assignment]
    """``(B,)`` int64: the stable positions of the samples in their split."""
    views: tuple[Tensor, ...]
    """One float tensor ``(B, ...)`` per view asked for."""
    target: Tensor
    """``(B,)`` class numbers or ``(B, C)`` soft targets, as given to the loader."""


class Loader:
    """Iterates over a split in batches.

    All that is random (order, views) is drawn from streams named by seed, epoch and batch, so an
    epoch can be taken up at any batch, bit for bit, with any number of workers.

    Under data-parallel training ``batch_size`` is that of one rank. The ranks share one order: a
    step takes the next ``batch_size * world_size`` samples of it, and each rank a contiguous part.
    No sample is repeated, so metrics are not biased. When shuffling, all ranks have equally many
    batches and the parts differ by at most one sample; a remainder of less than two samples per
    rank joins the batch before it, since batch normalisation cannot work on one; fewer samples
    than ranks make no batch at all. Without shuffling the last batch may be missing on some ranks.
    Views are drawn per rank.

    Args:
        split: Where the samples are.
        targets: ``(N,)`` class numbers or ``(N, C)`` soft targets for the whole split; its own
            labels otherwise. How they were made is not the loader's business.
        bundle: The dataset, to build named views and to check targets.
        views: Names of views (``none``, ``weak``, ``strong``) or augmentations of your own.
        batch_size: Samples per batch and rank.
        shuffle: Draw a new order every epoch; without it samples come in the order given.
        seed: Names the random streams.
        drop_last: Leave out the last batch when it is smaller than the others and not the only one.
        indices: Positions to iterate over: an array, or a function of the epoch that returns one
            (:class:`~edgemask.data.BalancedSubset`). All of them otherwise.
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
    ):
        if batch_size < 1 or workers < 0 or not 0 <= rank < world_size:
            raise ValueError(
                f"expected batch_size >= 1, workers >= 0 and 0 <= rank < world_size, got "
                f"batch_size={batch_size}, workers={workers}, rank={rank}, world_size={world_size}"
            )
        self.split = split
        self.targets = check_targets(
            split.labels if targets is None else targets, len(split), bundle
        )
        self.views = tuple(_augment(view, bundle) for view in views)
        self.batch_size, self.shuffle, self.seed = batch_size, shuffle, seed
        self.drop_last, self.rank, self.world_size = drop_last, rank, world_size
        self.workers = workers
        self._subset: Callable[[int], NDArray[Any]] | None = indices if callable(indices) else None
        fixed = np.arange(len(split)) if indices is None or callable(indices) else indices
        self._indices = check_indices(fixed, len(split))
        self._weights = weight_table(weights, self._indices, len(split))
        self.epoch = 0
        self._position = 0
        self._resume: int | None = None
        self._drawn: tuple[int, NDArray[np.int64]] | None = None
        self._order: tuple[tuple[int, int], Tensor] | None = None

    def __len__(self) -> int:
        """The number of batches of this epoch on this rank."""
        count = len(self._epoch_indices(self.epoch))
        if self.shuffle and count < self.world_size:
            return 0
        full, rest = divmod(count, self.batch_size * self.world_size)
        if not rest or (self.drop_last and full):
            return full
        if not self.shuffle:
            return full + int(rest > self.rank)
        return full if full and rest < 2 * self.world_size else full + 1

    @property
    def num_samples(self) -> int:
        """The number of samples of this epoch, over all ranks, before any is dropped."""
        return len(self._epoch_indices(self.epoch))

    def set_epoch(self, epoch: int) -> None:
        """Name the epoch; the next iteration starts at its first batch.

        After :meth:`load_state_dict`, naming the restored epoch keeps the restored position.
        """
        if epoch < 0:
            raise ValueError(f"epoch must not be negative, got {epoch}")
        if epoch != self.epoch:
            self.epoch, self._resume = epoch, None
            self._position = 0

    def weight(self, index: Tensor) -> Tensor:
        """Return the weights of the samples at ``index`` (float32), 1 where none were given."""
        if self._weights is None:
            return torch.ones(len(index))
        return self._weights[index.cpu()]

    def state_dict(self) -> dict[str, int]:
        """Return the place in the epoch: the batches handed out so far."""
        return {"epoch": self.epoch, "batch": self._position, **self._identity(self.epoch)}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Go on after the batches that had been handed out when the state was taken."""
        mine = self._identity(state["epoch"])
        wrong = [f"{k} was {state.get(k)}, is {v}" for k, v in mine.items() if state.get(k) != v]
        if wrong:
            raise DataError(f"the loader's state belongs to another loader: {'; '.join(wrong)}")
        self.epoch = state["epoch"]
        self._position = self._resume = state["batch"]

    def _identity(self, epoch: int) -> dict[str, int]:
        return {
            "seed": self.seed,
            "batch_size": self.batch_size,
            "world_size": self.world_size,
            "samples": len(self._epoch_indices(epoch)),
        }

    def __iter__(self) -> Iterator[Batch]:
        start, self._resume = self._resume or 0, None
        self._position = start
        for batch in iterate(self.batch, range(start, len(self)), self.workers):
            self._position += 1
            yield batch

    def batch(self, position: int, *, cycle: int = 0) -> Batch:
        """Return one batch of the epoch; ``cycle`` counts repeated passes within it."""
        index = self._share(position, cycle)
        key = (self.seed, self.epoch, cycle, position, self.rank)
        generators = [torch_stream(*key, 1 + number) for number in range(len(self.views))]
        return Batch(index, self.split.views(index, self.views, generators), self.targets[index])

    def _share(self, position: int, cycle: int) -> Tensor:
        """Return the positions of the samples that this rank sees in a step."""
        order = self._epoch_order(cycle)
        joined = self.batch_size * self.world_size
        stop = (position + 1) * joined
        if self.shuffle and 0 < len(order) - stop < min(joined, 2 * self.world_size):
            stop = stop if self.drop_last else len(order)
        step = order[position * joined : stop]
        return step.tensor_split(self.world_size)[self.rank]

    def _epoch_indices(self, epoch: int) -> NDArray[np.int64]:
        if self._subset is None:
            return self._indices
        if self._drawn is None or self._drawn[0] != epoch:
            self._drawn = (epoch, check_indices(self._subset(epoch), len(self.split)))
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
