"""A step of Algorithm 1 on a CPU as one native call: :mod:`edgemask.heads.sem` with numba.

One pass over the weights finds the extremes of the scores; a second one normalises, smooths, draws
random numbers and writes the mask and the kept weights. Large heads are divided among as many
threads as torch uses. It needs the extra ``fast`` and can be switched off by the environment
variable ``EDGEMASK_NATIVE=0``; without it plain torch does the same, more slowly.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import sys
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd import forward_ad

from edgemask.errors import EdgeMaskWarning
from edgemask.heads.policies import Thresholds

__all__ = ["Magnitudes", "State", "draw", "masked_linear", "record_held_out", "step", "usable"]

enabled = os.environ.get("EDGEMASK_NATIVE") != "0"  # and numba has not turned out to be missing

_LARGE = 1 << 17  # edges from which on threads are worth waking
_HUGE, _MADV_HUGEPAGE = 1 << 21, 14
_ON_LINUX = sys.platform == "linux"


class Magnitudes(NamedTuple):
    """What the raw scores of a step come from: ``|matrix| ** power * factor``.

    Attributes:
        matrix: ``(C, d)``.
        power: 0, 1 or 2; -1 where the matrix is the raw scores.
        factor: ``(d,)``, or None for the mean square of each feature.
        root: Whether to take the root of that mean.
    """

    matrix: Tensor
    power: int = -1
    factor: Tensor | None = None
    root: bool = False


State = tuple[Tensor, Tensor, Tensor]
"""A head's buffers, which a step updates; those of SEM: scores, number of steps, seed."""


@functools.cache
def _kernels() -> Any:
    global enabled  # noqa: PLW0603
    try:
        from edgemask.heads import kernels
    except ImportError:
        enabled = False
        warnings.warn(
            "numba is not installed: masking heads train more slowly on CPUs (pip install "
            "'edgemask[fast]'; EDGEMASK_NATIVE=0 silences this)",
            EdgeMaskWarning,
            stacklevel=2,
        )
        return None
    return kernels


def usable(input: Tensor, weight: Tensor, state: State | None = None) -> bool:
    """Whether the native path can be taken: plain float32 tensors on a CPU, in eager mode."""
    return (
        not torch.compiler.is_compiling()
        and enabled
        and _is_plain(input)
        and _is_plain(weight)
        and input.shape[-1] == weight.shape[-1]
        and (state is None or _is_fit(state, weight))
        and not torch._C._are_functorch_transforms_active()
        and not torch.is_autocast_enabled("cpu")
        and forward_ad._current_level < 0
        and _kernels() is not None
    )


def _is_plain(tensor: Tensor) -> bool:
    kind = type(tensor)
    return (
        (kind is Tensor or kind is nn.Parameter)
        and tensor.dtype is torch.float32
        and tensor.is_cpu
        and tensor.layout is torch.strided
    )


def _is_fit(state: State, weight: Tensor) -> bool:
    """Whether the buffers are as a head makes them: the kernel trusts their addresses."""
    scores, steps, seed = state
    return (
        _is_plain(scores)
        and scores.shape == weight.shape
        and scores.is_contiguous()
        and steps.dtype is seed.dtype is torch.int64
        and steps.is_cpu
        and seed.is_cpu
    )


def step(
    samples: Tensor,
    magnitudes: Magnitudes,
    weight: Tensor | None,
    state: State,
    stream: int,
    beta: float,
    thresholds: Thresholds,
) -> tuple[Tensor, Tensor | None, Tensor]:
    """Update the state in place with a batch and draw a mask.

    A batch whose scores are not finite leaves the state as it is, as in plain torch.

    Args:
        samples: The batch, ``(N, d)``.
        magnitudes: What the raw scores come from.
        weight: The weights of which the kept ones are wanted, if any.
        state: The head's buffers.
        stream: The stream of its random numbers.
        beta: Momentum of the scores.
        thresholds: The three numbers of the policy.

    Returns:
        The mask, ``(C, d)`` booleans; the weights times the mask; the sum of squares of each
        feature over the batch.
    """
    kernels = _kernels()
    scores, steps, seed = state
    matrix, power, factor, root = magnitudes
    rows, columns = matrix.shape
    # each with a name of its own: what has an address in the call must live as long as it
    samples, matrix = samples.contiguous(), matrix.contiguous()
    given = None if factor is None else (factor := factor.contiguous()).data_ptr()
    squares, mask = scores.new_empty(columns), _empty_like(scores, torch.bool)
    kept, keep = None, 0
    if weight is not None:
        weight, kept, keep = weight.contiguous(), _empty_like(scores), kernels.KEEP
    arguments = (
        len(samples), rows, columns, samples.data_ptr(), matrix.data_ptr(), power,
        given, root if given is None else -1,
        squares.data_ptr(), scores.data_ptr(), steps.data_ptr(), seed.data_ptr(), stream,
        1.0 - beta, *thresholds, mask.data_ptr(),
        None if weight is None else weight.data_ptr(), None if kept is None else kept.data_ptr(),
    )  # fmt: skip
    run, parts = kernels.step(), _parts(rows, columns)
    if len(parts) == 1:
        run(*arguments, kernels.ALL | keep, 0, rows, 0, 0)
        return mask, kept, squares
    run(*arguments, kernels.SQUARES, 0, 0, 0, 0)
    found = _in_threads(run, (*arguments, kernels.EXTREMES), (0, 0), parts)
    low, high = kernels.joined(found)
    _in_threads(run, (*arguments, kernels.UPDATE | kernels.DRAW | keep), (low, high), parts)
    steps.add_(kernels.finite(low, high))
    return mask, kept, squares


