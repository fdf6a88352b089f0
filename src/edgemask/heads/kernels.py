"""The compiled code of :mod:`edgemask.heads.native`, made by numba when it is first needed.

They take addresses, release the interpreter's lock and use no threads of numba's own, so that
Python threads may enter at once and processes may fork. What is compiled is kept on disk where a
folder can be written. Loops run along one row of edges, whose buffers stay in the cache, and have
no branches: the compiler turns them into vector instructions. Results are those of plain torch in
:mod:`edgemask.heads.sem`, up to the order in which sums are taken.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from numba import types

__all__ = [
    "ALL",
    "DRAW",
    "EXTREMES",
    "KEEP",
    "SQUARES",
    "UPDATE",
    "apply_mask",
    "basis_gram",
    "finite",
    "function_moments",
    "joined",
    "record_held_out",
    "step",
]

SQUARES, EXTREMES, UPDATE, DRAW, KEEP = 1, 2, 4, 8, 16
ALL = SQUARES | EXTREMES | UPDATE | DRAW

_M0, _M1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_W0, _W1 = np.uint32(0x9E3779B9), np.uint32(0xBB67AE85)
_32, _9, _WORD = np.uint64(32), np.uint32(9), np.int64(0xFFFFFFFF)
_INFINITE = 0x7F800000  # the bits of the first float32 that is not finite
_LARGEST = np.int32(0x7FFFFFFF)
_GOLDEN, _MULTIPLIER = (np.int64(w - 2**64) for w in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9))
_SMALLEST_SCORE = np.float32(1e-12)
_ZERO, _ONE, _TWO, _HALF, _UNIT = (np.float32(x) for x in (0.0, 1.0, 2.0, 0.5, 2.0**-23))

_carray: Any = numba.carray  # type: ignore[attr-defined]
_pointer: Any = types.CPointer
_FLOATS, _INTEGERS, _BYTES = (_pointer(t) for t in (types.float32, types.int64, types.uint8))
_SIZE, _WORD32, _FLOAT = types.int64, types.uint32, types.float32


def compiled(*arguments: Any, fastmath: Any = False) -> Callable[[Callable[..., Any]], Any]:
    """Make a function that compiles another one, or loads what an earlier process compiled.

    What it returns takes tensors as their addresses.
    """
    numbers: dict[Any, Any] = {_SIZE: ctypes.c_int64, _WORD32: ctypes.c_uint32}
    numbers[_FLOAT] = ctypes.c_float
    kinds = [numbers.get(argument, ctypes.c_void_p) for argument in arguments]

    def decorate(function: Callable[..., Any]) -> Any:
        @functools.cache
        def compile_() -> Any:
            signature = _SIZE(*arguments)
            options: Any = {"error_model": "numpy", "fastmath": fastmath}
            try:
                code: Any = numba.cfunc(signature, cache=True, **options)(function)
            except Exception:  # noqa: BLE001 - no folder to write to, a full disk, a damaged file
                code = numba.cfunc(signature, **options)(function)
            call: Any = ctypes.CFUNCTYPE(ctypes.c_int64, *kinds)(code.address)
            call.code = code  # which lives as long as the function
            return call

        return compile_

    return decorate


inlined = numba.njit(inline="always")


@inlined
def _philox(a: Any, b: Any, c: Any, d: Any, k0: Any, k1: Any) -> Any:
    """Philox4x32-10; the loop is unrolled by the compiler."""
    for _ in range(10):
        left, right = np.uint64(a) * _M0, np.uint64(c) * _M1
        a, b, c, d = (
            np.uint32(np.uint32(right >> _32) ^ b ^ k0),
            np.uint32(right),
            np.uint32(np.uint32(left >> _32) ^ d ^ k1),
            np.uint32(left),
        )
        k0, k1 = np.uint32(k0 + _W0), np.uint32(k1 + _W1)
    return a, b, c, d


@inlined
def _sum_squares(samples: Any, squares: Any) -> None:
    for k in range(len(squares)):
        squares[k] = 0
    for i in range(len(samples)):
        for k in range(len(squares)):
            squares[k] += samples[i, k] * samples[i, k]


@inlined
def _find_factor(squares: Any, count: Any, given: Any, root: Any, factor: Any) -> None:
    if root == 1:
        for k in range(len(factor)):
            factor[k] = np.sqrt(squares[k] / np.float32(count))
    elif root == 0:
        for k in range(len(factor)):
            factor[k] = squares[k] / np.float32(count)
    elif root == -1:
        for k in range(len(factor)):
            factor[k] = given[k]


@inlined
def _score_row(matrix: Any, row: Any, power: Any, factor: Any, out: Any) -> None:
    """Eq. 13."""
    if power == 1:
        for k in range(len(factor)):
            out[k] = abs(matrix[row, k]) * factor[k]
    elif power == 2:
        for k in range(len(factor)):
            out[k] = matrix[row, k] * matrix[row, k] * factor[k]
    elif power == 0:
        for k in range(len(factor)):
            out[k] = factor[k]
    else:  # the matrix holds the scores
        for k in range(len(factor)):
            out[k] = abs(matrix[row, k])


@inlined
def _find_extremes(
    matrix: Any, first: Any, stop: Any, power: Any, factor: Any, new: Any, bits: Any
) -> Any:
    low, high = _LARGEST, np.int32(0)
    for j in range(first, stop):
        _score_row(matrix, j, power, factor, new)
        for k in range(len(factor)):
            low = min(low, bits[k])
            high = max(high, bits[k])
    return low, high


@inlined
def _fill_row(scores: Any, row: Any, value: Any) -> None:
    for k in range(scores.shape[1]):
        scores[row, k] = value


@inlined
def _smooth_row(scores: Any, row: Any, new: Any, low: Any, span: Any, pace: Any) -> None:
    """Eqs. 14 and 15, rounded as plain torch rounds."""
    rest = _ONE - pace
    for k in range(scores.shape[1]):
        fresh = (new[k] - low) / span if span > _ZERO else _ONE
        s = scores[row, k]
        gap = fresh - s
        s = s + pace * gap if pace < _HALF else fresh - gap * rest
        scores[row, k] = s if s >= _SMALLEST_SCORE else _ZERO


@inlined
def _draw_row(
    scores: Any, row: Any, steps: Any, seed: Any, stream: Any, limits: Any, words: Any, mask: Any
) -> None:
    """Eq. 16."""
    columns = scores.shape[1]
    certain, cap, floor = limits
    k0, k1 = np.uint32(seed & _WORD), np.uint32((seed >> 32) & _WORD)
    step0, step1 = np.uint32(steps & _WORD), np.uint32((steps >> 32) & _WORD)
    group, offset = row * columns // 4, row * columns % 4
    for g in range((offset + columns + 3) // 4):
        a, b, c, d = _philox(np.uint32(group + g), step0, step1, stream, k0, k1)
        words[4 * g], words[4 * g + 1], words[4 * g + 2], words[4 * g + 3] = a, b, c, d
    for k in range(columns):
        u = (np.float32(words[offset + k] >> _9) + _HALF) * _UNIT
        s = scores[row, k]
        mask[row, k] = (s >= certain) | (u <= max(min(s, cap), floor))


@inlined
def _keep_row(weight: Any, row: Any, mask: Any, kept: Any) -> None:
    for k in range(weight.shape[1]):
        kept[row, k] = weight[row, k] * np.float32(mask[row, k])


@compiled(
    *(_SIZE, _SIZE, _SIZE, _FLOATS, _FLOATS, _SIZE, _FLOATS, _SIZE, _FLOATS),
    *(_FLOATS, _INTEGERS, _INTEGERS, _WORD32, _FLOAT, _FLOAT, _FLOAT, _FLOAT),
    *(_BYTES, _FLOATS, _FLOATS, _SIZE, _SIZE, _SIZE, _SIZE, _SIZE),
)
def step(  # type: ignore[no-untyped-def]
    count, rows, columns, samples_, matrix_, power, given_, root, squares_,
    scores_, steps_, seed_, stream, pace, certain, cap, floor,
    mask_, weight_, kept_, parts, first, stop, low_bits, high_bits,
):  # fmt: skip
    """Make a step of Algorithm 1, or parts of it for some rows; return the scores' extremes.

    ``SQUARES`` sums the squares of each feature; the factor of the scores is their mean (``root``
    0), its root (1), what is given (-1) or none (-2). ``EXTREMES`` finds the smallest and largest
    raw score, as bits: numbers that are not negative are ordered as their bits, and integers have
    no NaN that stands in the way of vector instructions; a NaN or an infinite score shows as bits
    that are negative or too large. ``UPDATE`` normalises and smooths, ``DRAW`` draws the mask, and
    ``KEEP`` multiplies the weights by it. A call that makes ``ALL`` of a step counts it, too.
    """
    samples, squares = _carray(samples_, (count, columns)), _carray(squares_, (columns,))
    matrix, given = _carray(matrix_, (rows, columns)), _carray(given_, (columns,))
    scores, mask = _carray(scores_, (rows, columns)), _carray(mask_, (rows, columns))
    weight, kept = _carray(weight_, (rows, columns)), _carray(kept_, (rows, columns))
    new, words = np.empty(columns + 2, np.float32), np.empty(columns + 8, np.uint32)
    bits, factor = new.view(np.int32), np.empty(columns, np.float32)
    low, high = np.int32(low_bits), np.int32(high_bits)
    steps = seed = np.int64(0)
    smallest = span = _ZERO
    usable: Any = False
    if parts & SQUARES:
        _sum_squares(samples, squares)
    if parts & (EXTREMES | UPDATE):
        _find_factor(squares, count, given, root, factor)
    if parts & EXTREMES:
        low, high = _find_extremes(matrix, first, stop, power, factor, new, bits)
    if parts & DRAW:
        steps, seed = _carray(steps_, (1,))[0], _carray(seed_, (1,))[0]
    if parts & UPDATE:
        usable = low >= 0 and high < _INFINITE
        bits[0], bits[1] = low, high
        smallest, span = new[0], new[1] - new[0]
        pace = _ONE if steps == 0 else pace
        if parts & ALL == ALL and usable:
            _carray(steps_, (1,))[0] = steps + 1
    for j in range(first, stop):
        if parts & UPDATE and usable:
            _score_row(matrix, j, power, factor, new)
            _smooth_row(scores, j, new, smallest, span, pace)
        elif parts & UPDATE and steps == 0:
            _fill_row(scores, j, _ONE)
        if parts & DRAW:
            _draw_row(scores, j, steps, seed, stream, (certain, cap, floor), words, mask)
        if parts & KEEP:
            _keep_row(weight, j, mask, kept)
    return (np.int64(high) << 32) | (np.int64(low) & _WORD)


@compiled(_FLOATS, _BYTES, _SIZE, _SIZE, _SIZE)
def apply_mask(gradient_, mask_, columns, first, stop):  # type: ignore[no-untyped-def]
    """Multiply some rows of a gradient by the mask, in place."""
    gradient, mask = _carray(gradient_, (stop, columns)), _carray(mask_, (stop, columns))
    for j in range(first, stop):
        for k in range(columns):
            gradient[j, k] *= np.float32(mask[j, k])
    return 0


@compiled(
    *(_FLOATS, _FLOATS, _FLOATS, _SIZE, _SIZE, _SIZE, _SIZE), fastmath={"reassoc", "contract"}
)
def basis_gram(base_, splines_, gram_, count, columns, first, stop):  # type: ignore[no-untyped-def]
    """Sum the products of all pairs of basis functions over the samples, for some features."""
    base = _carray(base_, (stop, count))
    splines = _carray(splines_, (stop, columns - 1, count))
    gram = _carray(gram_, (stop, columns, columns))
    values = np.empty((columns, count), np.float32)
    for k in range(first, stop):
        for i in range(count):
            values[0, i] = base[k, i]
        for a in range(columns - 1):
            for i in range(count):
                values[a + 1, i] = splines[k, a, i]
        for a in range(columns):
            for b in range(a + 1):
                total = _ZERO
                for i in range(count):
                    total += values[a, i] * values[b, i]
                gram[k, a, b] = total
                gram[k, b, a] = total
    return 0


@inlined
def _moments_row(by_pair: Any, c: Any, products: Any, row: Any, moments: Any) -> None:
    """``c^T G c`` of each edge of a row, the features innermost."""
    columns, features = c.shape
    for k in range(features):
        moments[row, k] = _ZERO
    for a in range(columns):
        for k in range(features):
            products[k] = by_pair[a, a, k] * c[a, k]
        for b in range(a):
            for k in range(features):
                products[k] += _TWO * by_pair[a, b, k] * c[b, k]
        for k in range(features):
            moments[row, k] += products[k] * c[a, k]
    for k in range(features):  # max would lose a NaN
        moments[row, k] = _ZERO if moments[row, k] < _ZERO else moments[row, k]  # noqa: FURB136


@compiled(*[_FLOATS] * 5, *[_SIZE] * 5)
def function_moments(  # type: ignore[no-untyped-def]
    gram_, base_, scaler_, splines_, moments_, rows, features, columns, first, stop
):
    """Write the second moments of the edge functions of some rows, one pass over their weights."""
    gram = _carray(gram_, (features, columns, columns))
    base, scaler = _carray(base_, (rows, features)), _carray(scaler_, (rows, features))
    splines = _carray(splines_, (rows, features, columns - 1))
    moments = _carray(moments_, (rows, features))
    by_pair = np.empty((columns, columns, features), np.float32)
    c, products = np.empty((columns, features), np.float32), np.empty(features, np.float32)
    for a in range(columns):
        for b in range(a + 1):
            for k in range(features):
                by_pair[a, b, k] = gram[k, a, b]
    for j in range(first, stop):
        for k in range(features):
            c[0, k] = base[j, k]
        for a in range(columns - 1):
            for k in range(features):
                c[a + 1, k] = splines[j, k, a] * scaler[j, k]
        _moments_row(by_pair, c, products, j, moments)
    return 0


@compiled(*[_SIZE] * 5, *[_INTEGERS] * 3, *[_FLOATS] * 2, *[_BYTES] * 2, _INTEGERS, _FLOATS)
def record_held_out(  # type: ignore[no-untyped-def]
    count, classes, limit, table, temperatures, seed_, index_, target_, logits_,
    round_, seen_, held_, slots_, sums_,
):  # fmt: skip
    """Choose the held-out samples of a batch and add them to the round of an ``AdaptiveLinear``.

    Returns 1 if that was done, 2 if their sums belong to the next round and were not added, and 0
    if a target is no class.
    """
    index, target = _carray(index_, (count,)), _carray(target_, (count,))
    logits, seen = _carray(logits_, (count, classes)), _carray(seen_, (table + 1,))
    held, slots = _carray(held_, (count,)), _carray(slots_, (count,))
    sums, seed = _carray(sums_, (3 + temperatures,)), _carray(seed_, (1,))[0]
    for i in range(count):
        word = (index[i] + seed) * _GOLDEN
        word = (word ^ (word >> 30)) * _MULTIPLIER
        held[i] = ((word >> 33) & 0x3FFFFFFF) < limit
        slots[i] = (word >> 20) & (table - 1) if held[i] else table
        if not held[i]:
            continue
        given = target[i]
        if given < 0 or given >= classes:
            return 0
        predicted = 0
        for j in range(classes):
            predicted = j if logits[i, j] > logits[i, predicted] else predicted
        largest = logits[i, predicted]
        sums[0] += _ONE
        sums[1] += np.float32(predicted != given)
        sums[2] += np.float32(seen[slots[i]])
        temperature = np.float32(2.0**-7)
        for k in range(temperatures):
            total = _ZERO
            for j in range(classes):
                total += np.exp(temperature * (logits[i, j] - largest))
            sums[3 + k] += np.log(total) - temperature * (logits[i, given] - largest)
            temperature *= _TWO
    if _TWO * sums[2] > sums[0]:
        return 2
    total_sums = _carray(round_, (3 + temperatures,))
    for k in range(3 + temperatures):
        total_sums[k] += sums[k]
    for i in range(count):
        seen[slots[i]] = True
    return 1


def joined(extremes: list[int]) -> tuple[int, int]:
    """Join the extremes of several calls of :func:`step`; return the lowest and highest bits."""
    return min(ctypes.c_int32(e).value for e in extremes), max(e >> 32 for e in extremes)


def finite(low: int, high: int) -> bool:
    """Whether these bits belong to finite scores."""
    return low >= 0 and high < _INFINITE
