"""The line that repeats a run."""

from __future__ import annotations

import shlex
from pathlib import PurePath

from edgemask.report.groups import flatten
from edgemask.report.records import RunRecord

__all__ = ["command"]


def command(run: RunRecord) -> str:
    """Return the line that repeats a run.

    It is the run's own where that was ``edgemask train``, and one that reads its config otherwise:
    a run may have been started by a sweep, resumed, or come from a script. A run on objects that
    were made in Python has none, and the text says so.
    """
    told = run.summary.get("command")
    words = shlex.join(map(str, told)) if isinstance(told, list) else str(told or "")
    program, _, rest = words.partition(" ")
    if PurePath(program).name == "edgemask" and rest.startswith("train"):
        return f"edgemask {rest}"
    objects = [
        key.partition(".")[0]
        for key, value in flatten(run.config).items()
        if str(value).startswith("object:")
    ]
    if objects:
        return f"# started from Python with its own {', '.join(objects)}: call edgemask.fit again"
    config = shlex.quote(str(run.path / "config.yaml"))
    return f"edgemask train --config {config} --out {shlex.quote(f'{run.path.name}-again')}"