def draw(state: State, stream: int, thresholds: Thresholds) -> Tensor:
    """Return the mask that a step drew; the state's number of steps is that before it."""
    kernels = _kernels()
    scores, steps, seed = state
    rows, columns = scores.shape
    mask = _empty_like(scores, torch.bool)
    buffers = scores.data_ptr(), steps.data_ptr(), seed.data_ptr()
    before = (0, rows, columns, *[None] * 2, 0, None, -1, None, *buffers, stream, 0.0, *thresholds)
    before = *before, mask.data_ptr(), None, None, kernels.DRAW
    _in_threads(kernels.step(), before, (0, 0), _parts(rows, columns))
    return mask


def basis_gram(base: Tensor, splines: Tensor) -> Tensor:
    """Do as :func:`edgemask.heads.skan.basis_gram` does."""
    base, splines = base.contiguous(), splines.contiguous()
    features, functions, count = splines.shape
    gram = splines.new_empty(features, functions + 1, functions + 1)
    addresses = base.data_ptr(), splines.data_ptr(), gram.data_ptr()
    before = *addresses, count, functions + 1
    _in_threads(_kernels().basis_gram(), before, (), _parts(features, functions * count))
    return gram


def function_moments(gram: Tensor, base: Tensor, scaler: Tensor, splines: Tensor) -> Tensor:
    """Do as :func:`edgemask.heads.skan.function_moments` does."""
    tensors = [tensor.contiguous() for tensor in (gram, base, scaler, splines)]
    rows, features, functions = splines.shape
    if not base.shape == scaler.shape == (rows, features) or len(gram) != features:
        raise ValueError("the parameters of a KAN layer do not fit together")
    moments = gram.new_empty(rows, features)
    addresses = [tensor.data_ptr() for tensor in (*tensors, moments)]
    before = *addresses, rows, features, functions + 1
    _in_threads(_kernels().function_moments(), before, (), _parts(rows, features * functions))
    return moments


def record_held_out(
    state: State, index: Tensor, target: Tensor, logits: Tensor, limit: int
) -> tuple[Tensor, Tensor, Tensor | None] | None:
    """Choose the held-out samples of a batch and add them to the round: an ``AdaptiveLinear``'s.

    Args:
        state: The head's seed, the sums of its round (three, and one for each temperature) and its
            table of samples seen, one place longer than a power of two.
        index: Position of each sample in the training set.
        target: The given labels.
        logits: ``(B, C)``.
        limit: A sample is held out if 30 bits of its hash are below.

    Returns:
        Which samples are held out and their places in the table; their sums, where they belong to
        the next round and were not added. None where the batch is not one for this path.
    """
    seed, sums, seen = state
    whole = index.dtype is target.dtype is seed.dtype is torch.int64
    here = index.is_cpu and target.is_cpu and seed.is_cpu and seen.is_cpu and _is_plain(sums)
    if not (whole and here and usable(logits, logits)):
        return None
    count, classes = logits.shape
    index, target, logits = index.contiguous(), target.contiguous(), logits.contiguous()
    held, slots, batch = seen.new_empty(count), index.new_empty(count), torch.zeros_like(sums)
    numbers = count, classes, limit, len(seen) - 1, len(sums) - 3
    tensors = seed, index, target, logits, sums, seen, held, slots, batch
    done = _kernels().record_held_out()(*numbers, *[tensor.data_ptr() for tensor in tensors])
    return (held, slots, batch if done == 2 else None) if done else None


def masked_linear(
    input: Tensor, weight: Tensor, bias: Tensor | None, mask: Tensor, kept: Tensor | None = None
) -> Tensor:
    """Apply a linear layer through the edges of a mask: ``F.linear(input, weight * mask, bias)``.

    Args:
        input: Features.
        weight: The weights.
        bias: The bias.
        mask: Booleans.
        kept: ``weight * mask``, where a step has written it already.
    """
    if kept is None:
        kept = _kept_weights(weight.detach().contiguous(), mask)
    result: Tensor = _MaskedLinear.apply(input, weight, bias, (kept, mask))  # type: ignore[no-untyped-call]
    return result


