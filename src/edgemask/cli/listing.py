"""``edgemask list``: what there is, by name."""

from __future__ import annotations

import re
from enum import StrEnum
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any

import typer

from edgemask.cli.names import KINDS
from edgemask.cli.options import Imports, Json

if TYPE_CHECKING:
    from edgemask._registry import Registry

__all__ = ["list_names", "registry"]

if TYPE_CHECKING:
    Kind = StrEnum
else:
    Kind = StrEnum("Kind", {kind: kind for kind in KINDS})


def list_names(
    kind: Annotated[
        Kind,
        typer.Argument(
            metavar="KIND", help=f"What to list: {', '.join(KINDS)}.", show_default=False
        ),
    ],
    as_json: Json = False,
    imports: Imports = None,
) -> None:
    """List heads, losses, noise, data, models, methods or recipes."""
    from edgemask.cli.screen import print_json, print_table

    names = registry(str(kind))
    columns = {"summary": "what it is"} | (_METHOD_COLUMNS if str(kind) == "methods" else {})
    rows = [
        {"name": name, "summary": _plain(text)}
        | (_about_method(names[name]) if str(kind) == "methods" else {})
        for name, text in names.summaries().items()
    ]
    if as_json:
        print_json(rows)
    else:
        header = ["name", *columns.values()]
        print_table(header, [[row[key] for key in ("name", *columns)] for row in rows])


_METHOD_COLUMNS = {
    "networks": "networks",
    "needs": "needs to know",
    "passes": "passes per step",
}


def _about_method(method: Any) -> dict[str, str]:
    """Return what a method costs and needs, in words."""
    passes = [f"{phase} {made}" for phase, made in method.passes().items()]
    return {
        "networks": str(len(method.networks) + len(method.copies)),
        "needs": method.needs,
        "passes": ", ".join(passes),
    }


def registry(kind: str) -> Registry[Any]:
    """Return the registry of a kind."""
    package, variable = KINDS[kind]
    found: Registry[Any] = getattr(import_module(f"edgemask.{package}"), variable)
    return found


def _plain(text: str) -> str:
    """Take the marks of reStructuredText out of a docstring's first sentence."""
    return re.sub(r":[\w:]+:`~?([^`]+)`", r"\1", text).replace("``", "")
