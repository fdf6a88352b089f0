"""``edgemask sweep``: one run per combination of some settings, a table and a figure."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from edgemask.cli.jobs import Address, Engine, Jobs, Threads
from edgemask.cli.names import complete
from edgemask.cli.options import DataRoot, Imports, Json, Set

__all__ = ["sweep"]


def sweep(
    grid: Annotated[
        list[str],
        typer.Option(
            "--grid",
            metavar="KEY=VALUES",
            help="A setting and its values: rho=0,0.1..0.9 or train.seed=0..2; may be repeated. "
            "Results are averaged over seeds.",
        ),
    ],
    recipe: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            autocompletion=complete("recipes"),
            help="Published settings to start from, such as cifar10/jal-sem.",
        ),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="YAML settings that override the recipe.")
    ] = None,
    settings: Set = None,
    data_root: DataRoot = None,
    jobs: Jobs = 1,
    threads: Threads = 1,
    engine: Engine = "local",
    address: Address = None,
    imports: Imports = None,
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder of the runs and of the result.")
    ] = Path("runs/sweep"),
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the runs and an estimate; run nothing.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Run every combination of some settings; end in a table and a figure.

    A run is never done twice, and the same command continues where it was stopped.
    """
    from edgemask.cli import jobs as many
    from edgemask.cli.screen import duration, print_json, print_table, say
    from edgemask.engine import load_yaml, merge
    from edgemask.engine.compose import join, settings_of
    from edgemask.engine.estimate import estimate
    from edgemask.engine.job import RunJob, job_state
    from edgemask.reproduce import make_points, parse_axis, write_sweep
    from edgemask.reproduce.sweep import sweep_table

    runner = many.make_runner(jobs, threads, engine, address, imports)
    file = {} if config is None else load_yaml(config)
    root = {} if data_root is None else {"data": {"root": str(data_root)}}
    values = merge({"log": {"trackers": []}}, join(None, file, settings_of(settings or [])), root)
    axes = [parse_axis(text, join(recipe, values)) for text in grid]
    points = make_points(values, axes, recipe)
    if dry_run:
        seconds = estimate(
            {p.name: p.config for p in points if job_state(out / p.name)[0] != "done"}
        )
        total = many.total_seconds(seconds, jobs)
        if as_json:
            print_json({"runs": seconds, "seconds": total})
            return
        rows = [
            (", ".join(f"{key}={value}" for key, value in p.values.items()), p.name) for p in points
        ]
        print_table(["settings", "run"], rows)
        say(f"{len(seconds)} of {len(points)} runs to do; about {duration(total)}")
        return
    results = runner.run(
        [RunJob(point.config, out / point.name) for point in points],
        many.print_progress(as_json),
    )
    files = write_sweep(points, axes, out, out)
    if as_json:
        shown = {kind: str(path) for kind, path in files.items()}
        print_json({"files": shown, "failed": many.failures(results)})
    else:
        say(sweep_table(points, axes, out).to_text())
        say(f"written: {', '.join(map(str, files.values()))}")
    many.exit_if_failed(results)
