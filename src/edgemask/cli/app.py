"""The application: its verbs, its version, its help."""

from __future__ import annotations

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
from edgemask.cli.screen import say

__all__ = ["app"]

app = typer.Typer(
    cls=Verbs,
    name="edgemask",
    help="Train classifiers on data whose labels are partly wrong.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
        say(f"edgemask {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    del version


app.command("demo")(demo.demo)
app.command("train")(train.train)
app.command("audit")(audit.audit)
app.command("resume")(resume.resume)
app.command("eval")(evaluate.evaluate)
app.command("predict")(predict.predict)
app.command("correct")(correct.correct)
app.add_typer(noise.app, name="noise")
app.command("list")(listing.list_names)
app.command("explain")(explain.explain)
app.command("report")(report.report)
app.command("reproduce")(reproduce.reproduce)
app.command("sweep")(sweep.sweep)
app.command("export")(export.export)
app.command("doctor")(doctor.doctor)
