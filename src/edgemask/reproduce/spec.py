"""A table or figure of the paper as data: rows, columns, systems, and the numbers printed there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from edgemask.errors import UserError

__all__ = [
    "AtRetentionOf",
    "Claim",
    "Column",
    "Experiment",
    "Number",
    "Picture",
    "Row",
    "System",
    "claims_over",
    "numbers",
]


@dataclass(frozen=True)
class Number:
    """A number as the paper prints it."""

    mean: float
    """In percent, unless the column says otherwise."""
    std: float | None = None
    """Standard deviation over the paper's runs, where it is printed."""


@dataclass(frozen=True)
class AtRetentionOf:
    """A drop rate that makes a head keep as many edges as another row's runs kept at their end."""

    row: str
    """The key of that row; the run of the same column and seed counts."""


@dataclass(frozen=True, kw_only=True)
class System:
    """What is trained: loss, head and method, whatever the data and the scale."""

    loss: str = "ce"
    head: str = "linear"
    head_options: Mapping[str, Any] = field(default_factory=dict)
    method: str = "supervised"
    method_options: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Further settings, nested as in a config; they go before the preset's."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One row of a table."""

    key: str
    """What ``--only`` names it by."""
    titles: tuple[str, ...]
    """Texts of its first columns."""
    system: System | None = None
    """None for a system that the paper only quotes."""
    inference: str | None = None
    """Test the row's runs in this way instead of as trained (Table S4)."""
    statistic: str | None = None
    """Which of a run's accuracies counts; None takes the column's."""
    columns: tuple[str, ...] | None = None
    """The only columns that it has cells in; None means all."""


@dataclass(frozen=True, kw_only=True)
class Column:
    """One column of numbers."""

    key: str
    """What ``--columns`` names it by."""
    title: str
    dataset: str = "cifar10"
    noise: str = "none"
    protocol: str = "jal"
    """Whose generator makes the noise, as in the source of the paper's numbers."""
    metric: str = "test/accuracy"
    statistic: str = "last"
    """``last``, ``mean_last_10`` or ``at_validation``."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings that the column stands for (a value of rho, a batch size)."""
    x: float | None = None
    """Where it stands on the axis of a figure."""
    group: str = ""
    """Columns of one group make one line of a figure."""


@dataclass(frozen=True)
class Claim:
    """That one row is better than another, in every column where the paper has both."""

    better: str
    worse: str


@dataclass(frozen=True, kw_only=True)
class Picture:
    """How a figure is drawn."""

    kind: str
    """The name of a drawing in :mod:`edgemask.reproduce.pictures`."""
    keys: tuple[str, ...] = ()
    """Metrics over epochs that it shows."""
    x_title: str = ""


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """A table or figure."""

    name: str
    title: str
    rows: tuple[Row, ...]
    columns: tuple[Column, ...]
    row_titles: tuple[str, ...] = ("method",)
    paper: Mapping[tuple[str, str], Number] = field(default_factory=dict)
    """The paper's numbers by (row, column)."""
    claims: tuple[Claim, ...] = ()
    records: tuple[str, ...] = ()
    """What its runs have to record besides the usual (``log.record``)."""
    picture: Picture | None = None
    seeds: int = 3
    """Seeds that the paper's number has, or that a picture shows."""
    notes: tuple[str, ...] = ()
    extras: tuple[tuple[str, str], ...] = ()
    """Further numbers of the runs that are shown beside: (metric at the last epoch, title)."""
    measure: str | None = None
    """The name of a function in :mod:`edgemask.reproduce.measures` that makes the whole table
    without training."""

    def __post_init__(self) -> None:
        rows, columns = {row.key for row in self.rows}, {column.key for column in self.columns}
        for row, column in self.paper:
            if row not in rows or column not in columns:
                raise ValueError(f"{self.name}: no cell ({row}, {column})")
        for claim in self.claims:
            if not {claim.better, claim.worse} <= rows:
                raise ValueError(f"{self.name}: {claim} speaks of no row")

    @property
    def __doc__(self) -> str:  # type: ignore[override]
        return self.title

    def cells(self) -> list[tuple[Row, Column]]:
        """Return the places of the table, row by row."""
        return [
            (row, column)
            for row in self.rows
            for column in self.columns
            if row.columns is None or column.key in row.columns
        ]

    def row(self, key: str) -> Row:
        """Return the row of a key."""
        for row in self.rows:
            if row.key == key:
                return row
        known = ", ".join(row.key for row in self.rows)
        raise UserError(f"{self.name} has no row {key!r}; its rows are {known}")

    def column(self, key: str) -> Column:
        """Return the column of a key."""
        for column in self.columns:
            if column.key == key:
                return column
        known = ", ".join(column.key for column in self.columns)
        raise UserError(f"{self.name} has no column {key!r}; its columns are {known}")


def numbers(columns: Sequence[str], lines: Mapping[str, str]) -> dict[tuple[str, str], Number]:
    """Read rows of numbers as a paper prints them: ``"90.50±0.22 75.21±0.39 -"``.

    Args:
        columns: The keys of the columns.
        lines: Row key -> its numbers; ``-`` where there is none.

    Example:
        >>> numbers(["a", "b"], {"ce": "90.50±0.22 -"})
        {('ce', 'a'): Number(mean=90.5, std=0.22)}
    """
    result = {}
    for row, line in lines.items():
        texts = line.split()
        if len(texts) != len(columns):
            raise ValueError(f"{row}: {len(texts)} numbers for {len(columns)} columns")
        for column, text in zip(columns, texts, strict=True):
            if text != "-":
                mean, _, std = text.partition("±")
                result[row, column] = Number(float(mean), float(std) if std else None)
    return result


def claims_over(better: str, *others: str) -> tuple[Claim, ...]:
    """Return the claims that one row is better than each of some others."""
    return tuple(Claim(better, other) for other in others)
