"""One look at many samples: scoring, testing and recording all go through here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from edgemask.data import Batch, DataBundle, Loader, Split
from edgemask.data.loader import iterate
from edgemask.engine.processes import Processes

__all__ = ["eval_mode", "move", "over_samples"]


def move(batch: Batch, device: torch.device) -> Batch:
    """Put a batch where the networks are; the index goes along."""
    if device.type == "cpu":
        return batch
    index, views, target = batch
    there = tuple(view.to(device, non_blocking=True) for view in views)
    return Batch(index.to(device), there, target.to(device))


@contextmanager
def eval_mode(nets: Mapping[str, nn.Module]) -> Iterator[None]:
    """Put networks in ``eval()`` without gradient, and each part back in its mode afterwards."""
    modes = [(module, module.training) for net in nets.values() for module in net.modules()]
    try:
        for net in nets.values():
            net.eval()
        with torch.no_grad():
            yield
    finally:
        for module, training in modes:
            module.training = training


def over_samples(
    function: Callable[[Batch], Mapping[str, Tensor]],
    split: Split,
    *,
    bundle: DataBundle,
    processes: Processes,
    nets: Mapping[str, nn.Module],
    targets: Any = None,
    views: Sequence[str] = ("none",),
    indices: Tensor | None = None,
    batch_size: int = 128,
    workers: int = 0,
    seed: int = 0,
) -> dict[str, Tensor]:
    """Call a function on every sample once, shared out over the processes.

    Args:
        function: Takes a batch, returns tensors with one row a sample.
        split: The samples.
        bundle: The dataset they belong to.
        processes: The processes that share the work.
        nets: Networks to hold in ``eval()`` meanwhile.
        targets: Labels instead of the split's own.
        views: The augmentations.
        indices: Which samples; None means all.
        batch_size: Samples of one call.
        workers: Processes that read ahead.
        seed: Seed of random views.

    Returns:
        Tensors on the CPU with one row a sample of the split, at its index, the same in all
        processes; zero where ``indices`` left a sample out.
    """
    loader = Loader(
        split,
        targets,
        bundle=bundle,
        views=tuple(views),
        batch_size=batch_size,
        shuffle=False,
        seed=seed,
        indices=indices,
        rank=processes.rank,
        world_size=processes.count,
        workers=workers,
    )
    rows: dict[str, list[Tensor]] = {}
    places: list[Tensor] = []
    with ExitStack() as stack:
        stack.enter_context(eval_mode(nets))
        stack.enter_context(processes.accelerator.autocast())
        for batch in iterate(loader.batch, range(len(loader)), workers):
            places.append(batch.index)
            for name, values in function(move(batch, processes.device)).items():
                rows.setdefault(name, []).append(values.detach().cpu())
    place = processes.gather(torch.cat(places) if places else torch.empty(0, dtype=torch.long))
    result: dict[str, Tensor] = {}
    for name in processes.collect(sorted(rows))[0]:
        mine = torch.cat(rows[name]) if name in rows else None
        parts = [part for part in processes.collect(mine) if part is not None]
        joined = torch.cat(parts)
        table = joined.new_zeros(len(split), *joined.shape[1:])
        table[place] = joined
        result[name] = table
    return result
