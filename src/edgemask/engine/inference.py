"""Forward passes over many samples without gradient: scoring, testing and recording."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from edgemask.data import Batch, DataBundle, Loader, Split
from edgemask.data.loader import iterate
from edgemask.diagnostics.modes import eval_mode
from edgemask.engine.processes import Processes

__all__ = ["move", "over_samples"]


def move(batch: Batch, device: torch.device) -> Batch:
    """Copy a batch to a device, index included, without waiting for the copy."""
    if device.type == "cpu":
        return batch
    index, views, target = batch
    return Batch(
        index.to(device, non_blocking=True),
        tuple(view.to(device, non_blocking=True) for view in views),
        target.to(device, non_blocking=True),
    )


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
    epoch: int = 0,
    whole: bool = True,
) -> dict[str, Tensor]:
    """Call a function on every sample once, shared out over the processes.

    Args:
        function: Takes a batch, returns tensors with one row per sample.
        split: The samples.
        bundle: The dataset they belong to.
        processes: The processes that share the work.
        nets: Networks to put in ``eval()`` mode meanwhile.
        targets: Labels instead of the split's own.
        views: The augmentations.
        indices: Which samples; None means all.
        batch_size: Samples per call.
        workers: Processes that read ahead.
        seed: Seed of random views.
        epoch: Names their draws, too.
        whole: Whether there is a row for every sample of the split, or for those of ``indices``.

    Returns:
        Tensors on the CPU, the same in all processes: one row per sample of the split, at its
        index, zero for samples outside ``indices``; or one for each of ``indices``, in order.
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
    loader.set_epoch(epoch)
    rows: dict[str, list[Tensor]] = {}
    indices_seen: list[Tensor] = []
    with eval_mode(*nets.values()), torch.no_grad(), processes.accelerator.autocast():
        for batch in iterate(loader.batch, range(len(loader)), workers):
            indices_seen.append(batch.index)
            for name, values in function(move(batch, processes.device)).items():
                rows.setdefault(name, []).append(values.detach().cpu())
    mine = torch.cat(indices_seen) if indices_seen else torch.empty(0, dtype=torch.long)
    positions = processes.gather(mine)
    result: dict[str, Tensor] = {}
    for name in processes.collect(sorted(rows))[0]:
        own = torch.cat(rows[name]) if name in rows else None
        joined = torch.cat([part for part in processes.collect(own) if part is not None])
        if whole or indices is None:
            table = joined.new_zeros(len(split), *joined.shape[1:])
            table[positions] = joined
            result[name] = table
        else:
            rows_at = positions.new_empty(len(split))
            rows_at[positions] = torch.arange(len(positions))
            result[name] = joined[rows_at[indices.cpu()]]
    return result
