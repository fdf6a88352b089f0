"""The page on models and the docstrings: their snippets run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "models.md"


def test_snippets_of_the_page_run() -> None:
    pytest.importorskip("timm")
    snippets = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    # The one with a model of the hub would download it.
    local = [snippet for snippet in snippets if 'create("hf:' not in snippet]
    assert len(local) == len(snippets) - 1
    names: dict[str, object] = {}
    for snippet in local:
        exec(compile(snippet, str(PAGE), "exec"), names)
    assert names["z"].shape == (4, 256)
    assert names["features"].shape == (4, 256)
    assert names["p"].shape == (4, 256)
