"""The kernels of :mod:`edgemask.heads.native`, compiled by numba when they are first called.

They release the interpreter's lock and use no threads of numba's own, so that Python threads may
enter at once and processes may fork. The compiled code is kept on disk where a folder can be
written. Loops run along one row of edges, whose buffers stay in the cache, and have no branches:
the compiler turns them into vector instructions. Results are those of plain torch in
:mod:`edgemask.heads.sem`, up to the order in which sums are taken.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit, uint32, uint64

__all__ = ["apply_mask", "column_factor", "extremes", "is_finite", "step", "update"]

_M0, _M1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_W0, _W1 = np.uint32(0x9E3779B9), np.uint32(0xBB67AE85)
_32, _9 = np.uint64(32), np.uint32(9)
_INFINITE = 0x7F800000  # the bits of the first float32 that is not finite
_LARGEST = np.int32(0x7FFFFFFF)
_SMALLEST_SCORE = np.float32(1e-12)
_ONE, _HALF, _UNIT = np.float32(1.0), np.float32(0.5), np.float32(2.0**-23)


def compiled(function: Callable[..., Any]) -> Any:
    """Compile a function at its first call, or load what an earlier process compiled."""
    try:
        return njit(nogil=True, error_model="numpy", cache=True)(function)
    except RuntimeError:  # no folder that the compiled code could be written to
        return njit(nogil=True, error_model="numpy")(function)


@njit(inline="always")
def _philox(a: Any, b: Any, c: Any, d: Any, k0: Any, k1: Any) -> Any:
    """Philox4x32-10; the loop is unrolled by the compiler."""
    for _ in range(10):
        left, right = uint64(a) * _M0, uint64(c) * _M1
        a, b, c, d = (
            uint32(uint32(right >> _32) ^ b ^ k0),
            uint32(right),
            uint32(uint32(left >> _32) ^ d ^ k1),
            uint32(left),
        )
        k0, k1 = uint32(k0 + _W0), uint32(k1 + _W1)
    return a, b, c, d


@compiled
def column_factor(samples: Any, root: bool, squares: Any, factor: Any) -> None:
    """Write the sum of squares of each column, and its mean or the root of that."""
    count, columns = samples.shape
    squares[:] = 0
    for i in range(count):
        for k in range(columns):
            squares[k] += samples[i, k] * samples[i, k]
    for k in range(columns):
        factor[k] = squares[k] / np.float32(count)
    if root:
        for k in range(columns):
            factor[k] = np.sqrt(factor[k])


@compiled
def raw_row(matrix: Any, row: int, power: int, factor: Any, out: Any) -> None:
    """Eq. 13 for one row of edges."""
    if power == 1:
        for k in range(len(out)):
            out[k] = abs(matrix[row, k]) * factor[k]
    elif power == 2:
        for k in range(len(out)):
            out[k] = matrix[row, k] * matrix[row, k] * factor[k]
    else:
        for k in range(len(out)):
            out[k] = factor[k]


@compiled
def extremes(matrix: Any, power: int, factor: Any, first: int, stop: int) -> Any:
    """Return the smallest and largest raw score of some rows as bits.

    Numbers that are not negative are ordered as their bits, and integers have no NaN that stands
    in the way of vector instructions. A NaN or an infinite score shows as bits that are negative
    or too large.
    """
    raw = np.empty(matrix.shape[1], np.float32)
    bits = raw.view(np.int32)
    low, high = _LARGEST, np.int32(0)
    for j in range(first, stop):
        raw_row(matrix, j, power, factor, raw)
        for k in range(len(bits)):
            low = min(low, bits[k])
            high = max(high, bits[k])
    return low, high


@compiled
def is_finite(low: int, high: int) -> bool:
    """Whether extremes that :func:`extremes` gave belong to finite scores."""
    return low >= 0 and high < _INFINITE


@compiled
def update(
    matrix: Any,
    power: int,
    factor: Any,
    weight: Any,
    scores: Any,
    kept: Any,
    mask: Any,
    low_bits: int,
    high_bits: int,
    steps: int,
    beta: float,
    seed: int,
    stream: int,
    thresholds: Any,
    first: int,
    stop: int,
) -> None:
    """Normalise, smooth and draw some rows (Eqs. 14 to 16); write mask and kept weights."""
    columns = matrix.shape[1]
    usable = is_finite(low_bits, high_bits)
    bounds = np.array([low_bits, high_bits], np.int32).view(np.float32)
    low, high = bounds[0], bounds[1]
    span = high - low
    pace = _ONE if steps == 0 else np.float32(1.0 - beta)
    rest = _ONE - pace
    certain, cap, floor = thresholds
    certain, cap, floor = np.float32(certain), np.float32(cap), np.float32(floor)
    k0, k1 = uint32(seed & 0xFFFFFFFF), uint32((seed >> 32) & 0xFFFFFFFF)
    step0, step1 = uint32(steps & 0xFFFFFFFF), uint32((steps >> 32) & 0xFFFFFFFF)
    new = np.empty(columns, np.float32)
    words = np.empty(columns + 8, np.uint32)
    for j in range(first, stop):
        if usable:
            if high > low:
                raw_row(matrix, j, power, factor, new)
                for k in range(columns):
                    new[k] = (new[k] - low) / span
            else:
                new[:] = 1
            if pace < _HALF:
                for k in range(columns):
                    s = scores[j, k] + pace * (new[k] - scores[j, k])
                    scores[j, k] = s if s >= _SMALLEST_SCORE else np.float32(0)
            else:
                for k in range(columns):
                    s = new[k] - (new[k] - scores[j, k]) * rest
                    scores[j, k] = s if s >= _SMALLEST_SCORE else np.float32(0)
        elif steps == 0:
            scores[j] = 1
        edge = j * columns
        group, offset = edge // 4, edge % 4
        for g in range((offset + columns + 3) // 4):
            a, b, c, d = _philox(uint32(group + g), step0, step1, uint32(stream), k0, k1)
            words[4 * g] = a
            words[4 * g + 1] = b
            words[4 * g + 2] = c
            words[4 * g + 3] = d
        for k in range(columns):
            s = scores[j, k]
            u = (np.float32(words[offset + k] >> _9) + _HALF) * _UNIT
            on = (s >= certain) | (u <= max(min(s, cap), floor))
            mask[j, k] = on
            if kept is not None:
                kept[j, k] = weight[j, k] * np.float32(on)


@compiled
def step(
    samples: Any,
    given: bool,
    root: bool,
    squares: Any,
    matrix: Any,
    power: int,
    factor: Any,
    weight: Any,
    scores: Any,
    kept: Any,
    mask: Any,
    steps: int,
    beta: float,
    seed: int,
    stream: int,
    thresholds: Any,
) -> bool:
    """Make a whole step; return whether the batch was usable."""
    column_factor(samples, root, squares, np.empty_like(factor) if given else factor)
    rows = len(matrix)
    low, high = extremes(matrix, power, factor, 0, rows)
    update(
        matrix, power, factor, weight, scores, kept, mask, low, high, steps, beta, seed, stream,
        thresholds, 0, rows,
    )  # fmt: skip
    finite: bool = is_finite(low, high)
    return finite


@compiled
def apply_mask(gradient: Any, mask: Any, first: int, stop: int) -> None:
    """Multiply some rows of a gradient by the mask, in place."""
    for j in range(first, stop):
        for k in range(gradient.shape[1]):
            gradient[j, k] *= np.float32(mask[j, k])
