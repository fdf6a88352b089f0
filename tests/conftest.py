"""What all tests share: fixed threads and seeds, and the way to real data."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from hypothesis import settings

settings.register_profile("edgemask", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("edgemask")
torch.set_num_threads(1)

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


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
