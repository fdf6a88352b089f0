"""What all tests share: fixed threads and seeds, and the way to real data."""

from __future__ import annotations

import copy
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import settings

from edgemask._registry import Registry

settings.register_profile("edgemask", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("edgemask")
torch.set_num_threads(1)
os.environ.setdefault("RAY_worker_niceness", "0")  # 15 by default: never done on a busy machine

GOLDEN = Path(__file__).parent / "golden"


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Look for examples in tests only: helpers of the tests may act when they are imported."""
    helper = collection_path.suffix == ".py" and not collection_path.name.startswith("test_")
    return True if helper and Path(__file__).parent in collection_path.parents else None


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


@pytest.fixture(autouse=True)
def _registries_as_they_were() -> Iterator[None]:
    """Forget after each test what it registered."""
    registries = [
        value
        for name in ("data", "heads", "losses", "methods", "models", "noise")
        for value in vars(sys.modules.get(f"edgemask.{name}", object)).values()
        if isinstance(value, Registry)
    ]
    before = [
        {key: copy.copy(value) for key, value in vars(registry).items()} for registry in registries
    ]
    yield
    for registry, values in zip(registries, before, strict=True):
        vars(registry).clear()
        vars(registry).update(values)


@pytest.fixture(scope="session")
def golden() -> Path:
    """The folder of reference values."""
    return GOLDEN


@pytest.fixture(scope="session")
def data_root() -> Path:
    """The folder of real datasets; tests that ask for it skip where there is none."""
    root = os.environ.get("EDGEMASK_DATA")
    if not root or not Path(root).is_dir():
        pytest.skip("EDGEMASK_DATA does not name a folder with real datasets")
    return Path(root)
