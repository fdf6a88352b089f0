"""The generated parts of the pages are up to date."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def generate() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_generate", DOCS / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_pages_are_up_to_date(generate: ModuleType) -> None:
    names = [path.name for path in generate.stale(DOCS)]
    assert not names, f"run python docs/generate.py; out of date: {names}"


def test_every_generator_is_used(generate: ModuleType) -> None:
    used = {
        name for path in DOCS.rglob("*.md") for name in generate.MARKED.findall(path.read_text())
    }
    assert used == set(generate.GENERATORS)


def test_stale_part_is_found(generate: ModuleType, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- generated:loss-table -->\nold\n<!-- /generated -->\nafter\n")
    (new,) = generate.stale(tmp_path).values()
    assert new.startswith("before\n<!-- generated:loss-table -->\n| name |")
    assert new.endswith("<!-- /generated -->\nafter\n")
    page.write_text(new)
    assert not generate.stale(tmp_path)


def test_unknown_part_is_an_error(generate: ModuleType) -> None:
    with pytest.raises(KeyError, match="nothing"):
        generate.render("<!-- generated:nothing -->\n<!-- /generated -->")


def test_docstring_is_taken_apart(generate: ModuleType) -> None:
    def example() -> None:
        """Say something.

        More about :func:`it`.

        Args:
            first: What is
                meant.
            second: Other.

        Returns:
            Nothing.
        """

    text, arguments = generate.docstring(example)
    assert text == "Say something.\n\nMore about `it`."
    assert arguments == {"first": "What is meant.", "second": "Other."}
