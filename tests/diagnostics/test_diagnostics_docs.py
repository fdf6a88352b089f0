"""The page on diagnostics and the docstrings: their snippets run."""

from __future__ import annotations

import doctest
import importlib
import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "diagnostics.md"
ROOM = "edgemask.diagnostics"


def test_snippets_of_the_page_run(capsys) -> None:
    names: dict[str, object] = {}
    for snippet in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
        exec(compile(snippet, str(PAGE), "exec"), names)
    assert names["heat"].shape == (16, 8, 8)
    assert "'ece'" in capsys.readouterr().out


@pytest.mark.parametrize("module", ["calibration", "damage", "gradient_error", "overhead"])
def test_examples_of_the_docstrings(module: str) -> None:
    results = doctest.testmod(importlib.import_module(f"{ROOM}.{module}"))
    assert results.attempted > 0
    assert results.failed == 0
