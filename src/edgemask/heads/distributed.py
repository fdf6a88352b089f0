"""Sums over all ranks of a distributed job."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor

__all__ = ["is_distributed", "mean_over_ranks"]


def is_distributed() -> bool:
    """Whether this process trains together with others."""
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


def mean_over_ranks(total: Tensor, count: int) -> Tensor:
    """Divide a sum over samples by their number, over all ranks.

    One all-reduce of the sum's entries and the count: exact for ranks with unequal batches, and a
    rank with an empty one joins all the same. With no sample at all the mean is not a number.
    """
    if is_distributed():
        packed = torch.cat([total.flatten(), total.new_full((1,), count)])
        dist.all_reduce(packed)
        return packed[:-1].view_as(total) / packed[-1]
    return total / count
