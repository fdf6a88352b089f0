"""The page on reproducing, and the docstrings: what stands there works."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from typer.main import get_command

from edgemask.cli.app import app
from sweeps import sweep

PAGE = (Path(__file__).parents[2] / "docs" / "reproduce.md").read_text(encoding="utf-8")
LINES = [line.split("  #")[0].strip() for line in PAGE.splitlines() if line.startswith("edgemask ")]


@sweep("line", LINES)
def test_lines_of_the_page_are_understood(line):
    _, verb, *words = shlex.split(line)
    command = get_command(app).commands[verb]
    context = command.make_context(verb, words)
    if verb == "sweep":
        from edgemask.engine import RECIPES
        from edgemask.reproduce import parse_axis

        layer = RECIPES[context.params["recipe"]].layer()
        assert all(parse_axis(text, layer).values for text in context.params["grid"])
    else:
        from edgemask.reproduce import EXPERIMENTS

        known = {*EXPERIMENTS, "list", "status"}
        assert set(context.params["names"]) <= known


def test_the_snippet_of_the_page_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (snippet,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(compile(snippet, "reproduce.md", "exec"), {})
    assert "39.72 ± 0.81" in capsys.readouterr().out
