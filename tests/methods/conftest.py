"""Runs that a test of methods can afford."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from clip_helpers import digits_features
from edgemask.engine import Config, merge, resolve

TINY: dict[str, Any] = {
    "data": {"spec": "digits", "limit": 100, "test_limit": 50},
    "noise": {"spec": "sym:0.4"},
    "model": {"name": "small-cnn", "width": 0.25, "options": {"hidden": 32}},
    "head": {"name": "sem"},
    "optim": {"name": "adam", "lr": 2e-3, "schedule": {"name": "constant"}},
    "train": {"epochs": 2, "batch_size": 32, "record_every": 0},
    "log": {"trackers": [], "thumbnails": 0},
}


@pytest.fixture(scope="session")
def needed(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], dict[str, Any]]:
    """Return the options that a method cannot do without: stand-in features for CLIPCleaner."""
    features = digits_features(tmp_path_factory.mktemp("clip"))
    return lambda name: features if name == "clipcleaner" else {}


@pytest.fixture(scope="session")
def tiny(needed: Callable[[str], dict[str, Any]]) -> Callable[..., Config]:
    """Return the config of a run of a second: an epoch of warm-up and one of the method."""

    def config(*layers: dict[str, Any]) -> Config:
        settings = merge(TINY, *layers)
        options = needed(settings.get("method", {}).get("name", ""))
        return resolve(merge({"method": {"options": options}}, settings))

    return config
