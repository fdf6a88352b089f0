"""Run folders turned into an HTML page, Markdown and CSV; tables as text, Markdown, LaTeX, CSV."""

from edgemask.report.audit_page import write_audit_report
from edgemask.report.frame import load_runs
from edgemask.report.tables import Table, TableCell, TableRow, number, percent, spread
from edgemask.report.write import ReportFiles, write_report

__all__ = [
    "ReportFiles",
    "Table",
    "TableCell",
    "TableRow",
    "load_runs",
    "number",
    "percent",
    "spread",
    "write_audit_report",
    "write_report",
]
