"""Help in plain words: options are shown by what they take, never by types of Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from typer.core import TyperCommand, TyperGroup

__all__ = ["PlainCommand", "PlainGroup"]


class _PlainHelp:
    """What commands and groups of commands have in common."""

    help: str | None

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        if self.help:  # one line per paragraph, so that the terminal wraps it
            self.help = "\n\n".join(" ".join(part.split()) for part in self.help.split("\n\n"))

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters, with nothing beside a flag or an argument but its meaning."""
        parameters: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for parameter in parameters:
            if parameter.param_type_name == "argument":
                # Typer's newer versions show the type of an argument after its name.
                vars(parameter)["display_type_rich"] = _nothing
            elif parameter.is_flag:
                parameter.metavar = ""
        return parameters

    def collect_usage_pieces(self, ctx: Any) -> Sequence[str]:
        """Return the words of the usage line: ``[OPTIONS] RUN [FILE...]``."""
        pieces: Sequence[str] = super().collect_usage_pieces(ctx)  # type: ignore[misc]
        arguments = [p for p in self.get_params(ctx) if p.param_type_name == "argument"]
        return [*pieces[: len(pieces) - len(arguments)], *map(_called, arguments)]


class PlainCommand(_PlainHelp, TyperCommand):  # type: ignore[misc]
    """A command."""


class PlainGroup(_PlainHelp, TyperGroup):  # type: ignore[misc]
    """A group of commands."""


def _nothing(ctx: Any) -> None:
    """Show no type."""


def _called(argument: Any) -> str:
    name = f"{argument.metavar or argument.name}{'...' if argument.nargs != 1 else ''}"
    return name if argument.required else f"[{name}]"
