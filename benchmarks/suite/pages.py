"""The tables of the suite in docs/ and the README.

Each stands between ``<!-- suite WORDS -->`` and ``<!-- /suite -->``.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import re
import shlex
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_BLOCK = re.compile(r"(<!-- suite (.*?) -->\n).*?(<!-- /suite -->)", re.DOTALL)


def fill(options: argparse.Namespace, call: Callable[[list[str]], None]) -> None:
    """Write the tables of the pages anew; with ``--check``, fail where they would change.

    Args:
        options: Those of the command.
        call: Does what the words of a block say, and prints it.
    """
    stale = []
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        before = page.read_text(encoding="utf-8")
        after = _BLOCK.sub(
            lambda block: f"{block[1]}\n{_output(call, block[2])}\n{block[3]}", before
        )
        if after != before:
            stale.append(page.name)
            if not options.check:
                page.write_text(after, encoding="utf-8")
    if options.check and stale:
        raise SystemExit(f"not what the stored runs say: {', '.join(stale)}")


def _output(call: Callable[[list[str]], None], words: str) -> str:
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        call(shlex.split(words))
    return text.getvalue()
