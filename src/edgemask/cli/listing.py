"""``edgemask list``: what there is, by name."""

from __future__ import annotations

import functools
import re
import tomllib
from enum import StrEnum
from importlib import import_module
from importlib.resources import files
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
    from edgemask.cli.screen import print_json, print_table, say

    names = registry(str(kind))
    columns = {"summary": "what it is"} | (_METHOD_COLUMNS if str(kind) == "methods" else {})
    rows = [
        {"name": name, "summary": _plain(text)}
        | (_about_method(name, names[name]) if str(kind) == "methods" else {})
        for name, text in names.summaries().items()
    ]
    if as_json:
        print_json(rows)
        return
    header = ["name", *columns.values()]
    print_table(header, [[row[key] for key in ("name", *columns)] for row in rows])
    if str(kind) == "methods":
        say(f"\n{_METHOD_NOTE}", err=True)


_MEASURED = ("accuracy", "precision", "recall", "cost")
_METHOD_COLUMNS = {
    "networks": "networks",
    "needs": "needs to know",
    "passes": "passes per step",
    **{key: key for key in _MEASURED},
}
_METHOD_NOTE = """\
No method needs clean validation images. Passes: all / those with a gradient, over all networks.
Accuracy (%), precision and recall (%) of the selected labels, and processor time of an epoch over
that of CE: linear / SEM head, human labels of CIFAR-10N worst at laptop scale, one seed;
`edgemask reproduce methods` repeats it."""


def _about_method(name: str, method: Any) -> dict[str, str]:
    """Return what a method needs, its cost and how it did, in words."""
    passes = [f"{phase} {made}" for phase, made in method.passes().items()]
    return {
        "networks": str(len(method.networks) + len(method.copies)),
        "needs": method.needs,
        "passes": ", ".join(passes),
        **{key: _measured().get(name, {}).get(key, "not run") for key in _MEASURED},
    }


@functools.cache
def _measured() -> dict[str, dict[str, str]]:
    """Read what was measured of the methods: name -> column -> linear / SEM head."""
    text = files("edgemask.methods").joinpath("measured.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def registry(kind: str) -> Registry[Any]:
    """Return the registry of a kind."""
    package, variable = KINDS[kind]
    found: Registry[Any] = getattr(import_module(f"edgemask.{package}"), variable)
    return found


def _plain(text: str) -> str:
    """Take the marks of reStructuredText out of a docstring's first sentence."""
    return re.sub(r":[\w:]+:`~?([^`]+)`", r"\1", text).replace("``", "")
