"""Random numbers that are a function of (seed, step, edge), on any device and under compile.

A mask must be the same on every rank, on CPU and GPU, in eager and compiled mode; and drawing it
must not move the random state of the program, so that a run with a masking head sees the data in
the same order as one without. A hash of a counter gives all of that; a generator with a hidden
state gives none of it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from edgemask.heads.distributed import is_distributed
from edgemask.heads.workspace import Scratch, in_eager_mode_on_cpu

__all__ = ["StepKey", "counter_uniform", "fresh_seed", "step_key"]

StepKey = tuple[int, int] | tuple[Tensor, Tensor]
"""Which numbers a step draws: an odd multiplier and an offset, 32 bits each."""

Word = TypeVar("Word", int, Tensor)

_BITS64 = (1 << 64) - 1
_RESOLUTION = 2.0**-16
_CPU = torch.device("cpu")


def _signed(value: int, bits: int) -> int:
    """Read the lowest bits of a number as a signed integer."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


_WEYL = _signed(0x9E3779B97F4A7C15, 64)
_MIX = (_signed(0xBF58476D1CE4E5B9, 64), _signed(0x94D049BB133111EB, 64))
_ROUNDS = ((15, _signed(0x7FEB352D, 32)), (15, _signed(0x846CA68B, 32)))


def step_key(seed: Tensor, step: Tensor) -> StepKey:
    """Mix a head's seed and its step count into the key of that step's numbers (splitmix64).

    On a CPU the mixing is done on Python's integers, which is faster than on tensors of one
    element; elsewhere on tensors, so that the device need not be waited for. Same numbers.
    """
    if in_eager_mode_on_cpu(seed):
        number = _mix(int(seed.item()), int(step.item()), _BITS64)
        return _signed(number | 1, 32), _signed(number >> 32, 32)
    mixed = _mix(seed, step, -1)
    return (mixed | 1).to(torch.int32), (mixed >> 32).to(torch.int32)


def _mix(seed: Word, step: Word, bits: int) -> Word:
    z = (seed + step * _WEYL) & bits
    z = ((z ^ ((z >> 30) & ((1 << 34) - 1))) * _MIX[0]) & bits
    return ((z ^ ((z >> 27) & ((1 << 37) - 1))) * _MIX[1]) & bits


class _Constants(NamedTuple):
    """Tensors that are never written to; an operation takes them faster than Python numbers."""

    counter: Tensor
    rounds: tuple[tuple[Tensor, Tensor], ...]
    middle: Tensor


def _constants(hashes: int, device: torch.device) -> _Constants:
    def number(value: int) -> Tensor:
        return torch.full((), value, dtype=torch.int32, device=device)

    return _Constants(
        counter=torch.arange(hashes, dtype=torch.int32, device=device),
        rounds=tuple((number(shift), number(odd)) for shift, odd in _ROUNDS),
        middle=torch.full((), 0.5 + _RESOLUTION / 2, device=device),
    )


_kept_constants = lru_cache(maxsize=8)(_constants)


def counter_uniform(
    key: StepKey,
    count: int,
    *,
    start: int = 0,
    device: torch.device = _CPU,
    scratch: Scratch | None = None,
) -> Tensor:
    """Draw the numbers ``start .. start + count - 1`` of a step, uniform in (0, 1), float32.

    Two 16-bit numbers come out of each hash of a 32-bit counter, in the middle of their cells: the
    smallest is 2^-17 and the largest 1 - 2^-17, so that ``u <= 0`` never holds.

    Args:
        key: What :func:`step_key` gave.
        count: How many numbers.
        start: The first one's position.
        device: Where to.
        scratch: Memory to work and answer in, for speed on the CPU.

    Example:
        >>> key = step_key(torch.tensor(1), torch.tensor(0))
        >>> bool((counter_uniform(key, 4, start=3) == counter_uniform(key, 7)[3:]).all())
        True
    """
    multiplier, offset = key
    skip = start % 2
    hashes = (skip + count + 1) // 2
    constants = (_constants if torch.compiler.is_compiling() else _kept_constants)(hashes, device)
    first = multiplier * (start // 2) + offset
    start_of_hash = _signed(first, 32) if isinstance(first, int) else first
    take = None if scratch is None else scratch.take
    memory = None if take is None else take("hash", hashes, torch.int32)
    x = torch.mul(constants.counter, multiplier, out=memory).add_(start_of_hash)
    # Shifts repeat the sign; the top bit that this costs is made up for by the multiplications.
    shifted = torch.empty_like(x) if take is None else take("shifted", hashes, torch.int32)
    for shift, odd in constants.rounds:
        x.bitwise_xor_(torch.bitwise_right_shift(x, shift, out=shifted)).mul_(odd)
    lanes = x.view(torch.int16)
    if lanes.numel() != count:
        lanes = lanes[skip : skip + count]
    u = lanes.float() if take is None else take("uniform", count, torch.float32).copy_(lanes)
    return torch.add(constants.middle, u, alpha=_RESOLUTION, out=u)


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
