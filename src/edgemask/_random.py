"""Random streams that depend on nothing but the numbers that name them, and global generators."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

__all__ = [
    "load_rng_state",
    "numpy_stream",
    "rng_state",
    "seed_everything",
    "seeded_globals",
    "stream",
    "torch_stream",
]

# What a stream is for; a new purpose gets a new number, so that no two share theirs.
PURPOSES = {"weights": 1, "loop": 2, "method": 3, "order": 4, "subset": 5, "masks": 6, "added": 7}


def stream(purpose: str, seed: int, *more: int) -> int:
    """Return a seed of its own for each purpose, from the seed of the run.

    Example:
        >>> stream("weights", 0) != stream("order", 0)
        True
    """
    return _seed(PURPOSES[purpose], seed & 0xFFFFFFFFFFFFFFFF, *more)


def _seed(*key: int) -> int:
    state = np.random.SeedSequence(key).generate_state(1, np.uint64)
    return int(state[0] >> np.uint64(1))


def numpy_stream(*key: int) -> np.random.Generator:
    """Return the numpy stream named by ``key`` (non-negative integers)."""
    return np.random.default_rng(np.random.SeedSequence(key))


def torch_stream(*key: int) -> torch.Generator:
    """Return the CPU torch stream named by ``key`` (non-negative integers)."""
    return torch.Generator().manual_seed(_seed(*key))


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


def seed_everything(seed: int) -> None:
    """Seed the global generators of Python, numpy and torch (all devices)."""
    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002 - foreign code may draw from the global one
    torch.manual_seed(seed)


def rng_state() -> dict[str, Any]:
    """Return the state of all global generators as tensors and plain values."""
    version, internal, gauss = random.getstate()
    name, keys, position, has_gauss, cached = np.random.get_state(legacy=True)  # noqa: NPY002
    return {
        "python": [version, list(internal), gauss],
        "numpy": [name, torch.from_numpy(np.asarray(keys).astype(np.int64)), position],
        "numpy_gauss": [has_gauss, cached],
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
    }


def load_rng_state(state: dict[str, Any]) -> None:
    """Set all global generators to a state that :func:`rng_state` returned."""
    version, internal, gauss = state["python"]
    random.setstate((version, tuple(internal), gauss))
    name, keys, position = state["numpy"]
    words = keys.numpy().astype(np.uint32)
    np.random.set_state((name, words, position, *state["numpy_gauss"]))  # noqa: NPY002
    torch.set_rng_state(state["torch"])
    if state["cuda"] and torch.cuda.is_available():
        torch.cuda.set_rng_state_all(state["cuda"])
