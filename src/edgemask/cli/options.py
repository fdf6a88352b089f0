"""Options that several verbs share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["DataRoot", "Json", "Quiet", "RunPath", "Set"]

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
