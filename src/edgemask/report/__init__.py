"""Run directories turned into pages and tables.

The room reads files and imports no other room: what a run left on disk is all that a report needs.
"""

from edgemask.report.records import RunRecord, load_run
from edgemask.report.tables import Cell, Table, number, percent, spread
from edgemask.report.write import ReportFiles, write_report

__all__ = [
    "Cell",
    "ReportFiles",
    "RunRecord",
    "Table",
    "load_run",
    "number",
    "percent",
    "spread",
    "write_report",
]
