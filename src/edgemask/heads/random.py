"""Random numbers that are a function of (seed, step, edge), on any device and under compile.

A mask must be the same on every rank, on CPU and GPU, in eager and compiled mode; and drawing it
must not move the random state of the program, so that a run with a masking head sees the data in
the same order as one without. A hash of a counter gives all of that; a generator with a hidden
state gives none of it.

The hash is of a place on one long line of numbers. A step lays its rows of edges onto that line,
from a start and at a distance that are its own, both mixed from seed and step; a large head is laid
in tiles, each with a start and a distance. A CPU, which is slow at hashing, keeps the line in
memory, and what a step draws is then a view of it that costs nothing at all.
"""

from __future__ import annotations

from functools import cache
from typing import TypeVar

import torch
from torch import Tensor

from edgemask.heads.distributed import is_distributed
from edgemask.heads.workspace import in_eager_mode_on_cpu

__all__ = ["StepKey", "counter_uniform", "fresh_seed", "step_key"]

StepKey = int | Tensor
"""Which numbers a step draws: 64 bits."""

Word = TypeVar("Word", int, Tensor)

_STARTS = 1 << 20  # places where a tile may begin
_TILE = 1 << 18  # edges, or one row if that is longer
_BITS64 = (1 << 64) - 1
_CPU = torch.device("cpu")


def _signed(value: int, bits: int) -> int:
    """Read the lowest bits of a number as a signed integer."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


_WEYL = _signed(0x9E3779B97F4A7C15, 64)  # from step to step
_TILES = _signed(0xD1342543DE82EF95, 64)  # from tile to tile
_MIX = (_signed(0xBF58476D1CE4E5B9, 64), _signed(0x94D049BB133111EB, 64))
_ROUNDS = ((16, _signed(0x7FEB352D, 32)), (15, _signed(0x846CA68B, 32)))


def step_key(seed: Tensor, step: Tensor) -> StepKey:
    """Join a head's seed and its step count to the key of that step's numbers.

    On a CPU the key is one of Python's integers, which are faster than tensors of one element;
    elsewhere a tensor, so that the device need not be waited for. Same numbers.
    """
    if in_eager_mode_on_cpu(seed):
        return int(seed.item()) + int(step.item()) * _WEYL
    return seed + step * _WEYL


def counter_uniform(
    key: StepKey, rows: int, columns: int, *, first: int = 0, device: torch.device = _CPU
) -> Tensor:
    """Return the numbers of some rows of edges in a step, uniform in (0, 1), float32.

    They are odd multiples of 2^-24, so that ``u <= 0`` never holds.

    Args:
        key: What :func:`step_key` gave.
        rows: How many rows.
        columns: How many edges a row has.
        first: The first row's index.
        device: Where to; the key's.

    Returns:
        To be read only: it may be a view of what other steps use, too.

    Shape:
        ``(rows, columns)``

    Example:
        >>> key = step_key(torch.tensor(1), torch.tensor(0))
        >>> bool((counter_uniform(key, 2, 5, first=3) == counter_uniform(key, 5, 5)[3:]).all())
        True
    """
    if rows == 0 or columns == 0:
        return torch.empty(rows, columns, device=device)
    height = max(1, _TILE // columns)
    if isinstance(key, int):
        return _look_up(key, rows, columns, first, height)
    row = torch.arange(first, first + rows, device=device)
    tile = row // height
    start, distance = _layout(key + tile * _TILES, columns, -1)
    places = (start + distance * (row - tile * height)).to(torch.int32)
    return _hash(places.unsqueeze(1) + torch.arange(columns, dtype=torch.int32, device=device))


def _look_up(key: int, rows: int, columns: int, first: int, height: int) -> Tensor:
    """Return views of the line, one a tile."""
    longest = _TILE if columns <= _TILE else 1 << (columns - 1).bit_length()
    line = _line(_STARTS + 2 * longest)
    tiles = []
    stop = first + rows
    while first < stop:
        tile, row = divmod(first, height)
        rows = min(stop - first, height - row)
        start, distance = _layout(key + tile * _TILES, columns, _BITS64)
        tiles.append(line.as_strided((rows, columns), (distance, 1), start + distance * row))
        first += rows
    return tiles[0] if len(tiles) == 1 else torch.cat(tiles)


def _layout(key: Word, columns: int, bits: int) -> tuple[Word, Word]:
    """Return where on the line a tile starts and by how much its rows lie apart (splitmix64)."""
    z = key & bits
    z = ((z ^ ((z >> 30) & ((1 << 34) - 1))) * _MIX[0]) & bits
    z = ((z ^ ((z >> 27) & ((1 << 37) - 1))) * _MIX[1]) & bits
    return (z >> 44) & (_STARTS - 1), columns + ((z >> 12) & ((1 << 31) - 1)) % columns


def _hash(places: Tensor) -> Tensor:
    """Return the numbers at some places of the line."""
    x = places
    for shift, odd in _ROUNDS:
        x = (x ^ ((x >> shift) & ((1 << (32 - shift)) - 1))) * odd
    x = x ^ ((x >> 16) & 0xFFFF)
    return (((x >> 9) & 0x7FFFFF).float() + 0.5) * 2.0**-23


@cache
def _line(length: int) -> Tensor:
    """Return the beginning of the line of numbers, for a CPU."""
    return _hash(torch.arange(length, dtype=torch.int32, device=_CPU))


def fresh_seed(weight: Tensor) -> int:
    """Choose a seed for a new head from torch's random state, without moving that state.

    The weights go in as well, so that two heads made from the same random state (``attach`` draws
    nothing) still draw different masks. Among several processes, whose random states may differ,
    they decide alone, so that heads with the same weights draw the same masks.
    """
    seed = 0
    if not is_distributed():
        with torch.random.fork_rng(devices=[]):
            seed = int(torch.empty((), dtype=torch.int64, device="cpu").random_())
    if weight.device.type != "meta" and weight.numel():
        row = weight.detach()[0].double().cpu()
        seed ^= int(row.contiguous().view(torch.int64).sum())
    return seed & (_BITS64 >> 1)