def _kept_weights(weight: Tensor, mask: Tensor) -> Tensor:
    kernels = _kernels()
    rows, columns = weight.shape
    kept = _empty_like(weight)
    nothing = (0, rows, columns, *[None] * 2, 0, None, -1, *[None] * 4, 0, *[0.0] * 4)
    addresses = mask.data_ptr(), weight.data_ptr(), kept.data_ptr()
    before = *nothing, *addresses, kernels.KEEP
    _in_threads(kernels.step(), before, (0, 0), _parts(rows, columns))
    return kept


class _MaskedLinear(torch.autograd.Function):
    """A linear layer on weights times a mask: two products in backward, the mask in place."""

    @staticmethod
    def forward(
        ctx: Any, input: Tensor, weight: Tensor, bias: Tensor | None, known: tuple[Tensor, Tensor]
    ) -> Tensor:
        kept, mask = known
        ctx.weight = weight
        ctx.save_for_backward(input, kept, mask)
        return F.linear(input, kept, bias)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        input, kept, mask = ctx.saved_tensors
        samples = input
        rows = gradient
        if gradient.dim() != 2:
            rows = gradient.reshape(-1, gradient.shape[-1])
            samples = input.reshape(-1, input.shape[-1])
        again = torch.is_grad_enabled()  # somebody will differentiate this gradient, too
        if again:
            kept = kept + (ctx.weight - ctx.weight.detach()) * mask
        wants_input, wants_weight, wants_bias, _ = ctx.needs_input_grad
        of_input = of_weight = of_bias = None
        if wants_input:
            of_input = rows.mm(kept)
            if rows is not gradient:
                of_input = of_input.view(input.shape)
        if wants_weight:
            of_weight = rows.t().mm(samples)
            of_weight = of_weight * mask if again else _apply_mask(of_weight, mask)
        if wants_bias:
            of_bias = rows.sum(0)
        return of_input, of_weight, of_bias, None


def _apply_mask(gradient: Tensor, mask: Tensor) -> Tensor:
    """Multiply a new tensor by the mask, in place where that is possible."""
    try:
        addresses = gradient.data_ptr(), mask.data_ptr()
    except RuntimeError:  # a batch of gradients in one tensor: is_grads_batched
        return gradient * mask
    # hooks on saved tensors may have given the mask another layout
    as_made = gradient.is_contiguous() and mask.is_contiguous() and mask.dtype is torch.bool
    if not (as_made and _is_plain(gradient)):
        return gradient * mask
    rows, columns = mask.shape
    _in_threads(_kernels().apply_mask(), (*addresses, columns), (), _parts(rows, columns))
    return gradient


def _empty_like(contiguous: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """Make a new tensor; a very large one in huge pages, which Linux hands out much faster."""
    tensor = torch.empty_like(contiguous, dtype=dtype)
    if _ON_LINUX and tensor.nbytes >= 16 * _HUGE:
        start, stop = tensor.data_ptr(), tensor.data_ptr() + tensor.nbytes
        start, stop = -(-start // _HUGE) * _HUGE, stop // _HUGE * _HUGE
        with contextlib.suppress(AttributeError):  # advice: where it is not taken, nothing is lost
            advise = ctypes.CDLL(None).madvise
            advise(ctypes.c_void_p(start), ctypes.c_size_t(stop - start), _MADV_HUGEPAGE)
    return tensor


def _parts(rows: int, columns: int) -> list[tuple[int, int]]:
    """Divide the rows of a large head among torch's threads."""
    count = min(torch.get_num_threads(), rows) if rows * columns >= _LARGE else 1
    if count <= 1:
        return [(0, rows)]
    return [(rows * i // count, rows * (i + 1) // count) for i in range(count)]


def _in_threads(
    run: Callable[..., Any], before: tuple[Any, ...], after: tuple[Any, ...], parts: list[Any]
) -> list[Any]:
    """Call ``run(*before, first, stop, *after)`` for each range of rows."""
    if len(parts) == 1:
        return [run(*before, *parts[0], *after)]
    pool = _pool(os.getpid(), len(parts) - 1)
    waiting = [pool.submit(run, *before, *part, *after) for part in parts[1:]]
    return [run(*before, *parts[0], *after), *(future.result() for future in waiting)]


@functools.lru_cache(maxsize=1)
def _pool(process: int, threads: int) -> ThreadPoolExecutor:
    """Return the threads of a process; one that was forked gets its own."""
    return ThreadPoolExecutor(threads, thread_name_prefix="edgemask")
