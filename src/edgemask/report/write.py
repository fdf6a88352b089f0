"""Run directories in, report files out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from edgemask.errors import UserError
from edgemask.report.groups import group_runs
from edgemask.report.markdown import markdown
from edgemask.report.page import page
from edgemask.report.records import load_run
from edgemask.report.results import runs_table

__all__ = ["ReportFiles", "write_report"]


class ReportFiles(NamedTuple):
    """Where the parts of a report are."""

    html: Path
    """The page: one file that needs nothing else."""
    markdown: Path
    """The tables as Markdown."""
    csv: Path
    """One row a run, with full precision."""


def write_report(runs: Sequence[str | Path], out: str | Path) -> ReportFiles:
    """Write ``report.html``, ``report.md`` and ``report.csv`` about one run or several.

    One run gets a page with all details. Several are grouped by config without seeds and compared
    as mean ± standard deviation; a folder that is named twice counts once.

    Args:
        runs: Run directories, finished or not.
        out: The folder to write into; made where it does not exist. Older reports in it are
            replaced as a whole, never half.

    Raises:
        UserError: If no run is given, a folder is no run, or ``out`` cannot be written.

    Example:
        >>> files = write_report(["runs/photos"], "runs/photos")  # doctest: +SKIP
        >>> files.html  # doctest: +SKIP
        PosixPath('runs/photos/report.html')
    """
    paths = list(dict.fromkeys(Path(run).resolve() for run in runs))
    if not paths:
        raise UserError("no run to report on; name at least one run directory")
    named = {Path(run).resolve(): Path(run) for run in runs}
    groups = group_runs([load_run(named[path]) for path in paths])
    folder = Path(out)
    files = ReportFiles(folder / "report.html", folder / "report.md", folder / "report.csv")
    texts = (page(groups), markdown(groups), runs_table(groups).to_csv())
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, text in zip(files, texts, strict=True):
            half = path.with_name(path.name + ".part")
            half.write_text(text, encoding="utf-8", newline="\n")
            half.replace(path)
    except OSError as error:
        raise UserError(
            f"the report cannot be written to {str(folder)!r}: {error.strerror}; "
            "choose another folder"
        ) from error
    return files
