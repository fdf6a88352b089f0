"""The page on diagnostics and the docstrings: their snippets run."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "diagnostics.md"


def test_snippets_of_the_page_run(capsys) -> None:
    names: dict[str, object] = {}
    for snippet in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
        exec(compile(snippet, str(PAGE), "exec"), names)
    assert names["heat"].shape == (16, 8, 8)
    assert "'ece'" in capsys.readouterr().out
