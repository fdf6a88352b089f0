"""Networks in ``eval()`` mode, and back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn

__all__ = ["eval_mode"]


@contextmanager
def eval_mode(*nets: nn.Module) -> Iterator[None]:
    """Put networks in ``eval()`` mode inside the block; every module gets its own mode back.

    Example:
        >>> net = nn.Sequential(nn.Dropout(), nn.Dropout().eval())
        >>> with eval_mode(net):
        ...     print([layer.training for layer in net])
        [False, False]
        >>> [layer.training for layer in net]
        [True, False]
    """
    modes = [(module, module.training) for net in nets for module in net.modules()]
    for net in nets:
        net.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training
