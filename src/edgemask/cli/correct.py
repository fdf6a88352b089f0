"""``edgemask correct``: data with corrected labels, as a new file or folder."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from edgemask.cli.early import check_data, check_file
from edgemask.cli.options import Json
from edgemask.cli.screen import say

__all__ = ["correct"]


def correct(
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA", help="Your data: imagefolder:PATH, csv:FILE, parquet:FILE, npz:FILE."
        ),
    ],
    corrections: Annotated[
        Path, typer.Option(metavar="FILE", help="The CSV file that the review page saves.")
    ],
    out: Annotated[
        Path, typer.Option(metavar="PATH", help="The new file, or the new folder of images.")
    ],
    label: Annotated[
        str, typer.Option(metavar="COLUMN", help="The column of a table with the labels.")
    ] = "label",
    id_: Annotated[
        str | None,
        typer.Option(
            "--id",
            metavar="COLUMN",
            help="The column that names its samples. (default: image files, or row numbers)",
        ),
    ] = None,
    copy: Annotated[
        bool, typer.Option("--copy", help="Copy images instead of making links to them.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Write a copy of your data with corrected labels; the original is not changed."""
    check_data(data, bare=True)
    check_file(corrections, "of corrections")
    from edgemask._text import printable
    from edgemask.cli.screen import count, print_json
    from edgemask.engine.correct import write_corrected

    written = write_corrected(data, corrections, out, label=label, id=id_, copy=copy)
    if as_json:
        print_json({**asdict(written), "path": str(written.path)})
        return
    say(
        f"{count(written.kept, 'label')} kept, {written.relabelled:,} changed, "
        f"{count(written.dropped, 'sample')} dropped; "
        f"{count(written.samples, 'sample')} in {printable(written.path)}"
    )
    for name in written.empty_classes:
        say(f"no sample of the class {printable(name)} is left")
