"""``edgemask reproduce``: the tables and figures of the paper, and the controls it lacks."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from edgemask.cli.jobs import Address, Engine, Jobs, Threads
from edgemask.cli.options import DataRoot, Imports, Json
from edgemask.cli.screen import say

if TYPE_CHECKING:
    from edgemask.engine.job import JobResult
    from edgemask.engine.jobs import JobRunner
    from edgemask.reproduce import Experiment, ExperimentPlan

__all__ = ["reproduce"]

_what = partial(typer.Option, rich_help_panel="What is run")
_where = partial(typer.Option, rich_help_panel="Where it is run")


def reproduce(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME",
            help="table8, figure3, controls ..., several, or all; "
            "'list' shows them, 'status [NAME...]' what is done.",
        ),
    ],
    preset: Annotated[
        str,
        _what(metavar="NAME", help="The size of it: paper, laptop, laptop-bf16, quick or smoke."),
    ] = "laptop",
    seeds: Annotated[
        str | None, _what(metavar="N", help="How many seeds, a range (0-2) or a list. (default: 3)")
    ] = None,
    only: Annotated[str | None, _what(metavar="ROWS", help="Only some rows: ce,ce-sem.")] = None,
    columns: Annotated[str | None, _what(metavar="COLUMNS", help="Only some columns.")] = None,
    data_root: DataRoot = None,
    jobs: Jobs = 1,
    threads: Threads = 1,
    engine: Engine = "local",
    address: Address = None,
    imports: Imports = None,
    out: Annotated[Path, _where(metavar="DIR", help="Folder of the runs.")] = Path(
        "runs/reproduce"
    ),
    results: Annotated[
        Path | None,
        _where(
            metavar="DIR",
            help="Folder of the tables. (default: results/PRESET in the folder of the runs)",
        ),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Show the runs and an estimate of their time; run nothing."),
    ] = False,
    show: Annotated[
        bool, typer.Option("--show", help="Run nothing; make tables of what is done.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Run tables and figures of the paper, and compare with its numbers.

    Runs that are done, for whichever table, are not done again; the same command continues where
    it was stopped.
    """
    if names[0] == "list":
        _list(as_json)
        return
    from edgemask.cli.jobs import make_runner, print_progress
    from edgemask.reproduce import make_plan, parse_seeds, pick, run_plan

    runner = make_runner(jobs, threads, engine, address, imports)
    status = names[0] == "status"
    chosen = pick(names[1:] or ["all"]) if status else pick(names)
    rows = _keys(only, "row", chosen, [row.key for e in chosen for row in e.rows])
    cells = _keys(columns, "column", chosen, [c.key for e in chosen for c in e.columns])
    if seeds is None:
        seeds = "1" if status else str(max((e.seeds for e in chosen), default=1))
    wanted = parse_seeds(seeds)

    def plan() -> ExperimentPlan:
        return make_plan(
            chosen,
            preset=preset,
            seeds=wanted,
            root=out,
            data_root=data_root,
            only=rows,
            columns=cells,
        )

    if status:
        _status(plan(), chosen, as_json)
    elif dry_run:
        _dry_run(plan(), runner, as_json)
    else:
        job_results: list[JobResult] = []
        if show:
            done = plan()
        else:
            done, job_results = run_plan(plan, runner, print_progress(as_json))
        _finish(done, chosen, job_results, results or out / "results" / preset, as_json)


def _keys(text: str | None, kind: str, chosen: list[Experiment], known: list[str]) -> list[str]:
    """Read a list of keys of rows or columns."""
    from edgemask.errors import unknown_name

    keys = [part.strip() for part in (text or "").split(",") if part.strip()]
    for key in keys:
        if key not in known:
            names = ", ".join(experiment.name for experiment in chosen)
            raise unknown_name(f"{kind} of {names}", key, dict.fromkeys(known))
    return keys


def _list(as_json: bool) -> None:
    from edgemask.cli.screen import print_json, print_table
    from edgemask.reproduce import EXPERIMENTS, PRESETS
    from edgemask.reproduce.results import paper_json

    if not as_json:
        rows = [
            (name, str(len(e.rows)), str(len(e.columns)), e.title)
            for name, e in EXPERIMENTS.items()
        ]
        print_table(["name", "rows", "columns", "what it is"], rows)
        say()
        print_table(["preset", "what it is"], [(n, p.summary) for n, p in PRESETS.items()])
        return
    print_json(
        [
            {
                "name": name,
                "title": e.title,
                "rows": [
                    {"key": row.key, "titles": row.titles, "cited": row.system is None}
                    for row in e.rows
                ],
                "columns": [
                    {"key": c.key, "title": c.title, "noise": c.noise, "protocol": c.protocol}
                    for c in e.columns
                ],
                "source": dict(e.source),
                "paper": paper_json(e),
            }
            for name, e in EXPERIMENTS.items()
        ]
    )


def _status(plan: ExperimentPlan, chosen: list[Experiment], as_json: bool) -> None:
    from edgemask.cli.screen import print_json
    from edgemask.reproduce.tables import status_json, status_table

    if as_json:
        print_json(status_json(plan, chosen))
    else:
        say(status_table(plan, chosen).to_text())


def _dry_run(plan: ExperimentPlan, runner: JobRunner, as_json: bool) -> None:
    from edgemask.cli.jobs import total_seconds
    from edgemask.cli.screen import duration, print_json, print_table
    from edgemask.engine.estimate import estimate
    from edgemask.reproduce.plan import OPEN_STATES

    seconds = estimate(plan.runs(*OPEN_STATES))
    total = total_seconds(seconds, runner.workers)
    waiting = [cell for cell in plan.cells if cell.state == "waits"]
    if as_json:
        print_json({"runs": seconds, "waiting": len(waiting), "seconds": total})
        return
    rows = [
        (name, "unknown" if value is None else duration(value)) for name, value in seconds.items()
    ]
    print_table(["run", "estimate"], rows, right=1)
    extra = f", and {len(waiting)} that wait for others" if waiting else ""
    say(
        f"{len(seconds)} runs{extra}; about {duration(total)} with {max(runner.workers, 1)} at a "
        "time, if the machine is as busy as now"
    )
    reasons = {cell.reason for cell in plan.cells if cell.state == "skipped"}
    for reason in sorted(reasons):
        say(f"skipped: {reason}")


def _finish(
    plan: ExperimentPlan,
    chosen: Sequence[Experiment],
    results: Sequence[JobResult],
    folder: Path,
    as_json: bool,
) -> None:
    """Write and print the tables of what is done."""
    from edgemask.cli.jobs import exit_if_failed, failures
    from edgemask.cli.screen import print_json
    from edgemask.reproduce import write_results
    from edgemask.reproduce.measures import MEASURES
    from edgemask.reproduce.tables import write_tables

    written: dict[str, Any] = {}
    for experiment in chosen:
        if experiment.measure is None:
            files = write_results(plan, experiment, folder)
            text = files["txt"].read_text(encoding="utf-8")
        else:
            table = MEASURES[experiment.measure](experiment, quick=plan.preset.name == "smoke")
            files = write_tables([table], folder, experiment.name, ["md"])
            text = table.to_text() + "\n"
        written[experiment.name] = {kind: str(path) for kind, path in files.items()}
        if not as_json:
            say()
            say(text.removesuffix("\n"))
            say(f"written: {', '.join(map(str, files.values()))}")
    if as_json:
        print_json({"files": written, "failed": failures(results)})
    exit_if_failed(results)
