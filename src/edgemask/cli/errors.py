"""How the command ends: what is printed and which code is returned."""

from __future__ import annotations

import errno
import sys
import warnings
from typing import Any

import typer

from edgemask.cli.plain_help import PlainGroup
from edgemask.cli.screen import complain
from edgemask.errors import EdgeMaskWarning, TrainingWarning, UserError

__all__ = ["FAILURE", "MISTAKE", "Verbs"]

FAILURE = 1
MISTAKE = 2
_INTERRUPTED = 130


class Verbs(PlainGroup):
    """The verbs, with one place where errors become a message and an exit code.

    2 means a mistake that the user can fix, 1 a failure, 128 + n that signal n ended the run.
    """

    def invoke(self, ctx: Any) -> Any:
        """Run the verb."""
        with warnings.catch_warnings():
            _show_own_warnings()
            try:
                return super().invoke(ctx)
            except UserError as error:
                complain(str(error))
                raise typer.Exit(_code(error)) from None
            except KeyboardInterrupt as stop:
                # The engine's own interruption tells how to continue and which signal it was.
                complain(str(stop) or "stopped")
                number = getattr(stop, "signal", None)
                raise typer.Exit(128 + number if number else _INTERRUPTED) from None
            except OSError as error:
                if error.errno == errno.EPIPE:
                    raise
                complain(_system(error))
                raise typer.Exit(FAILURE) from None


def _code(error: UserError) -> int:
    """Return the exit code: 1 where the loss is no longer finite, 2 for a mistake of the user."""
    engine = sys.modules.get("edgemask.engine")
    if engine is not None and isinstance(error, engine.LossError):
        return FAILURE
    return MISTAKE


def _system(error: OSError) -> str:
    where = f": {error.filename}" if error.filename else ""
    return f"{error.strerror or error}{where}"


def _show_own_warnings() -> None:
    usual = warnings.showwarning

    def show(message: Any, category: Any, *rest: Any, **named: Any) -> None:
        if issubclass(category, EdgeMaskWarning):
            complain(str(message), kind="warning")
        elif not issubclass(category, TrainingWarning):  # printed with the result of the run
            usual(message, category, *rest, **named)

    warnings.showwarning = show
