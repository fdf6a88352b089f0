"""The tables and figures of the paper as data, read from the TOML files in ``paper/``.

A new experiment is a new file there. ``docs/reproduce.md`` describes the format.
"""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from typing import Any, TypeVar

from edgemask._registry import Registry
from edgemask.errors import UserError, nearest

__all__ = [
    "EXPERIMENTS",
    "Claim",
    "CostColumn",
    "Experiment",
    "ExperimentColumn",
    "ExperimentRow",
    "FigureSpec",
    "PaperNumber",
    "TrainedSystem",
    "read_experiment",
]

T = TypeVar("T")
R = TypeVar("R", "ExperimentRow", "ExperimentColumn")


@dataclass(frozen=True)
class PaperNumber:
    """A number as the paper prints it."""

    mean: float
    """In percent, unless the column's title names another unit."""
    std: float | None = None
    """Standard deviation over the paper's runs, where it is printed."""


@dataclass(frozen=True, kw_only=True)
class TrainedSystem:
    """What is trained: loss, head and method, whatever the data and the scale."""

    loss: str = "ce"
    head: str = "linear"
    head_options: Mapping[str, Any] = field(default_factory=dict)
    """Options of the head. A value ``{"retention_of": ROW}`` is the drop rate at which as many
    edges are kept as ROW's run of the same column and seed kept at its end."""
    method: str = "supervised"
    method_options: Mapping[str, Any] = field(default_factory=dict)
    recipe_of: str = ""
    """The dataset whose recipe is taken, where none was released for the column's dataset."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Further settings, nested as in a config; they override the preset's."""


@dataclass(frozen=True, kw_only=True)
class ExperimentRow:
    """One row of a table."""

    key: str
    """What ``--only`` names it by."""
    titles: tuple[str, ...]
    """Texts of its first columns."""
    system: TrainedSystem | None = None
    """None for a system that the paper only quotes."""
    inference: str | None = None
    """Test the row's runs with this inference instead of the trained one (Table S4)."""
    metric: str | None = None
    """The metric that counts, where the released code of the row reports another one than the
    column's, such as the mean of single networks instead of their ensemble."""
    statistic: str | None = None
    """Which of a run's accuracies counts; None takes the column's."""
    columns: tuple[str, ...] | None = None
    """The only columns that it has cells in; None means all."""
    source: str = ""
    """The source of its options, where it is not that of the table's rows."""


@dataclass(frozen=True, kw_only=True)
class ExperimentColumn:
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
    """Settings of all runs of the column (a value of rho, a batch size)."""
    x: float | None = None
    """Its value on the horizontal axis of a figure."""
    group: str = ""
    """Columns of one group make one panel of a figure."""
    source: str = ""
    """The source of the column, where it is not the paper's table."""


@dataclass(frozen=True)
class Claim:
    """That one row is better than another, in every column that has both."""

    better: str
    worse: str


@dataclass(frozen=True, kw_only=True)
class FigureSpec:
    """How a figure is drawn."""

    kind: str
    """The name of a function in :mod:`edgemask.reproduce.figures`."""
    metrics: tuple[str, ...] = ()
    """Metrics over epochs that it shows."""
    x_title: str = ""


