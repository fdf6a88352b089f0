"""Hostile text in every place where it may be shown."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import escape

from edgemask.report.escape import as_csv, as_latex, as_markdown, printable
from edgemask.report.page import environment
from sweeps import sweep


@given(st.text())
def test_plain_text_is_one_visible_line_that_utf8_can_hold(text: str) -> None:
    shown = printable(text)
    assert len(shown.splitlines()) <= 1
    assert not any(ord(char) < 32 or char in "\x7f\u202e\u2066" for char in shown)
    shown.encode("utf-8")


def test_long_text_is_cut_with_a_sign() -> None:
    assert printable("x" * 1000) == "x" * 299 + "…"
    assert len(printable("x" * 1000, max_length=None)) == 1000


def rendered(template: str, value: object) -> str:
    """Return what a template of the page shows for a value."""
    return environment().from_string(template).render(value=value)


@given(st.text())
def test_the_templates_show_text_without_markup(text: str) -> None:
    for template in ("{{ value }}", "{{ value|whole }}", "{{ [value, value]|join(' ') }}"):
        shown = rendered(template, text)
        assert not set(shown) & set("<>\"'\x1b\u202e\n")
    assert rendered("{{ value }}", text) == str(escape(printable(text)))


def test_the_templates_cut_long_text_where_it_is_not_wanted_whole() -> None:
    assert len(rendered("{{ value }}", "x" * 1000)) == 300
    assert len(rendered("{{ value|whole }}", "x" * 1000)) == 1000


@given(st.recursive(st.text(), lambda inner: st.dictionaries(st.text(), inner, max_size=3)))
def test_json_cannot_leave_its_script_element_and_reads_back(value: object) -> None:
    text = rendered("{{ value|tojson }}", value)
    assert not set(text) & set("<>&")
    assert json.loads(text) == value


def test_json_refuses_what_browsers_cannot_parse() -> None:
    with pytest.raises(ValueError):
        rendered("{{ value|tojson }}", [float("nan")])


@sweep("text", ["=1+1", "+1", "-1", "@SUM(A1)", " =1", "'=1", "|calc", "%0A"])
def test_csv_fields_are_never_formulas(text: str) -> None:
    assert as_csv(text) == "'" + text


def test_csv_shows_what_starts_with_a_tab_as_text() -> None:
    assert as_csv("\t=1") == "\\t=1"
    assert as_csv("dog") == "dog"


def test_markdown_has_neither_links_nor_markup_nor_cells() -> None:
    shown = as_markdown("[a](javascript:b) <b> `c` | *d* https://e.f")
    assert shown == (r"\[a\](javascript:b) \<b\> \`c\` \| \*d\* " + "https:\u200b//e.f")
    assert as_markdown("- a") == "\\- a"
    assert as_markdown("---") == "\\---"


def test_latex_commands_are_text() -> None:
    assert as_latex(r"\input{x}") == r"\textbackslash{}input\{x\}"
    assert as_latex("a_b^c~d#e$f%g&h") == (r"a\_b\textasciicircum{}c\textasciitilde{}d\#e\$f\%g\&h")
