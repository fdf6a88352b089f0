"""Every head, loss, kind of noise, method and dataset has a card with its formula and source."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from edgemask.data import DATASETS
from edgemask.heads import HEADS
from edgemask.losses import LOSSES
from edgemask.methods import METHODS
from edgemask.noise import NOISE

DOCS = Path(__file__).parents[2] / "docs"
# A name that stands for labels as they come has no formula.
WITHOUT_FORMULA = ("given", "human", "file")


def cards(page: str, level: str = "###") -> dict[str, str]:
    """Return the text below each heading that is a name in code."""
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    parts = re.split(r"^(#+) (.*)$", text, flags=re.MULTILINE)
    headings = zip(parts[1::3], parts[2::3], parts[3::3], strict=True)
    return {
        re.match("`([^`]+)`", title)[1]: body
        for depth, title, body in headings
        if depth == level and title.startswith("`")
    }


@pytest.mark.parametrize(
    ("page", "registry"), [("heads", HEADS), ("losses", LOSSES), ("noise", NOISE)]
)
def test_cards_have_formula_and_source(page, registry) -> None:
    found = cards(page)
    assert set(registry) <= set(found)
    for name in registry:
        assert re.search(r"^- (Source|Paper): \S", found[name], re.MULTILINE), name
        if name not in WITHOUT_FORMULA:
            assert re.search(r"Loss of one sample: `|`[^`]*[=(+*][^`]*`", found[name]), name


def test_cards_of_methods() -> None:
    hand_written, generated = cards("methods", "##"), cards("methods")
    assert set(METHODS) == set(hand_written) == set(generated)
    for name in METHODS:
        assert re.search(r"- \*\*Formula\.\*\* [^`]*`", hand_written[name]), name
        assert re.search(r"^- Paper: \S", generated[name], re.MULTILINE), name


def test_cards_of_datasets() -> None:
    found = cards("data")
    assert set(DATASETS) <= set(found)
    for name in DATASETS:
        assert re.search(r"^- Source: \S", found[name], re.MULTILINE), name
