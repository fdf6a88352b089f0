"""Run and audit folders read back, whatever state they are in.

A folder may be unfinished, damaged or untrusted: arrays are read without pickle, YAML by the safe
loader, and sizes are checked before memory is used. Every problem is one line: an error where one
file is requested, an entry of ``RunRecord.problems`` where everything is.
"""

from edgemask.runs.audit import AUDIT_SCHEMA, AuditRecord, is_audit, read_audit
from edgemask.runs.files import (
    Array,
    check_seal,
    finite_number,
    load_arrays,
    parse_yaml,
    read_array,
    read_arrays,
    seal,
)
from edgemask.runs.find import find_runs, is_run, shell_argument
from edgemask.runs.run import (
    SCHEMA,
    RunRecord,
    is_finished,
    read_config,
    read_history,
    read_run,
    read_summary,
)
from edgemask.runs.samples import (
    SUSPECT_REASONS,
    SamplesState,
    read_samples,
    samples_state,
    suspicious_order,
)

__all__ = [
    "AUDIT_SCHEMA",
    "SCHEMA",
    "SUSPECT_REASONS",
    "Array",
    "AuditRecord",
    "RunRecord",
    "SamplesState",
    "check_seal",
    "find_runs",
    "finite_number",
    "is_audit",
    "is_finished",
    "is_run",
    "load_arrays",
    "parse_yaml",
    "read_array",
    "read_arrays",
    "read_audit",
    "read_config",
    "read_history",
    "read_run",
    "read_samples",
    "read_summary",
    "samples_state",
    "seal",
    "shell_argument",
    "suspicious_order",
]
