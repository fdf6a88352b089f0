"""Options and output of the verbs that do many runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from edgemask.engine.job import JobResult
    from edgemask.engine.jobs import JobRunner

__all__ = [
    "Address",
    "Engine",
    "Jobs",
    "Threads",
    "exit_if_failed",
    "failures",
    "make_runner",
    "print_progress",
    "total_seconds",
]

_PANEL = "Where it is run"
Jobs = Annotated[
    int,
    typer.Option(
        "--jobs", "-j", metavar="N", rich_help_panel=_PANEL, help="How many runs at a time."
    ),
]
Threads = Annotated[
    int, typer.Option(metavar="N", rich_help_panel=_PANEL, help="CPU threads per run.")
]
Engine = Annotated[
    str,
    typer.Option(
        metavar="NAME", rich_help_panel=_PANEL, help="local (processes of this machine) or ray."
    ),
]
Address = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS", rich_help_panel=_PANEL, help="The Ray cluster: auto, host:port."
    ),
]


def make_runner(
    jobs: int, threads: int, engine: str, address: str | None, imports: Sequence[str] | None
) -> JobRunner:
    """Return the runner that the options describe."""
    from edgemask.engine.jobs import JobRunner

    return JobRunner(
        engine=engine,
        workers=jobs,
        threads=threads,
        address=address,
        imports=tuple(imports or ()),
    )


def print_progress(as_json: bool) -> Callable[[JobResult], None]:
    """Return a function that prints one line per result, on stderr where results are JSON."""
    from edgemask.cli.screen import say

    count = 0

    def show(result: JobResult) -> None:
        nonlocal count
        count += 1
        error = f": {result.error}" if result.error else ""
        say(f"{count:>4}  {result.state:<9}  {result.name}{error}", err=as_json)

    return show


def total_seconds(seconds: Mapping[str, float | None], jobs: int) -> float:
    """Return how long runs take together, so many at a time; unknown ones are left out."""
    return sum(value or 0.0 for value in seconds.values()) / max(jobs, 1)


def failures(results: Sequence[JobResult]) -> list[dict[str, str]]:
    """Return the runs that are not done, and why."""
    return [{"run": r.name, "error": r.error} for r in results if r.state != "done"]


def exit_if_failed(results: Sequence[JobResult]) -> None:
    """End with a failure if runs are not done."""
    from edgemask.cli.errors import FAILURE
    from edgemask.cli.screen import complain

    failed = len(failures(results))
    if failed:
        complain(f"{failed} of {len(results)} runs are not done; the same command tries again")
        raise typer.Exit(FAILURE)
