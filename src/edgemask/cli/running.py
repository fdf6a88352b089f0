"""Running and showing: what ``train`` and ``resume`` have in common."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from edgemask.cli.screen import console, count, duration, percent, print_json
from edgemask.runs import shell_argument

if TYPE_CHECKING:
    from edgemask.engine import Observer, Run

__all__ = ["final_line", "run_and_show", "show_plan"]


def run_and_show(start: Callable[[Sequence[Observer]], Run], *, as_json: bool, quiet: bool) -> None:
    """Train with a progress display and print the results.

    Args:
        start: Trains, given the observers, and returns the run.
        as_json: Whether to print the summary as JSON, and progress beside it on stderr.
        quiet: Whether to leave out progress.
    """
    from edgemask.cli.live import display

    out = console(stderr=as_json)
    with display(out, quiet=quiet) as shown:
        run = start([shown])
    if not _first_process():
        return
    if as_json:
        print_json({"path": str(run.path), **run.summary})
        return
    done = "" if shown.started else " (finished before; train --fresh starts over)"
    out.print(final_line(run) + done)
    if not quiet:
        for line in _remarks(run.summary):
            out.print(line)
        out.print(f"open the report: edgemask report {shell_argument(run.path)}")


def show_plan(run: Run, *, as_json: bool) -> None:
    """Print the resolved config of a planned run and what it would do."""
    from edgemask.cli.screen import print_table, say
    from edgemask.engine import dump_yaml

    plan = run.plan or {}
    if as_json:
        facts = {key.replace(" ", "_"): value for key, value in plan.items()}
        print_json({"plan": facts, "config": run.config.model_dump()})
        return
    say(dump_yaml(run.config))
    rows = [(key, f"{v:,}" if isinstance(v, int) else str(v)) for key, v in plan.items()]
    print_table(["would be done", ""], rows)


def _first_process() -> bool:
    return os.environ.get("RANK", "0") == "0"


def final_line(run: Run) -> str:
    """Return the outcome of a finished run in one line."""
    summary = run.summary
    accuracy = summary["test/accuracy"]
    parts = [
        f"{percent(accuracy['last'])} last",
        f"{percent(accuracy['mean_last_10'])} mean of last {min(10, summary['epochs'])}",
        f"{percent(accuracy['best'])} best (oracle)",
    ]
    if accuracy.get("at_validation") is not None:
        parts.insert(0, f"{percent(accuracy['at_validation'])} at validation")
    if "selected" in summary:
        by = summary["selected"]["by"].replace("_", " ")
        parts.insert(0, f"{percent(summary['selected']['test/accuracy'])} selected by {by}")
    time = duration(summary["seconds"])
    epochs = count(summary["epochs"], "epoch")
    return f"{run.path}: {epochs} in {time}; test accuracy {', '.join(parts)}"


def _remarks(summary: Mapping[str, Any]) -> list[str]:
    """Return the notes that a user needs to read the numbers."""
    return [f"note: {text}" for text in summary.get("remarks", ())]
