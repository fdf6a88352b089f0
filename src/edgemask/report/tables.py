"""One table, shown as text, Markdown, LaTeX or CSV; the template ``table`` shows it as HTML."""

from __future__ import annotations

import csv
import io
import math
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from statistics import fmean, stdev
from typing import TypeAlias

from edgemask.report.escape import as_csv, as_latex, as_markdown, printable

__all__ = ["UNKNOWN", "Table", "TableCell", "TableRow", "number", "percent", "spread"]

UNKNOWN = "–"
TableRow: TypeAlias = "Sequence[TableCell | str | float | None]"


@dataclass(frozen=True, kw_only=True)
class TableCell:
    """What a table holds at one place."""

    text: str
    """What people read."""
    value: float | str | None = None
    """What programs read and what the table is sorted by; for a spread, the mean."""
    std: float | None = None
    """Sample standard deviation over the runs, where there are two or more."""
    n: int | None = None
    """Number of runs behind a spread."""
    best: bool = False
    """Set in bold."""


def as_cell(value: TableCell | str | float | None) -> TableCell:
    """Return any value as a cell."""
    if isinstance(value, TableCell):
        return value
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return TableCell(text=UNKNOWN)
    return TableCell(text=str(value), value=value)


def number(value: float | None, *, digits: int = 2) -> TableCell:
    """Return a number with a fixed count of decimals."""
    if value is None or not math.isfinite(value):
        return TableCell(text=UNKNOWN)
    return TableCell(text=f"{value:.{digits}f}", value=value)


def percent(value: float | None, *, digits: int = 2) -> TableCell:
    """Return a fraction as a percentage; the unit belongs in the title of the column.

    Example:
        >>> percent(0.8142).text
        '81.42'
    """
    if value is None or not math.isfinite(value):
        return TableCell(text=UNKNOWN)
    return TableCell(text=f"{100 * value:.{digits}f}", value=value)


def spread(
    values: Iterable[float | None], *, digits: int = 2, scale: float = 100.0, of: int | None = None
) -> TableCell:
    """Return mean ± sample standard deviation (n - 1) of what is known, with the count.

    A single value has no deviation and shows none.

    Args:
        values: One value per run.
        digits: Decimals.
        scale: Factor for display; 100 shows fractions as percentages.
        of: The usual count, which is not shown.

    Example:
        >>> spread([0.8, 0.82]).text
        '81.00 ± 1.41 (2)'
    """
    known = [value for value in values if value is not None and math.isfinite(value)]
    if not known:
        return TableCell(text=UNKNOWN)
    mean, count = fmean(known), len(known)
    text = f"{scale * mean:.{digits}f}"
    std = stdev(known) if count > 1 else None
    if std is not None:
        text += f" ± {scale * std:.{digits}f}"
    if count != of:
        text += f" ({count})"
    return TableCell(text=text, value=mean, std=std, n=count)


