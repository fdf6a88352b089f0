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
    kind: Annotated[Kind, typer.Argument(help="What to list.", show_default=False)],
    as_json: Json = False,
    imports: Imports = None,
) -> None:
    """List heads, losses, noise, data, models, methods or recipes."""
    from edgemask.cli.screen import print_json, print_table

    found = registry(str(kind)).summaries()
    summaries = {name: _plain(text) for name, text in found.items()}
    if as_json:
        print_json([{"name": name, "summary": text} for name, text in summaries.items()])
    else:
        print_table(["name", "what it is"], list(summaries.items()))


def registry(kind: str) -> Registry[Any]:
    """Return the registry of a kind."""
    package, variable = KINDS[kind]
    found: Registry[Any] = getattr(import_module(f"edgemask.{package}"), variable)
    return found


def _plain(text: str) -> str:
    """Take the marks of reStructuredText out of a docstring's first sentence."""
    return re.sub(r":[\w:]+:`~?([^`]+)`", r"\1", text).replace("``", "")
