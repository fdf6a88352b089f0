"""A step of Algorithm 1 on a CPU as one native call: :mod:`edgemask.heads.sem` with numba.

One pass over the weights finds the extremes of the scores; a second one normalises, smooths, draws
random numbers and writes the mask and the kept weights. Large heads are divided among as many
threads as torch uses. It needs the extra ``fast`` and can be switched off by the environment
variable ``EDGEMASK_NATIVE=0``; without it plain torch does the same, more slowly.
"""

from __future__ import annotations

import functools
import os
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from edgemask.errors import EdgeMaskWarning
from edgemask.heads.policies import Thresholds

__all__ = ["Magnitudes", "Step", "kept_weights", "step", "usable"]

_LARGE = 1 << 17  # edges from which on threads are worth waking


class Magnitudes(NamedTuple):
    """What the raw scores of a step come from: ``|matrix| ** power * factor``.

    Attributes:
        matrix: ``(C, d)``.
        power: 0, 1 or 2.
        factor: ``(d,)``, or None for the mean square of each feature.
        root: Whether to take the root of that mean.
    """

    matrix: Tensor
    power: int
    factor: Tensor | None
    root: bool = False


class Step(NamedTuple):
    """What a step leaves.

    Attributes:
        mask: Booleans, ``(C, d)``.
        kept: The weights times the mask, or None where no weights were given.
        squares: The sum of squares of each feature over the batch.
        usable: Whether the scores of the batch were finite: then the step counts.
    """

    mask: Tensor
    kept: Tensor | None
    squares: Tensor
    usable: bool


@functools.cache
def _kernels() -> Any:
    try:
        from edgemask.heads import kernels
    except ImportError:
        warnings.warn(
            "numba is not installed: masking heads train more slowly on CPUs (pip install "
            "'edgemask[fast]'; EDGEMASK_NATIVE=0 silences this)",
            EdgeMaskWarning,
            stacklevel=2,
        )
        return None
    return kernels


def usable(*tensors: Tensor) -> bool:
    """Whether the native path can be taken: plain float32 tensors on a CPU, in eager mode."""
    return (
        not torch.compiler.is_compiling()
        and all(
            type(tensor) in (Tensor, nn.Parameter)
            and tensor.dtype is torch.float32
            and tensor.device.type == "cpu"
            for tensor in tensors
        )
        and not torch._C._are_functorch_transforms_active()
        and not torch.is_autocast_enabled("cpu")
        and os.environ.get("EDGEMASK_NATIVE") != "0"
        and _kernels() is not None
    )


def step(
    samples: Tensor,
    magnitudes: Magnitudes,
    weight: Tensor | None,
    scores: Tensor,
    *,
    steps: int,
    seed: int,
    stream: int,
    beta: float,
    thresholds: Thresholds,
) -> Step:
    """Update the scores in place with a batch and draw a mask.

    Args:
        samples: The batch, ``(N, d)``.
        magnitudes: What the raw scores come from.
        weight: The weights of which the kept ones are wanted.
        scores: Smoothed scores; updated.
        steps: The number of steps so far.
        seed: The head's seed.
        stream: The stream of its random numbers.
        beta: Momentum of the scores.
        thresholds: The three numbers of the policy.
    """
    kernels = _kernels()
    matrix, power, factor, root = magnitudes
    squares = torch.empty(samples.shape[1])
    mask = torch.empty(matrix.shape, dtype=torch.bool)
    kept = None if weight is None else torch.empty(matrix.shape)
    given = factor is not None
    means = np.empty(samples.shape[1], np.float32) if factor is None else _array(factor)
    source, batch = _array(matrix), _array(samples)
    arrays = (
        source,
        power,
        means,
        source if weight is None else _array(weight),
        scores.numpy(),
        None if kept is None else kept.numpy(),
        mask.numpy(),
    )
    draw = (steps, beta, seed, stream, thresholds)
    rows = len(matrix)
    parts = _parts(rows, matrix.numel())
    if len(parts) == 1:
        good = kernels.step(batch, given, root, squares.numpy(), *arrays, *draw)
        return Step(mask, kept, squares, good)
    kernels.column_factor(batch, root, squares.numpy(), np.empty_like(means) if given else means)
    bounds = _in_threads(lambda a, b: kernels.extremes(source, power, means, a, b), parts)
    low, high = min(low for low, _ in bounds), max(high for _, high in bounds)
    _in_threads(lambda a, b: kernels.update(*arrays, low, high, *draw, a, b), parts)
    return Step(mask, kept, squares, kernels.is_finite(low, high))


def kept_weights(weight: Tensor, mask: Tensor, kept: Tensor | None = None) -> Tensor:
    """Return ``weight * mask``, in a pass over memory less than autograd's own product.

    Args:
        weight: The weights, which get the gradient.
        mask: Booleans.
        kept: The product, where a step has written it already.
    """
    if kept is None:
        kept = weight.detach() * mask
    result: Tensor = _KeptWeights.apply(weight, (kept, mask))  # type: ignore[no-untyped-call]
    return result


class _KeptWeights(torch.autograd.Function):
    """A product that is known already; its gradient stops at the mask."""

    @staticmethod
    def forward(ctx: Any, _weight: Tensor, known: tuple[Tensor, Tensor]) -> Tensor:
        kept, mask = known
        ctx.save_for_backward(mask)
        return kept

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (mask,) = ctx.saved_tensors
        plain = type(gradient) is Tensor and gradient.dtype is torch.float32
        if torch.is_grad_enabled() or not (plain and gradient.is_contiguous()):
            return gradient * mask, None
        # the gradient of a matrix product, made for this node alone
        arrays = (gradient.numpy(), mask.numpy())
        parts = _parts(len(mask), mask.numel())
        _in_threads(lambda a, b: _kernels().apply_mask(*arrays, a, b), parts)
        return gradient, None


def _array(tensor: Tensor) -> Any:
    return tensor.detach().contiguous().numpy()


def _parts(rows: int, edges: int) -> list[tuple[int, int]]:
    """Divide the rows of a large head among torch's threads."""
    count = min(torch.get_num_threads(), rows) if edges >= _LARGE else 1
    if count <= 1:
        return [(0, rows)]
    return [(rows * i // count, rows * (i + 1) // count) for i in range(count)]


def _in_threads(run: Callable[[int, int], Any], parts: list[tuple[int, int]]) -> list[Any]:
    if len(parts) == 1:
        return [run(*parts[0])]
    return list(_pool(os.getpid(), len(parts)).map(lambda part: run(*part), parts))


@functools.lru_cache(maxsize=1)
def _pool(process: int, threads: int) -> ThreadPoolExecutor:
    """Return the threads of a process; one that was forked gets its own."""
    return ThreadPoolExecutor(threads, thread_name_prefix="edgemask")
