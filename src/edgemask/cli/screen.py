"""What is written to the terminal: text, tables, JSON, error messages.

Names of classes and files may come from untrusted data: control characters and marks that change
the direction of writing are shown as escape sequences.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

__all__ = [
    "complain",
    "console",
    "count",
    "duration",
    "json_text",
    "percent",
    "print_json",
    "print_table",
    "say",
]


def console(*, stderr: bool = False) -> Console:
    """Return a console that shows text as it is: no markup, and nothing that a terminal obeys."""
    from rich.console import Console

    class PlainConsole(Console):
        def print(self, *objects: Any, **options: Any) -> None:
            super().print(*(_visible(o) if isinstance(o, str) else o for o in objects), **options)

    return PlainConsole(stderr=stderr, markup=False, highlight=False, emoji=False, soft_wrap=True)


def _visible(text: str) -> str:
    from edgemask._text import printable

    return "\n".join(printable(line, max_length=None) for line in text.split("\n"))


def say(text: object = "", *, err: bool = False) -> None:
    """Write text that may hold foreign names; what a terminal would obey is escaped."""
    typer.echo(_visible(str(text)), err=err)


def complain(text: str, *, kind: str = "error") -> None:
    """Write a message to stderr, beside the results and never among them."""
    start = typer.style(f"{kind}: ", fg="red" if kind == "error" else "yellow")
    # In one piece: several processes may write at once.
    typer.echo(start + _visible(text), err=True)


def print_json(value: Any) -> None:
    """Write a value for a program to read; what is not a number becomes null."""
    sys.stdout.write(json_text(value))


def json_text(value: Any) -> str:
    """Return a value as JSON; characters that a terminal would obey are escaped."""
    text = json.dumps(_finite(value), indent=2, ensure_ascii=False, default=str)
    # Beyond the line breaks between values, such characters only stand within strings.
    shown = [
        char if char == "\n" or char.isprintable() else json.dumps(char)[1:-1] for char in text
    ]
    return "".join(shown) + "\n"


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, right: int = 0) -> None:
    """Write rows under titles, as wide as the terminal and whole when there is none.

    Args:
        columns: The titles.
        rows: The cells.
        right: How many of the last columns hold numbers and are set to the right.
    """
    from rich.table import Table
    from rich.text import Text

    from edgemask._text import printable

    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for number, title in enumerate(columns):
        numeric = number >= len(columns) - right
        table.add_column(
            Text(printable(title)),
            justify="right" if numeric else "left",
            no_wrap=numeric or number == 0,
            overflow="fold",
        )
    for row in rows:
        table.add_row(*(Text(printable(cell, max_length=None)) for cell in row))
    out = console()
    if out.is_terminal:
        out.print(table)
        return
    out.width = 10_000
    for line in out.render_lines(table, pad=False):
        sys.stdout.write("".join(segment.text for segment in line).rstrip() + "\n")


def percent(value: Any, digits: int = 2) -> str:
    """Return a fraction as a percentage, a dash where it is unknown."""
    if value is None or not math.isfinite(value):
        return "-"
    return f"{100 * value:.{digits}f} %"


def count(number: int, one: str, many: str | None = None) -> str:
    """Return a number with its noun: ``1 run``, ``2 runs``.

    Example:
        >>> count(1, "run"), count(1200, "class", "classes")
        ('1 run', '1,200 classes')
    """
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def duration(seconds: float) -> str:
    """Return a time in seconds, minutes or hours.

    Example:
        >>> duration(4.2), duration(75), duration(7265)
        ('4 s', '1 min 15 s', '2 h 1 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
