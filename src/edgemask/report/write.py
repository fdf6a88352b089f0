"""Run folders in, report files out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from edgemask.errors import UserError
from edgemask.report.describe import lead_sentence, repeat_command, report_title
from edgemask.report.escape import as_markdown, printable
from edgemask.report.groups import Group, group_runs
from edgemask.report.outcomes import status
from edgemask.report.page import page
from edgemask.report.results import comparison_table, run_tables, runs_table
from edgemask.runs import find_runs, read_run

__all__ = ["ReportFiles", "write_report"]


_TITLES = {
    "results": "Results",
    "noise": "Labels and noise",
    "classes": "Classes",
    "detection": "Trust in labels",
    "doubtful": "Samples worth checking",
    "corrections": "Corrected labels",
    "config": "What was run",
    "versions": "Versions",
}


class ReportFiles(NamedTuple):
    """Where the parts of a report are."""

    html: Path
    """The page: one file that needs nothing else."""
    markdown: Path
    """The tables as Markdown."""
    csv: Path
    """One row per run, with full precision."""


def write_report(runs: Sequence[str | Path], out: str | Path) -> ReportFiles:
    """Write ``report.html``, ``report.md`` and ``report.csv`` about one run or several.

    One run gets a page with all details. Several are grouped by config without seeds and compared
    as mean ± standard deviation; a folder that is named twice counts once.

    Args:
        runs: Run folders, finished or not, or folders that hold some.
        out: The folder to write into; made where it does not exist. Older reports in it are
            replaced as a whole, never half.

    Raises:
        UserError: If no run is given, a folder holds no run, or ``out`` cannot be written.

    Example:
        >>> files = write_report(["runs/photos"], "runs/photos")  # doctest: +SKIP
        >>> files.html  # doctest: +SKIP
        PosixPath('runs/photos/report.html')
    """
    paths = find_runs(runs)
    if not paths:
        raise UserError("no run to report on; name at least one run folder")
    groups = group_runs([read_run(path) for path in paths])
    folder = Path(out)
    files = ReportFiles(folder / "report.html", folder / "report.md", folder / "report.csv")
    texts = (page(groups), _markdown(groups), runs_table(groups).to_csv())
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


def _markdown(groups: Sequence[Group]) -> str:
    """Return the report as Markdown: the tables, without the figures."""
    parts = [f"# {as_markdown(report_title(groups))}"]
    several = sum(len(group.runs) for group in groups) > 1
    if several:
        parts += ["## Comparison", comparison_table(groups).to_markdown()]
    for group in groups:
        run = group.representative
        if several:
            parts.append(f"## {as_markdown(group.label)}")
        parts.append(as_markdown(lead_sentence(run)))
        if run.problems or not run.finished:
            notes = [f"status: {status(run)}", *run.problems]
            parts.append("\n".join(f"- {as_markdown(note)}" for note in notes))
        for name, table in run_tables(run, doubtful=30).items():
            if table is not None and table.rows:
                parts += [f"### {_TITLES[name]}", table.to_markdown()]
        command = printable(repeat_command(run), max_length=None)
        parts += ["### How to repeat it", f"    {command}"]
    return "\n\n".join(part for part in parts if part) + "\n"
