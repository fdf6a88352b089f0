"""A run so small that a test can afford several."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from edgemask.engine import Config, merge, resolve

TINY: dict[str, Any] = {
    "data": {"spec": "digits", "limit": 200, "test_limit": 100},
    "noise": {"spec": "sym:0.4"},
    "model": {"name": "small-cnn", "width": 0.25},
    "head": {"name": "sem"},
    "train": {"epochs": 2, "batch_size": 32},
    "log": {"trackers": []},
}


@pytest.fixture(scope="session")
def tiny() -> Callable[..., Config]:
    """Return the config of a run of about a second, with changes that override it."""
    return lambda *layers: resolve(merge(TINY, *layers))