@dataclass(frozen=True)
class Table:
    """Rows under titles; every renderer escapes for its own place.

    Args:
        columns: The titles.
        rows: The cells; strings and numbers become cells.
        caption: One line above or below.
        notes: Lines below.
        text_columns: How many columns from the left hold text; the others are set to the right.

    Example:
        >>> table = Table(["loss", "accuracy (%)"], [["ce", percent(0.5)], ["jal", percent(0.625)]])
        >>> print(table.to_text())
        loss  accuracy (%)
        ----  ------------
        ce           50.00
        jal          62.50
    """

    columns: Sequence[str]
    rows: Sequence[TableRow]
    caption: str = ""
    notes: Sequence[str] = field(default=())
    text_columns: int = 1

    def __post_init__(self) -> None:
        for place, row in enumerate(self.rows):
            if len(row) != len(self.columns):
                raise ValueError(
                    f"row {place} has {len(row)} cells for {len(self.columns)} columns"
                )

    @property
    def cells(self) -> list[list[TableCell]]:
        """All cells, row by row."""
        return [[as_cell(value) for value in row] for row in self.rows]

    def pick(self, *titles: str) -> Table:
        """Return the columns of these titles, in this order; unknown titles are left out."""
        places = [self.columns.index(title) for title in titles if title in self.columns]
        text = sum(place < self.text_columns for place in places)
        rows = [[row[place] for place in places] for row in self.rows]
        return Table(
            [self.columns[place] for place in places], rows, self.caption, self.notes, text
        )

    def to_text(self) -> str:
        """Return the table for a terminal."""
        lines = [[printable(title) for title in self.columns]]
        lines += [[printable(item.text) for item in row] for row in self.cells]
        widths = [max(map(_width, column)) for column in zip(*lines, strict=True)]
        lines.insert(1, ["-" * width for width in widths])
        body = [
            "  ".join(
                text + pad if place < self.text_columns else pad + text
                for place, (text, pad) in enumerate(_padded(line, widths))
            ).rstrip()
            for line in lines
        ]
        head = [printable(self.caption), ""] if self.caption else []
        return "\n".join([*head, *body, *map(printable, self.notes)])

    def to_markdown(self) -> str:
        """Return the table in GitHub's Markdown."""
        rule = [":--" if place < self.text_columns else "--:" for place in range(len(self.columns))]
        rows = [[_marked(item, as_markdown, "**{}**") or " " for item in row] for row in self.cells]
        lines = [
            f"| {' | '.join(line)} |"
            for line in [[as_markdown(title) for title in self.columns], rule, *rows]
        ]
        head = [as_markdown(self.caption), ""] if self.caption else []
        notes = ["", *(f"{as_markdown(note)}  " for note in self.notes)] if self.notes else []
        return "\n".join([*head, *lines, *notes])

    def to_latex(self) -> str:
        r"""Return the table for LaTeX with the package ``booktabs``."""
        right = len(self.columns) - self.text_columns
        rows = [[_marked(item, as_latex, r"\textbf{{{}}}") for item in row] for row in self.cells]
        lines = [
            rf"\begin{{tabular}}{{{'l' * self.text_columns}{'r' * right}}}",
            r"\toprule",
            " & ".join(as_latex(title) for title in self.columns) + r" \\",
            r"\midrule",
            *(" & ".join(row) + r" \\" for row in rows),
            r"\bottomrule",
            r"\end{tabular}",
        ]
        if not self.caption and not self.notes:
            return "\n".join(lines)
        notes = [rf"\par\smallskip\footnotesize {as_latex(note)}" for note in self.notes]
        caption = [rf"\caption{{{as_latex(self.caption)}}}"] if self.caption else []
        return "\n".join(
            [r"\begin{table}", r"\centering", *caption, *lines, *notes, r"\end{table}"]
        )

    def to_csv(self) -> str:
        """Return the values as CSV: full precision, a spread as three columns (mean, std, n)."""
        cells = self.cells
        wide = [
            any(row[place].n is not None for row in cells) for place in range(len(self.columns))
        ]
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        titles: list[str] = []
        for title, several in zip(self.columns, wide, strict=True):
            title = as_csv(title)
            titles += [f"{title} mean", f"{title} std", f"{title} n"] if several else [title]
        writer.writerow(titles)
        for row in cells:
            line: list[str] = []
            for item, several in zip(row, wide, strict=True):
                line += map(_field, (item.value, item.std, item.n) if several else (item.value,))
            writer.writerow(line)
        return out.getvalue()


def _marked(item: TableCell, escape: Callable[[object], str], bold: str) -> str:
    text = escape(item.text)
    return bold.format(text) if item.best and text else text


def _field(value: float | str | None) -> str:
    if value is None:
        return ""
    return as_csv(value) if isinstance(value, str) else repr(value)


def _width(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1
        for char in text
    )


def _padded(line: Sequence[str], widths: Sequence[int]) -> Iterable[tuple[str, str]]:
    return ((text, " " * (width - _width(text))) for text, width in zip(line, widths, strict=True))
