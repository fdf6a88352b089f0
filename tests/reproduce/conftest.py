"""Runs of a second, a plan of two of them, and weights to compare."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

from edgemask.engine import merge, resolve
from edgemask.engine.config import to_dict
from edgemask.engine.rundir import default_name

TINY: dict[str, Any] = {
    "data": {"spec": "digits", "limit": 96, "test_limit": 50},
    "noise": {"spec": "sym:0.4"},
    "model": {"name": "small-cnn", "width": 0.25},
    "head": {"name": "sem"},
    "train": {"epochs": 1, "batch_size": 48},
    "log": {"trackers": []},
}


@pytest.fixture
def jobs() -> Callable[..., dict[str, dict[str, Any]]]:
    """Return jobs by name, from layers that are laid upon a tiny run."""

    def make(*layers: dict[str, Any]) -> dict[str, dict[str, Any]]:
        configs = [resolve(merge(TINY, layer)) for layer in layers]
        return {default_name(config): to_dict(config) for config in configs}

    return make


@pytest.fixture
def same_weights() -> Callable[[Path, Path], bool]:
    """Return what tells whether two runs ended with the same weights, bit for bit."""

    def check(first: Path, second: Path) -> bool:
        a, b = (load_file(path / "model.safetensors") for path in (first, second))
        return a.keys() == b.keys() and all(a[name].equal(b[name]) for name in a)

    return check
