"""Options that several verbs share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["DataRoot", "Imports", "Json", "Quiet", "RunPath", "Set"]

Json = Annotated[bool, typer.Option("--json", help="Print JSON for a program to read.")]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print nothing but errors and the last line.")
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Any setting: optim.lr=0.1; may be repeated."),
]
DataRoot = Annotated[
    Path | None,
    typer.Option(
        "--data-root", metavar="DIR", help="Folder of the named datasets. (default: $EDGEMASK_DATA)"
    ),
]
RunPath = Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run.")]


def _import(context: typer.Context, modules: list[str] | None) -> list[str] | None:
    if modules and not context.resilient_parsing:
        from edgemask.engine.jobs import import_modules

        import_modules(modules)
    return modules


Imports = Annotated[
    list[str] | None,
    typer.Option(
        "--import",
        metavar="MODULE",
        help="Module that registers names of your own, imported first; may be repeated.",
        callback=_import,
        is_eager=True,
    ),
]
