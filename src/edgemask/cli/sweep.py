"""``edgemask sweep``: a run for every combination of some settings, and a picture of it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from edgemask.cli.names import complete
from edgemask.cli.options import DataRoot, Json, Set

__all__ = ["sweep"]


def sweep(
    grid: Annotated[
        list[str],
        typer.Option(
            "--grid",
            metavar="KEY=VALUES",
            help="rho=0,0.1..0.9 or train.seed=0..2; may be repeated. Seeds are averaged over.",
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
        Path | None, typer.Option(metavar="FILE", help="YAML settings, laid upon the recipe.")
    ] = None,
    settings: Set = None,
    data_root: DataRoot = None,
    jobs: Annotated[int, typer.Option("--jobs", "-j", metavar="N", help="Runs at a time.")] = 1,
    threads: Annotated[int, typer.Option(metavar="N", help="CPU threads a run.")] = 1,
    engine: Annotated[str, typer.Option(metavar="NAME", help="local or ray.")] = "local",
    address: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="The Ray cluster: auto, host:port.")
    ] = None,
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder of the runs and of the result.")
    ] = Path("runs/sweep"),
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the runs and an estimate; run nothing.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Run every combination of some settings; end in a table and a picture.

    A run is never done twice, and the same line goes on where it was stopped.
    """
    from edgemask.cli.reproduce import Teller, fail_if_undone, problems
    from edgemask.cli.screen import duration, print_json, print_table
    from edgemask.cli.settings import lay
    from edgemask.engine import RECIPES, assign, load_yaml, merge
    from edgemask.reproduce import Runner, make_points, parse_axis, write_sweep
    from edgemask.reproduce.estimate import estimate
    from edgemask.reproduce.ledger import Ledger
    from edgemask.reproduce.sweep import sweep_table

    values: dict[str, Any] = RECIPES[recipe].layer() if recipe is not None else {}
    for layer in (load_yaml(config) if config is not None else {}, assign({}, settings or [])):
        values = lay(values, layer)
    where = None if data_root is None else str(data_root)
    values = merge({"log": {"trackers": []}}, values, {"data": {"root": where}} if where else {})
    axes = [parse_axis(text, values) for text in grid]
    points = make_points(values, axes)
    ledger = Ledger(out)
    runs = {p.name: p.config for p in points if ledger.state(p.name)[0] != "done"}
    runner = Runner(engine=engine, jobs=jobs, threads=threads, address=address)
    if dry_run:
        seconds = estimate(runs)
        total = sum(value or 0.0 for value in seconds.values()) / max(jobs, 1)
        if as_json:
            print_json({"runs": seconds, "seconds": total})
            return
        rows = [
            (", ".join(f"{key}={value}" for key, value in p.values.items()), p.name) for p in points
        ]
        print_table(["place", "run"], rows)
        typer.echo(f"{len(runs)} of {len(points)} runs to do; about {duration(total)}")
        return
    outcomes = runner.run(runs, out, Teller(as_json))
    files = write_sweep(points, axes, out, out)
    if as_json:
        shown = {kind: str(path) for kind, path in files.items()}
        print_json({"files": shown, "failed": problems(outcomes)})
    else:
        typer.echo(sweep_table(points, axes, out).to_text())
        typer.echo(f"written: {', '.join(map(str, files.values()))}")
    fail_if_undone(outcomes)
