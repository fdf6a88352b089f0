"""What a head costs: parameters, operations and time (Table S5)."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

import torch
from torch import Tensor, nn

from edgemask.diagnostics.modes import eval_mode

__all__ = ["Latency", "count_flops", "count_parameters", "latency"]


def count_parameters(model: nn.Module) -> int:
    """Return the number of trainable parameters."""
    return sum(p.numel() for p in model.parameters() if p.requires_grad)


@torch.no_grad()
def count_flops(model: nn.Module, input_shape: Sequence[int]) -> int:
    """Return the floating-point operations of one prediction for one sample.

    Convolutions and matrix products count, at **two operations per multiply-add**; normalisation,
    activations, pooling and biases do not. Half of it is the number of multiply-adds, which many
    papers call FLOPs too.

    Args:
        model: The network; it is put in ``eval()`` for the count.
        input_shape: The shape of one sample.

    Example:
        >>> count_flops(nn.Linear(10, 3), (10,))
        60
    """
    from torch.utils.flop_counter import FlopCounterMode

    device = next((p.device for p in model.parameters()), torch.device("cpu"))
    with eval_mode(model), FlopCounterMode(display=False) as counter:
        model(torch.zeros(1, *input_shape, device=device))
    return int(counter.get_total_flops())


@dataclass(frozen=True)
class Latency:
    """Times of two models, measured side by side."""

    milliseconds: float
    """Median time of a pass of the model."""

    plain_milliseconds: float
    """Median time of a pass of the plain one."""

    ratio: float
    """Median over the rounds of the first by the second: what may be quoted; times may not."""


def latency(
    model: nn.Module,
    plain: nn.Module,
    x: Tensor,
    *,
    rounds: int = 20,
    run: Callable[[nn.Module, Tensor], object] | None = None,
) -> Latency:
    """Time a model against a plain one, in turns, so that a busy machine slows both alike.

    Args:
        model: The model with a special head.
        plain: The model it is compared with.
        x: A batch.
        rounds: Turns, after one that warms up.
        run: What is timed, ``run(model, x)``; None is a prediction (``eval()``, no gradient).
    """
    act = run or _predict
    pairs = []
    for turn in range(rounds + 1):
        times = []
        for net in (model, plain):
            begin = time.perf_counter()
            act(net, x)
            times.append(time.perf_counter() - begin)
        if turn:
            pairs.append(times)
    return Latency(
        milliseconds=1e3 * median(first for first, _ in pairs),
        plain_milliseconds=1e3 * median(second for _, second in pairs),
        ratio=median(first / second for first, second in pairs),
    )


def _predict(net: nn.Module, x: Tensor) -> Tensor:
    net.eval()
    with torch.inference_mode():
        logits: Tensor = net(x)
    return logits