@dataclass(frozen=True, kw_only=True)
class CostColumn:
    """A column with processor time per epoch, over that of one row with the same seed."""

    over: str
    """The key of that row."""
    title: str


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """A table or figure."""

    name: str
    title: str
    source: Mapping[str, str]
    """Where ``numbers``, ``rows`` and noise ``protocol`` come from."""
    rows: tuple[ExperimentRow, ...] = ()
    columns: tuple[ExperimentColumn, ...] = ()
    row_titles: tuple[str, ...] = ("method",)
    paper: Mapping[tuple[str, str], PaperNumber] = field(default_factory=dict)
    """The paper's numbers by (row, column)."""
    claims: tuple[Claim, ...] = ()
    records: tuple[str, ...] = ()
    """What its runs have to record besides the usual (``log.record``)."""
    figure: FigureSpec | None = None
    seeds: int = 3
    """Seeds that the paper's number has, or that a figure shows."""
    notes: tuple[str, ...] = ()
    extras: Mapping[str, str] = field(default_factory=dict)
    """Further numbers of the runs shown beside: metric of the last epoch -> title."""
    cost: CostColumn | None = None
    """A column with the cost of the runs."""
    measure: str | None = None
    """The name of a function in :mod:`edgemask.reproduce.measures` that makes the whole table
    without training."""
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Settings as the paper prints them, by recipe (Table S6)."""

    @property
    def __doc__(self) -> str:  # type: ignore[override]
        return self.title

    def cells(self) -> list[tuple[ExperimentRow, ExperimentColumn]]:
        """Return the cells of the table, row by row."""
        return [
            (row, column)
            for row in self.rows
            for column in self.columns
            if row.columns is None or column.key in row.columns
        ]

    def row(self, key: str) -> ExperimentRow:
        """Return the row of a key."""
        return self._find("row", self.rows, key)

    def column(self, key: str) -> ExperimentColumn:
        """Return the column of a key."""
        return self._find("column", self.columns, key)

    def _find(self, kind: str, entries: Sequence[R], key: str) -> R:
        for entry in entries:
            if entry.key == key:
                return entry
        known = ", ".join(entry.key for entry in entries)
        raise UserError(f"{self.name} has no {kind} {key!r}; its {kind}s are {known}")


def read_toml(name: str) -> dict[str, Any]:
    """Read a TOML file of this subpackage."""
    text = resources.files("edgemask.reproduce").joinpath(name).read_text(encoding="utf-8")
    return tomllib.loads(text)


def from_table(kind: type[T], table: Mapping[str, Any], place: str, **given: Any) -> T:
    """Make a data class from a TOML table.

    Args:
        kind: The data class; arrays become tuples.
        table: The table.
        place: File and key, for error messages.
        given: Fields that do not come from the table.

    Raises:
        UserError: Names the place and a key that is unknown or missing.
    """
    fields = {entry.name: entry for entry in dataclasses.fields(kind)}  # type: ignore[arg-type]
    for key in table:
        if key not in fields or key in given:
            raise UserError(f"{place}: unknown key {key!r}{nearest(key, fields)}")
    for key, entry in fields.items():
        required = entry.default is entry.default_factory is dataclasses.MISSING
        if required and key not in table and key not in given:
            raise UserError(f"{place}: the key {key!r} is missing")
    values = {k: tuple(v) if isinstance(v, list) else v for k, v in table.items()}
    return kind(**values, **given)


def read_experiment(name: str, table: Mapping[str, Any]) -> Experiment:
    """Make an experiment from the contents of its TOML file, and check it.

    Args:
        name: The name of the experiment.
        table: The contents of ``paper/NAME.toml``.

    Raises:
        UserError: Names file and key of what is wrong.
    """
    file = f"paper/{name}.toml"
    table = dict(table)
    columns: list[ExperimentColumn] = []
    for number, entry in enumerate(table.pop("columns", [])):
        columns += _columns(entry, f"{file}: columns[{number}]")
    rows: list[ExperimentRow] = []
    paper: dict[tuple[str, str], PaperNumber] = {}
    keys = [column.key for column in columns]
    for number, entry in enumerate(table.pop("rows", [])):
        place = f"{file}: rows[{number}] ({entry.get('key')})"
        entry = dict(entry)
        numbers = _paper_numbers(entry.pop("paper", ""), keys, f"{place}: paper")
        row = _row(entry, place)
        _known(row.columns or (), keys, f"{place}: columns")
        rows.append(row)
        paper |= {(row.key, column): value for column, value in numbers.items()}
    claims = tuple(_claims(table.pop("claims", []), [row.key for row in rows], file))
    figure = table.pop("figure", None)
    if figure is not None:
        figure = from_table(FigureSpec, figure, f"{file}: figure")
    cost = table.pop("cost", None)
    if cost is not None:
        cost = from_table(CostColumn, cost, f"{file}: cost")
        _known([cost.over], [row.key for row in rows], f"{file}: cost.over")
    for key in ("numbers", "protocol", "rows"):
        if not table.get("source", {}).get(key):
            raise UserError(f"{file}: the key 'source.{key}' is missing")
    return from_table(
        Experiment,
        table,
        file,
        name=name,
        rows=tuple(rows),
        columns=tuple(columns),
        paper=paper,
        claims=claims,
        figure=figure,
        cost=cost,
    )


def _known(keys: Sequence[str], known: Sequence[str], place: str) -> None:
    for key in keys:
        if key not in known:
            raise UserError(f"{place}: there is no {key!r}{nearest(key, known)}")


def _row(table: dict[str, Any], place: str) -> ExperimentRow:
    """Read a row; it may hold the keys of a system."""
    if table.pop("cited", False):
        return from_table(ExperimentRow, table, place, system=None)
    names = {entry.name for entry in dataclasses.fields(TrainedSystem)}
    system = {key: table.pop(key) for key in names & set(table)}
    return from_table(ExperimentRow, table, place, system=from_table(TrainedSystem, system, place))


_DATASET_TITLES = {"cifar10": "CIFAR-10", "cifar100": "CIFAR-100", "cifar80n-o": "CIFAR80N-O"}


def _columns(table: Mapping[str, Any], place: str) -> Iterator[ExperimentColumn]:
    """Read a column, or several: one per noise (as the paper names it), one per point."""
    if "noises" not in table:
        yield from_table(ExperimentColumn, table, place)
        return
    table = dict(table)
    noises, varied = table.pop("noises"), table.pop("varied", "")
    points = table.pop("points", [])
    _known([table.get("dataset", "")], list(_DATASET_TITLES), f"{place}: dataset")
    if any(point.keys() != {"x", "settings"} for point in points):
        raise UserError(f"{place}: points: each needs the keys 'x' and 'settings', and no others")
    for name in noises:
        kind, _, rate = name.partition("-")
        base = from_table(
            ExperimentColumn,
            table,
            place,
            key=f"{table['dataset']}-{name.lower()}",
            title=f"{_DATASET_TITLES[table['dataset']]} {name}{' %' if rate else ''}",
            noise=f"{kind.lower()}:{int(rate) / 100:g}" if rate else "none",
        )
        if not points:
            yield base
        for point in points:
            yield dataclasses.replace(
                base,
                key=f"{base.key}-{varied}-{point['x']:g}",
                title=f"{base.title}, {varied} {point['x']:g}",
                settings=point["settings"],
                x=point["x"],
                group=base.title,
            )


def _paper_numbers(text: str, columns: Sequence[str], place: str) -> dict[str, PaperNumber]:
    """Read a row of numbers as the paper prints them: ``"90.50±0.22 75.21±0.39 -"``."""
    texts = text.split()
    if texts and len(texts) != len(columns):
        raise UserError(f"{place}: {len(texts)} numbers for {len(columns)} columns")
    numbers = {}
    for column, number in zip(columns, texts, strict=False):
        if number == "-":
            continue
        mean, _, std = number.partition("±")
        try:
            numbers[column] = PaperNumber(float(mean), float(std) if std else None)
        except ValueError:
            raise UserError(
                f"{place}: expected numbers such as 90.50±0.22, or -, got {number!r}"
            ) from None
    return numbers


def _claims(texts: Sequence[str], rows: Sequence[str], file: str) -> Iterator[Claim]:
    for number, text in enumerate(texts):
        better, sign, worse = text.partition(" > ")
        if not sign:
            raise UserError(f"{file}: claims[{number}]: expected 'row > row', got {text!r}")
        _known([better, worse], rows, f"{file}: claims[{number}]")
        yield Claim(better, worse)


def _order(name: str) -> tuple[int, int]:
    """Tables first, those of the supplement after those of the paper, then by number."""
    kinds = ("table", "tables", "figure", "figures", "controls", "methods")
    kind = name.rstrip("0123456789")
    place = kinds.index(kind) if kind in kinds else len(kinds)
    return place, int(name[len(kind) :] or 0)


def _read_all() -> dict[str, Experiment]:
    folder = resources.files("edgemask.reproduce").joinpath("paper")
    names = [file.name.removesuffix(".toml") for file in folder.iterdir()]
    return {
        name: read_experiment(name, read_toml(f"paper/{name}.toml"))
        for name in sorted(names, key=_order)
    }


EXPERIMENTS: Registry[Experiment] = Registry("experiment", _read_all())
