"""The examples of the page run."""

from __future__ import annotations

import doctest
from pathlib import Path


def test_page() -> None:
    page = Path(__file__).parents[2] / "docs" / "data.md"
    result = doctest.testfile(str(page), module_relative=False)
    assert result.attempted >= 20
    assert result.failed == 0
