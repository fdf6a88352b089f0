"""``edgemask reproduce``: the tables and figures of the paper, and the controls it lacks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from edgemask.cli.options import DataRoot, Json

if TYPE_CHECKING:
    from edgemask.reproduce import Experiment, Outcome, Plan, Runner

__all__ = ["Teller", "fail_if_undone", "problems", "reproduce"]

_WHAT, _WHERE = "What is run", "Where it is run"


def reproduce(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME...",
            help="table8, figure3, controls ..., several, or all; "
            "'list' shows them, 'status [NAME...]' how they stand.",
        ),
    ],
    preset: Annotated[
        str,
        typer.Option(metavar="NAME", rich_help_panel=_WHAT, help="paper, laptop or smoke."),
    ] = "laptop",
    seeds: Annotated[
        str | None,
        typer.Option(
            metavar="N",
            rich_help_panel=_WHAT,
            help="A count, a range (0-2) or a list. (default: 3)",
        ),
    ] = None,
    only: Annotated[
        str | None,
        typer.Option(metavar="ROWS", rich_help_panel=_WHAT, help="Some rows: ce,ce-sem."),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(metavar="COLUMNS", rich_help_panel=_WHAT, help="Some columns."),
    ] = None,
    data_root: DataRoot = None,
    jobs: Annotated[
        int,
        typer.Option("--jobs", "-j", metavar="N", rich_help_panel=_WHERE, help="Runs at a time."),
    ] = 1,
    threads: Annotated[
        int, typer.Option(metavar="N", rich_help_panel=_WHERE, help="CPU threads a run.")
    ] = 1,
    engine: Annotated[
        str, typer.Option(metavar="NAME", rich_help_panel=_WHERE, help="local or ray.")
    ] = "local",
    address: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS", rich_help_panel=_WHERE, help="The Ray cluster: auto, host:port."
        ),
    ] = None,
    out: Annotated[
        Path,
        typer.Option(metavar="DIR", rich_help_panel=_WHERE, help="Folder of the runs."),
    ] = Path("runs/reproduce"),
    results: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            rich_help_panel=_WHERE,
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

    What is done already, by whichever table, is not done again; the same line goes on where it was
    stopped.
    """
    if names[0] == "list":
        _list(as_json)
        return
    from edgemask.reproduce import Runner, execute, make_plan, parse_seeds, pick

    status = names[0] == "status"
    chosen = pick(names[1:] or ["all"]) if status else pick(names)
    rows, cells = _keys(only), _keys(columns)
    for key in rows:
        _known(key, chosen, "row", [row.key for e in chosen for row in e.rows])
    for key in cells:
        _known(key, chosen, "column", [column.key for e in chosen for column in e.columns])
    wanted = parse_seeds(seeds) if seeds is not None else None

    def plan() -> Plan:
        default = 1 if status else max((e.seeds for e in chosen), default=1)
        return make_plan(
            chosen,
            preset=preset,
            seeds=wanted if wanted is not None else list(range(default)),
            root=out,
            data_root=data_root,
            only=rows,
            columns=cells,
        )

    runner = Runner(engine=engine, jobs=jobs, threads=threads, address=address)
    if status:
        _status(plan(), chosen, as_json)
    elif dry_run:
        _dry_run(plan(), runner, as_json)
    else:
        outcomes: list[Outcome] = []
        if show:
            done = plan()
        else:
            done, outcomes = execute(plan, runner, Teller(as_json))
        _finish(done, chosen, outcomes, results or out / "results" / preset, as_json)


class Teller:
    """Says how each run ended, on stderr where the results are JSON."""

    def __init__(self, as_json: bool):
        self.as_json = as_json
        self.count = 0

    def __call__(self, outcome: Outcome) -> None:
        self.count += 1
        error = f": {outcome.error}" if outcome.error else ""
        typer.echo(f"{self.count:>4}  {outcome.state:<9}  {outcome.name}{error}", err=self.as_json)


def _keys(text: str | None) -> list[str]:
    return [part.strip() for part in (text or "").split(",") if part.strip()]


