"""Every Python block of the README and of the pages runs, in order, as a reader would run it.

Sessions with prompts are compared with what they show. A block with the line ``<!-- no-run -->``
right before it is not run: it needs files, a network or hours.
"""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

import edgemask  # noqa: F401  (before torchvision, as the pages say)

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("README.md"), *(ROOT / "docs").glob("**/*.md")])
BLOCK = re.compile(
    r"^(?P<skip><!-- no-run -->\n+)?```python\n(?P<code>.*?)^```", re.MULTILINE | re.DOTALL
)


def blocks(text: str) -> list[tuple[int, str]]:
    """The line and code of each block that is to run."""
    return [
        (text[: found.start("code")].count("\n"), found["code"])
        for found in BLOCK.finditer(text)
        if not found["skip"]
    ]


def run(page: Path) -> int:
    namespace: dict[str, object] = {"__name__": "__page__"}
    found = blocks(page.read_text())
    for line, code in found:
        if code.startswith(">>> "):
            session = doctest.DocTestParser().get_doctest(
                code, namespace, page.name, str(page), line
            )
            doctest.DebugRunner(verbose=False).run(session, clear_globs=False)
            namespace = session.globs
        else:
            # blank lines in front, so that a traceback has the page's line numbers
            exec(compile("\n" * line + code, str(page), "exec", dont_inherit=True), namespace)
    return len(found)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_page(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run(page)


def test_blocks_are_found_and_marked_ones_left_out(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "```python\na = 1\n```\n\n<!-- no-run -->\n```python\n1 / 0\n```\n"
        "```\nno code\n```\n```python\nassert a == 1\n```\n"
    )
    assert run(page) == 2
    page.write_text("# one\n\n```python\nx = 1\n\ny = unknown\n```\n")
    with pytest.raises(NameError) as caught:
        run(page)
    assert caught.traceback[-1].lineno == 5  # counted from 0
