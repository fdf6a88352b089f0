"""The batches of a phase: its loaders in step, and micro-batches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from torch import Tensor

from edgemask._random import stream
from edgemask.data import Batch, Loader
from edgemask.data.loader import iterate
from edgemask.engine.config import Config
from edgemask.engine.processes import Processes
from edgemask.engine.run_data import RunData
from edgemask.errors import UserError
from edgemask.methods import Phase

__all__ = ["Feeds", "split_batch"]


class Feeds:
    """The loaders of a phase; those that run out start again.

    The length is ``phase.steps`` or that of the first loader.

    Args:
        phase: The phase.
        data: Data and labels.
        config: Batch size, seed and workers.
        processes: The processes that share a batch.
        epoch: The epoch, from 0.
        number: Which phase of the epoch it is, from 0.
        least_rows: Samples that each process must have in a batch.
    """

    def __init__(
        self,
        phase: Phase,
        data: RunData,
        config: Config,
        processes: Processes,
        *,
        epoch: int,
        number: int,
        least_rows: int = 2,
    ):
        self.workers = config.data.workers
        self.loaders: dict[str, Loader] = {}
        for place, (name, feed) in enumerate(phase.feeds.items()):
            size = feed.batch_size or config.train.batch_size
            if config.train.batch_size % processes.count or size < processes.count:
                raise UserError(
                    f"a batch of {config.train.batch_size} samples cannot be shared evenly by "
                    f"{processes.count} processes; choose a multiple"
                )
            loader = Loader(
                data.train,
                data.given,
                bundle=data.bundle,
                views=feed.views,
                batch_size=size // processes.count,
                step_samples=size,
                least_rows=least_rows,
                shuffle=feed.shuffle,
                seed=stream("order", config.train.seed, number, place),
                drop_last=feed.drop_last,
                indices=None if feed.indices is None else feed.indices.cpu(),
                rank=processes.rank,
                world_size=processes.count,
            )
            loader.set_epoch(epoch)
            if len(loader) or not place:
                self.loaders[name] = loader
        self.first = next(iter(self.loaders.values()))
        self._steps = phase.steps

    def __len__(self) -> int:
        length = len(self.first)
        return length if self._steps is None or not length else self._steps

    def batches(self, start: int) -> Iterator[dict[str, Batch]]:
        """Yield one batch of each loader for every step from ``start`` on."""
        yield from iterate(self._at, range(start, len(self)), self.workers)

    def step_size(self, position: int) -> int:
        """Return how many samples of the first loader all processes see in a step."""
        cycle, place = divmod(position, len(self.first))
        return self.first.step_size(place, cycle=cycle)

    def _at(self, position: int) -> dict[str, Batch]:
        batch = {}
        for name, loader in self.loaders.items():
            cycle, place = divmod(position, len(loader))
            batch[name] = loader.batch(place, cycle=cycle)
        return batch


def split_batch(batch: Mapping[str, Batch], parts: int) -> list[dict[str, Batch]]:
    """Split each batch of a step into micro-batches."""
    if parts == 1:
        return [dict(batch)]
    cut = {name: _cut(part, parts) for name, part in batch.items()}
    first = next(iter(cut))
    return [
        {name: pieces[number] for name, pieces in cut.items()}
        for number in range(parts)
        if len(cut[first][number].index)
    ]


def _cut(batch: Batch, parts: int) -> list[Batch]:
    def pieces(values: Tensor) -> tuple[Tensor, ...]:
        return values.tensor_split(parts)

    views = [pieces(view) for view in batch.views]
    return [
        Batch(index, tuple(view[number] for view in views), target)
        for number, (index, target) in enumerate(
            zip(pieces(batch.index), pieces(batch.target), strict=True)
        )
    ]
