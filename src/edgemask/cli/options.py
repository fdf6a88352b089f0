"""Options that several verbs share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = [
    "DataRoot",
    "Imports",
    "Json",
    "Label",
    "Quiet",
    "RowId",
    "RunPath",
    "Set",
    "TextColumns",
    "text_columns",
]

Json = Annotated[bool, typer.Option("--json", help="Print JSON for a program to read.")]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print nothing but errors and the last line.")
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Any setting of a run, such as optim.lr=0.1; may be repeated.",
    ),
]
DataRoot = Annotated[
    Path | None,
    typer.Option(
        "--data-root",
        metavar="DIR",
        help="Folder of the known datasets (cifar10 ...). (default: $EDGEMASK_DATA)",
    ),
]
Label = Annotated[
    str | None,
    typer.Option(
        "--label",
        metavar="COLUMN",
        rich_help_panel="What is learned",
        help="The column of labels in csv:FILE or parquet:FILE. (default: label)",
    ),
]
RowId = Annotated[
    str | None,
    typer.Option(
        "--id",
        metavar="COLUMN",
        rich_help_panel="What is learned",
        help="The column that names the rows. (default: row numbers from 0)",
    ),
]
TextColumns = Annotated[
    list[str] | None,
    typer.Option(
        "--text",
        metavar="COLUMN",
        rich_help_panel="What is learned",
        help="The column that holds text, the only one to learn from; may be repeated.",
    ),
]
RunPath = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.")]


def _import(context: typer.Context, modules: list[str] | None) -> list[str] | None:
    if modules and not context.resilient_parsing:
        from edgemask.engine.job import import_modules

        import_modules(modules)
    return modules


Imports = Annotated[
    list[str] | None,
    typer.Option(
        "--import",
        metavar="MODULE",
        help="Python module with losses, methods ... of your own; may be repeated.",
        callback=_import,
        is_eager=True,
    ),
]


def text_columns(columns: list[str] | None) -> str | list[str] | None:
    """Return the columns of ``--text``, a single one as a plain name."""
    return columns[0] if columns and len(columns) == 1 else columns or None