def _known(key: str, chosen: list[Experiment], kind: str, keys: list[str]) -> None:
    from edgemask.errors import unknown_name

    if key not in keys:
        names = ", ".join(experiment.name for experiment in chosen)
        raise unknown_name(f"{kind} of {names}", key, dict.fromkeys(keys))


def _list(as_json: bool) -> None:
    from edgemask.cli.screen import print_json, print_table
    from edgemask.reproduce import EXPERIMENTS, PRESETS

    if not as_json:
        rows = [
            (name, str(len(e.rows)), str(len(e.columns)), e.title)
            for name, e in EXPERIMENTS.items()
        ]
        print_table(["name", "rows", "columns", "what it is"], rows)
        typer.echo()
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
                "paper": [
                    {"row": row, "column": column, "mean": number.mean, "std": number.std}
                    for (row, column), number in e.paper.items()
                ],
            }
            for name, e in EXPERIMENTS.items()
        ]
    )


def _status(plan: Plan, chosen: list[Experiment], as_json: bool) -> None:
    from edgemask.cli.screen import print_json
    from edgemask.reproduce.status import status_json, status_table

    if as_json:
        print_json(status_json(plan, chosen))
    else:
        typer.echo(status_table(plan, chosen).to_text())


def _dry_run(plan: Plan, runner: Runner, as_json: bool) -> None:
    from edgemask.cli.screen import duration, print_json, print_table
    from edgemask.reproduce.estimate import estimate
    from edgemask.reproduce.status import open_runs

    runs = plan.runs("to do", "partly", "failed")
    seconds = estimate(runs)
    total = sum(value or 0.0 for value in seconds.values()) / max(runner.jobs, 1)
    waiting = [cell for cell in plan.cells if cell.state == "waits"]
    if as_json:
        print_json({"runs": seconds, "waiting": len(waiting), "seconds": total})
        return
    rows = [
        (name, "unknown" if seconds[name] is None else duration(seconds[name] or 0.0))
        for name in open_runs(plan)
    ]
    print_table(["run", "estimate"], rows, right=1)
    extra = f", and {len(waiting)} that wait for others" if waiting else ""
    typer.echo(
        f"{len(runs)} runs{extra}; about {duration(total)} with {max(runner.jobs, 1)} at a time, "
        "if the machine is as busy as now"
    )
    reasons = {cell.reason for cell in plan.cells if cell.state == "skipped"}
    for reason in sorted(reasons):
        typer.echo(f"skipped: {reason}")


def _finish(
    plan: Plan, chosen: list[Experiment], outcomes: list[Outcome], folder: Path, as_json: bool
) -> None:
    from edgemask.cli.screen import print_json
    from edgemask.reproduce import write_results
    from edgemask.reproduce.measures import MEASURES

    written: dict[str, Any] = {}
    for experiment in chosen:
        if experiment.measure is None:
            files = write_results(plan, experiment, folder)
            text = files["txt"].read_text(encoding="utf-8")
        else:
            table = MEASURES[experiment.measure](experiment, quick=plan.preset.name == "smoke")
            folder.mkdir(parents=True, exist_ok=True)
            files = {"md": folder / f"{experiment.name}.md"}
            files["md"].write_text(table.to_markdown() + "\n", encoding="utf-8")
            text = table.to_text() + "\n"
        written[experiment.name] = {kind: str(path) for kind, path in files.items()}
        if not as_json:
            typer.echo()
            typer.echo(text, nl=False)
            typer.echo(f"written: {', '.join(map(str, files.values()))}")
    if as_json:
        print_json({"files": written, "failed": problems(outcomes)})
    fail_if_undone(outcomes)


def problems(outcomes: Sequence[Outcome]) -> list[dict[str, str]]:
    """Return the runs that are not done, and why."""
    return [{"run": o.name, "error": o.error} for o in outcomes if o.state != "done"]


def fail_if_undone(outcomes: Sequence[Outcome]) -> None:
    """End with a failure if runs are not done."""
    from edgemask.cli.exits import FAILURE
    from edgemask.cli.screen import complain

    failed = sum(outcome.state != "done" for outcome in outcomes)
    if failed:
        complain(f"{failed} of {len(outcomes)} runs are not done; the same line tries again")
        raise typer.Exit(FAILURE)
