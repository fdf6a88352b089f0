"""The page of an audit: what is said of the labels, and the samples worth checking."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from edgemask._files import write_text
from edgemask.report.charts import FigureData
from edgemask.report.heatmaps import matrix_map
from edgemask.report.page import render
from edgemask.report.review import MAX_PICTURES, Review, review_of_audit
from edgemask.report.tables import Table, TableCell, TableRow, percent
from edgemask.runs import AuditRecord, finite_number, read_audit

__all__ = ["write_audit_report"]

_MATRIX = "Given label by true class, as the audit estimates it"
_UNSURE = ("cannot tell", "at most")


def write_audit_report(folder: str | Path, out: str | Path | None = None) -> Path:
    """Write ``report.html`` about an audit, and return its path.

    The page is one file that needs no network. It shows what is said of the share of wrong labels
    and the samples worth checking, takes a decision about each, and saves them as
    ``corrections.csv``.

    Args:
        folder: The folder of the audit.
        out: The folder to write into; that of the audit otherwise.

    Raises:
        UserError: If the folder holds no audit, or cannot be written.
    """
    audit = read_audit(folder)
    target = Path(folder if out is None else out)
    write_text(target / "report.html", _page(audit, target))
    return target / "report.html"


def _page(audit: AuditRecord, target: Path) -> str:
    """Return the whole HTML document of an audit, to be put into a folder."""
    figures = FigureData()
    review = review_of_audit(audit, target)
    matrix = audit.transition_matrix
    return render(
        "audit.html",
        figures=figures,
        title=audit.path.resolve().name,
        review=review,
        problems=audit.problems,
        rate=audit.rate,
        unsure=audit.rate["kind"] in _UNSURE and review.listed > 0,
        tiles=_tiles(audit, review),
        precision=_precision(audit),
        transition=matrix_map(figures, matrix, audit.class_names, _MATRIX),
        classes=_classes(audit),
        page_notes=_notes(audit, review),
        commands=_commands(audit),
        by_column=str(audit.facts.get("data", "")).startswith(("csv:", "parquet:")),
    )


def _tiles(audit: AuditRecord, review: Review) -> list[tuple[str, str, str]]:
    tiles = [
        ("Labels", f"{len(audit.samples['id']):,}", f"{len(audit.class_names):,} classes"),
        ("Worth checking", f"{review.listed:,}", "in rank order"),
    ]
    decided = len(audit.decisions)
    if decided:
        tiles.append(("Reviewed before", f"{decided:,}", "not asked again"))
    return tiles


def _precision(audit: AuditRecord) -> Table | None:
    """Return what share of the first samples to expect wrong."""
    stored = audit.facts.get("expected_precision")
    rows: list[TableRow] = []
    for entry in stored if isinstance(stored, list) else ():
        if not isinstance(entry, Mapping):
            continue
        first, low, high = (finite_number(entry.get(key)) for key in ("first", "lower", "upper"))
        if first is not None and low is not None and high is not None:
            text = f"{100 * low:.0f} to {100 * high:.0f}"
            rows.append([f"first {int(first):,}", TableCell(text=text, value=low)])
    return Table(["if you look at the", "expect wrong (%)"], rows) if rows else None


def _classes(audit: AuditRecord) -> Table:
    """Return how many labels of each class there are, and how many are worth checking."""
    names = audit.class_names
    given, listed = audit.samples["given"], audit.samples["listed"]
    counts = np.bincount(given, minlength=len(names))
    doubtful = np.bincount(given[listed], minlength=len(names))
    trust = np.bincount(given, weights=audit.samples["trust"], minlength=len(names))
    rows: list[TableRow] = [
        [
            name,
            int(counts[label]),
            int(doubtful[label]),
            percent(doubtful[label] / counts[label], digits=1) if counts[label] else None,
            TableCell(text=f"{(mean := trust[label] / counts[label]):.3f}", value=float(mean))
            if counts[label]
            else None,
        ]
        for label, name in enumerate(names)
    ]
    return Table(["class", "labels", "worth checking", "of them (%)", "mean score"], rows)


def _notes(audit: AuditRecord, review: Review) -> list[str]:
    """Return what the page leaves out."""
    notes = []
    if review.shown < review.listed:
        notes.append(
            f"The page lists the first {review.shown:,} of {review.listed:,} samples; all of them "
            "are in suspects.csv."
        )
    if review.pictures and review.pictures < len(review.data["id"]):
        rest = f"; {review.links:,} others have a link to their file" if review.links else ""
        notes.append(
            f"{review.pictures:,} pictures are in the page (at most {MAX_PICTURES:,}){rest}."
        )
    if not audit.facts.get("trust_is_probability"):
        notes.append("A score orders the samples; it is not a probability.")
    return notes


def _commands(audit: AuditRecord) -> list[tuple[str, str]]:
    """Return what to do with the saved file, by what it is for."""
    spec = audit.facts.get("data")
    data = shlex.quote(spec) if isinstance(spec, str) and spec else "DATA"
    file = "--corrections corrections.csv"
    commands = [
        ("train on the corrected labels", f"edgemask train --data {data} {file}"),
        ("audit again, without what was reviewed", f"edgemask audit {data} {file}"),
    ]
    if data == "DATA" or ":" in data:
        suffix = Path(data).suffix if data.startswith(("csv:", "parquet:", "npz:")) else ""
        command = f"edgemask correct {data} {file} --out corrected{suffix}"
        commands.append(("write a corrected copy of your data", command))
    return commands
