"""The report as Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from edgemask.report.doubtful import detection, doubtful_list
from edgemask.report.escape import as_markdown, plain
from edgemask.report.groups import Group
from edgemask.report.repeat import command
from edgemask.report.results import (
    class_table,
    comparison_table,
    config_table,
    noise_table,
    result_table,
    status,
    versions_table,
)
from edgemask.report.tables import Table
from edgemask.report.titles import lead_sentence, title_of_page

__all__ = ["markdown"]


def markdown(groups: Sequence[Group]) -> str:
    """Return the report as Markdown: the tables, without the figures."""
    parts = [f"# {as_markdown(title_of_page(groups))}"]
    runs = [run for group in groups for run in group.runs]
    if len(runs) > 1:
        parts += ["## Comparison", comparison_table(groups).to_markdown()]
    for group in groups:
        run = group.speaker
        if len(runs) > 1:
            parts.append(f"## {as_markdown(group.label)}")
        parts.append(as_markdown(lead_sentence(run)))
        if run.missing or not run.finished:
            notes = [f"status: {status(run)}", *run.missing]
            parts.append("\n".join(f"- {as_markdown(note)}" for note in notes))
        tables: list[tuple[str, Table | None]] = [
            ("Results", result_table(run)),
            ("Labels and noise", noise_table(run)),
            ("Classes", class_table(run)),
            ("Trust in labels", detection(run)),
            ("Doubtful samples", doubtful_list(run, most=30)),
            ("What was run", config_table(run) if run.config else None),
            ("Versions", versions_table(run)),
        ]
        for title, table in tables:
            if table is not None and table.rows:
                parts += [f"### {title}", table.to_markdown()]
        parts += ["### How to repeat it", _code_block(command(run))]
    return "\n\n".join(part for part in parts if part) + "\n"


def _code_block(text: str) -> str:
    return "\n".join("    " + plain(line, longest=None) for line in text.splitlines())
