"""Momentum copies: networks that follow another one slowly."""

from __future__ import annotations

import torch
from torch import nn

__all__ = ["follow"]


@torch.no_grad()
def follow(average: nn.Module, source: nn.Module, momentum: float) -> None:
    """Move a copy a little towards its source: ``w <- m w + (1 - m) w_source``.

    Buffers (running statistics, scores of a head) are copied, so that the average can be used in
    ``eval()`` mode; the released codes of Jo-SRC and Jo-SNC leave them as they were at the start.

    Args:
        average: The copy, with parts of the same names.
        source: The network that learns.
        momentum: The share m that stays.

    Example:
        >>> slow, fast = nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False)
        >>> _ = nn.init.zeros_(slow.weight), nn.init.ones_(fast.weight)
        >>> follow(slow, fast, 0.75)
        >>> slow.weight.item()
        0.25
    """
    theirs = dict(source.named_parameters())
    for name, weight in average.named_parameters():
        weight.lerp_(theirs[name].to(weight.dtype), 1.0 - momentum)
    statistics = dict(source.named_buffers())
    for name, buffer in average.named_buffers():
        buffer.copy_(statistics[name])
