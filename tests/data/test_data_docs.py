"""The examples in the docstrings of the room and on its page run."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
from pathlib import Path

import pytest

import edgemask.data

MODULES = [
    "edgemask.data",
    *(info.name for info in pkgutil.walk_packages(edgemask.data.__path__, prefix="edgemask.data.")),
]


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name: str) -> None:
    module = importlib.import_module(name)
    assert doctest.testmod(module).failed == 0


def test_page() -> None:
    page = Path(__file__).parents[2] / "docs" / "data.md"
    result = doctest.testfile(str(page), module_relative=False)
    assert result.attempted >= 20
    assert result.failed == 0
