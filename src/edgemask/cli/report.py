"""``edgemask report``: a page, tables and a CSV file about runs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from edgemask.cli.options import Json

__all__ = ["report"]


def report(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN", help="The folder of a run or an audit; or several, or a folder of runs."
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Folder to write into. (default: the run's, or the nearest above several)",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Write a page about runs to open in a browser (report.html), and its tables as files.

    Written are report.html, which is one file that opens anywhere, report.md and report.csv; for
    an audit, report.html alone.
    """
    from edgemask.cli.screen import print_json, say
    from edgemask.report import write_audit_report, write_report
    from edgemask.runs import is_audit

    if len(runs) == 1 and is_audit(runs[0]):
        page = write_audit_report(runs[0], out)
        if as_json:
            print_json({"html": str(page)})
        else:
            say(page)
        return
    files = write_report(runs, out if out is not None else _common_folder(runs))
    if as_json:
        print_json({name: str(path) for name, path in files._asdict().items()})
    else:
        for path in files:
            say(path)


def _common_folder(runs: list[Path]) -> Path:
    if len(runs) == 1:
        return runs[0]
    return Path(os.path.commonpath([run.resolve() for run in runs]))
