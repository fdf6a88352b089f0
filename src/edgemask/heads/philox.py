"""Random numbers that are a function of (seed, step, edge): Philox4x32-10, on any device.

A mask must be the same on every rank, on CPU and GPU, in eager and compiled mode; and drawing it
must not move the random state of the program, so that a run with a masking head sees the data in
the same order as one without. A counter-based generator gives all of that: its key is the head's
seed, and its counter is ``(edge // 4, step, step >> 32, stream)``; each block of four words
serves four edges. The stream joins the head's shape with the purpose of the number, so that heads
of different shape under one seed share nothing.

Reference:
    Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3, SC 2011.
"""

from __future__ import annotations

import zlib

import torch
from torch import Tensor

__all__ = ["philox4x32", "stream_of", "uniform"]

WORD = 0xFFFFFFFF
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
ROUNDS = 10

Words = tuple[Tensor, Tensor, Tensor, Tensor]


def philox4x32(counter: Words, key: tuple[Tensor, Tensor]) -> Words:
    """Return the four random words of each counter.

    Args:
        counter: Four 32-bit words as int64, of shapes that broadcast.
        key: Two 32-bit words as int64.

    Example:
        >>> zero = torch.zeros((), dtype=torch.int64)
        >>> [f"{int(word):08x}" for word in philox4x32((zero,) * 4, (zero, zero))]
        ['6627e8d5', 'e169c58d', 'bc57ac4c', '9b00dbd8']
    """
    a, b, c, d = counter
    k0, k1 = key
    for _ in range(ROUNDS):
        # 64-bit products wrap around to the right bits; the mask removes the sign's copies
        left, right = a * MULTIPLIERS[0], c * MULTIPLIERS[1]
        a, b, c, d = (
            ((right >> 32) & WORD) ^ b ^ k0,
            right & WORD,
            ((left >> 32) & WORD) ^ d ^ k1,
            left & WORD,
        )
        k0, k1 = (k0 + KEY_STEPS[0]) & WORD, (k1 + KEY_STEPS[1]) & WORD
    return a, b, c, d


def uniform(seed: Tensor, step: Tensor, rows: int, columns: int, stream: int) -> Tensor:
    """Return the numbers of all edges in a step, uniform in (0, 1), float32.

    They are odd multiples of 2^-24, so that ``u <= 0`` never holds.

    Args:
        seed: The head's seed, 64 bits.
        step: The number of steps made so far, 64 bits, on the same device. Neither is read by the
            host, so that a GPU need not be waited for.
        rows: Number of rows of edges.
        columns: Number of edges per row.
        stream: What :func:`stream_of` gave for the head and the purpose.

    Shape:
        ``(rows, columns)``
    """
    edges = rows * columns
    group = torch.arange((edges + 3) // 4, device=seed.device)
    counter = (group, step & WORD, (step >> 32) & WORD, torch.full_like(step, stream))
    words = philox4x32(counter, (seed & WORD, (seed >> 32) & WORD))
    bits = torch.stack(words, dim=1).flatten()[:edges].view(rows, columns)
    return ((bits >> 9).float() + 0.5) * 2.0**-23


def stream_of(rows: int, columns: int, purpose: str) -> int:
    """Return the 32-bit stream of the numbers that a head of some shape draws for a purpose."""
    return zlib.crc32(f"{rows}x{columns}:{purpose}".encode())
