"""Random streams that depend on nothing but the numbers that name them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

__all__ = ["numpy_stream", "seeded_globals", "torch_stream"]


def numpy_stream(*key: int) -> np.random.Generator:
    """Return the numpy stream named by ``key`` (non-negative integers)."""
    return np.random.default_rng(np.random.SeedSequence(key))


def torch_stream(*key: int) -> torch.Generator:
    """Return the CPU torch stream named by ``key`` (non-negative integers)."""
    state = np.random.SeedSequence(key).generate_state(1, np.uint64)
    return torch.Generator().manual_seed(int(state[0] >> np.uint64(1)))


@contextmanager
def seeded_globals(generator: torch.Generator) -> Iterator[None]:
    """Seed the global generators of torch (CPU), numpy and Python, and put them back at the end."""
    seed = int(torch.randint(0, 2**31, (), generator=generator))
    states = random.getstate(), np.random.get_state(), torch.random.get_rng_state()  # noqa: NPY002
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002
    torch.default_generator.manual_seed(seed)
    try:
        yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])  # noqa: NPY002
        torch.random.set_rng_state(states[2])
