"""The application: its verbs, its version, its help."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from edgemask import __version__
from edgemask.cli import (
    audit,
    correct,
    demo,
    doctor,
    evaluate,
    explain,
    export,
    listing,
    noise,
    predict,
    report,
    reproduce,
    resume,
    sweep,
    train,
)
from edgemask.cli.errors import Verbs
from edgemask.cli.plain_help import PlainCommand
from edgemask.cli.screen import say

__all__ = ["app"]

app = typer.Typer(
    cls=Verbs,
    name="edgemask",
    help="Train classifiers on data whose labels are partly wrong.",
    invoke_without_command=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


_NEXT = """EdgeMask trains classifiers on data whose labels are partly wrong. What to do next:

  edgemask audit imagefolder:photos/ --out audits/photos         which labels are worth checking?
  edgemask train --data imagefolder:photos/ --out runs/photos    a model in spite of the wrong ones
  edgemask report runs/photos                                    its results, as a page to open

photos/ has one sub-folder of images per class. A table is csv:FILE --label COLUMN.
No data at hand? edgemask demo. All commands: edgemask --help"""


def _version(asked: bool) -> None:
    if asked:
        say(f"edgemask {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    del version
    if context.invoked_subcommand is None:
        say(_NEXT)


_command = partial(app.command, cls=PlainCommand)
# In the order in which a newcomer needs them.
_command("audit")(audit.audit)
_command("train")(train.train)
_command("report")(report.report)
_command("predict")(predict.predict)
_command("correct")(correct.correct)
_command("resume")(resume.resume)
_command("eval")(evaluate.evaluate)
_command("export")(export.export)
_command("demo")(demo.demo)
_command("doctor")(doctor.doctor)
_command("list")(listing.list_names)
_command("explain")(explain.explain)
_command("sweep")(sweep.sweep)
_command("reproduce")(reproduce.reproduce)
app.add_typer(noise.app, name="noise")
