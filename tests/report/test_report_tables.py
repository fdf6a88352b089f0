"""The table model and its renderers."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgemask.report import Table, TableCell, number, percent, spread
from edgemask.report.page import environment


def as_html(table: Table, *, sortable: bool = False) -> str:
    return str(environment().get_template("macros.html").module.table(table, sortable))


@pytest.fixture
def table() -> Table:
    return Table(
        ["loss", "accuracy (%)"],
        [
            ["ce", spread([0.80, 0.82])],
            ["a|b_&", TableCell(text="90.00", value=0.9, best=True)],
            ["none", None],
        ],
        caption="Test",
        notes=["one note"],
    )


def test_text_is_aligned_and_marks_the_unknown(table: Table) -> None:
    assert table.to_text().splitlines() == [
        "Test",
        "",
        "loss       accuracy (%)",
        "-----  ----------------",
        "ce     81.00 ± 1.41 (2)",
        "a|b_&             90.00",
        "none                  –",
        "one note",
    ]


def test_markdown_has_a_rule_escapes_and_bold(table: Table) -> None:
    assert table.to_markdown().splitlines() == [
        "Test",
        "",
        "| loss | accuracy (%) |",
        "| :-- | --: |",
        "| ce | 81.00 ± 1.41 (2) |",
        r"| a\|b\_&amp; | **90.00** |",
        "| none | – |",
        "",
        "one note  ",
    ]


def test_latex_uses_booktabs_and_escapes(table: Table) -> None:
    latex = table.to_latex()
    assert r"\begin{tabular}{lr}" in latex
    assert r"ce & 81.00 $\pm$ 1.41 (2) \\" in latex
    assert r"a|b\_\& & \textbf{90.00} \\" in latex
    assert latex.index(r"\toprule") < latex.index(r"\midrule") < latex.index(r"\bottomrule")
    assert Table(["a"], [["b"]]).to_latex().startswith(r"\begin{tabular}{l}")


def test_csv_holds_full_precision_and_splits_spreads(table: Table) -> None:
    rows = list(csv.reader(io.StringIO(table.to_csv())))
    assert rows[0] == ["loss", "accuracy (%) mean", "accuracy (%) std", "accuracy (%) n"]
    assert float(rows[1][1]) == pytest.approx(0.81)
    assert float(rows[1][2]) == pytest.approx(0.02 / 2**0.5)
    assert rows[1][3] == "2"
    assert rows[3] == ["none", "", "", ""]


def test_html_sorts_by_value_and_scrolls(table: Table) -> None:
    html = as_html(table, sortable=True)
    assert 'class="scroll"' in html
    assert 'data-sort="0.9"><strong>90.00</strong>' in html
    assert html.count("<button") == 2
    assert "<button" not in as_html(table)


def test_spread_leaves_out_the_unknown() -> None:
    assert spread([None, float("nan")]).value is None
    alone = spread([0.5, None])
    assert (alone.text, alone.std, alone.n) == ("50.00 (1)", None, 1)
    assert spread([1.0, 3.0], scale=1, digits=1).text == "2.0 ± 1.4 (2)"


def test_numbers_that_are_none_or_infinite_are_unknown() -> None:
    assert percent(None).text == percent(float("inf")).text == number(float("nan")).text == "–"
    assert percent(0.12345).text == "12.35"
    assert number(3.14159, digits=3).text == "3.142"


def test_wide_characters_keep_the_columns_aligned() -> None:
    lines = Table(["a", "b"], [["犬", 1], ["dog", 2]]).to_text().splitlines()
    assert lines[2] == "犬   1"
    assert lines[3] == "dog  2"


def test_rows_must_fit_the_columns() -> None:
    with pytest.raises(ValueError, match="row 1 has 1 cells for 2 columns"):
        Table(["a", "b"], [[1, 2], [1]])


def test_pick_chooses_and_orders_columns(table: Table) -> None:
    picked = table.pick("accuracy (%)", "no such", "loss")
    assert picked.columns == ["accuracy (%)", "loss"]
    assert picked.rows[2] == [None, "none"]


@given(st.text(), st.text())
def test_any_text_keeps_the_shape_of_every_format(first: str, second: str) -> None:
    table = Table([first, second], [[second, first]], text_columns=2)
    assert [len(row) for row in csv.reader(io.StringIO(table.to_csv()))] == [2, 2]
    assert table.to_text().count("\n") == 2
    markdown = table.to_markdown().splitlines()
    assert len(markdown) == 3
    for line in markdown:
        assert line.replace("\\\\", "").replace("\\|", "").count("|") == 3
    assert as_html(table).count("<td") == 1
