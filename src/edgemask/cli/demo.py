"""``edgemask demo``: train on digits with wrong labels, with and without the SEM head."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from edgemask.cli.options import Json
from edgemask.cli.screen import say

if TYPE_CHECKING:
    from rich.console import Console

    from edgemask.engine.job import JobResult, RunJob

__all__ = ["demo"]

ROWS = ("ce", "ce-sem", "jal", "jal-sem")
# Long enough for plain CE to learn the digits and then the wrong labels too.
SETTINGS: dict[str, dict[str, Any]] = {
    "train": {"epochs": 50, "batch_size": 64, "threads": 1},
    "optim": {"lr": 0.02},
    "log": {"trackers": []},
}


def demo(
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder of the runs and the report.")
    ] = Path("runs/demo"),
    seeds: Annotated[int, typer.Option(min=1, metavar="N", help="Runs of each kind.")] = 3,
    epochs: Annotated[
        int, typer.Option(min=1, metavar="N", help="Passes over the data.")
    ] = SETTINGS["train"]["epochs"],
    jobs: Annotated[
        int, typer.Option(min=1, metavar="N", help="Runs at a time, one thread each.")
    ] = min(2, os.cpu_count() or 1),
    fresh: Annotated[bool, typer.Option("--fresh", help="Do finished runs again.")] = False,
    as_json: Json = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print nothing but errors and the outcome.")
    ] = False,
) -> None:
    """Compare CE and JAL with and without the SEM head on digits with 60 % wrong labels.

    Under two minutes on two cores; writes a report and prints a table. Runs that are done already
    are not done again.
    """
    from edgemask.cli.screen import console, duration, print_json
    from edgemask.report import write_report

    start = time.monotonic()
    console_out = console(stderr=as_json)
    folders = {row: [out / f"{row}-{seed}" for seed in range(seeds)] for row in ROWS}
    if not quiet:
        console_out.print(_setting(seeds, epochs))
    runs = [_job(row, seed, epochs, folders[row][seed]) for seed in range(seeds) for row in ROWS]
    _run_all(runs, console_out, epochs=epochs, jobs=jobs, fresh=fresh, quiet=quiet)
    files = write_report([run.folder for run in runs], out)
    results = _results(folders)
    seconds = time.monotonic() - start
    if as_json:
        print_json({"rows": results, "report": str(files.html), "seconds": round(seconds, 1)})
        return
    _show(results)
    console_out.print(f"{len(runs)} runs in {duration(seconds)}")
    console_out.print(f"report: {files.html}")


def _setting(seeds: int, epochs: int) -> str:
    from edgemask.cli.screen import count

    size, rate = SETTINGS["train"]["batch_size"], SETTINGS["optim"]["lr"]
    return (
        "digits: 1,438 images of 8x8 pixels to learn from, 60 % of their labels wrong (symmetric "
        "noise), 359 to test on\n"
        "small-cnn with 256 features before the head, random shifts by one pixel\n"
        f"SGD, momentum 0.9, constant rate {rate}, batches of {size}, "
        f"{count(epochs, 'epoch')}, {count(seeds, 'seed')}\n"
        "under one seed all four have the same noise, initial weights and data order"
    )


def _job(row: str, seed: int, epochs: int, folder: Path) -> RunJob:
    """Return a run of the demo; ``row`` is the name of a recipe below ``digits/``."""
    from edgemask.engine import RECIPES, merge
    from edgemask.engine.job import RunJob

    changed = {
        "name": row,
        "noise": {"seed": seed},
        "train": {"seed": seed, "epochs": epochs},
    }
    return RunJob(RECIPES[f"digits/{row}"].config(merge(SETTINGS, changed)), folder)


def _run_all(
    runs: Sequence[RunJob], out: Console, *, epochs: int, jobs: int, fresh: bool, quiet: bool
) -> None:
    """Do all runs in worker processes, and show how many epochs are done."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    from edgemask.engine.jobs import JobRunner
    from edgemask.engine.rundir import RunDir
    from edgemask.errors import UserError

    for folder in [RunDir(run.folder) for run in runs] if fresh else ():
        if folder.started:
            with folder.lock():
                folder.clear()
    live = out.is_terminal and not quiet
    columns = (BarColumn(32), MofNCompleteColumn(), TextColumn("epochs"), TimeRemainingColumn())
    with Progress(*columns, console=out, disable=not live, transient=True) as bar:
        task = bar.add_task("", total=epochs * len(runs))

        def show_epochs() -> None:
            bar.update(task, completed=sum(_epochs(run.folder) for run in runs))

        def show_result(result: JobResult) -> None:
            if result.state == "done" and not quiet and not live:
                row, _, seed = result.name.rpartition("-")
                out.print(f"done: {row}, seed {seed}")

        results = JobRunner(workers=jobs).run(runs, show_result, tick=show_epochs)
    for result in results:
        if result.state != "done":
            raise UserError(f"{result.folder}: {result.error}")


def _epochs(path: Path) -> int:
    """Return the number of epochs that a run has done."""
    try:
        return (path / "metrics.jsonl").read_bytes().count(b"\n")
    except OSError:
        return 0


def _results(folders: Mapping[str, Sequence[Path]]) -> list[dict[str, Any]]:
    """Return mean and standard deviation over the seeds, in percent."""
    from edgemask.engine import load_run
    from edgemask.report import spread

    rows = []
    for name, paths in folders.items():
        summaries = [load_run(path).summary for path in paths]
        columns = {
            "last": [s["test/accuracy"]["last"] for s in summaries],
            "mean of last 10": [s["test/accuracy"]["mean_last_10"] for s in summaries],
            "best (oracle)": [s["test/accuracy"]["best"] for s in summaries],
            "memorised": [s["memorised"] for s in summaries],
        }
        row: dict[str, Any] = {"name": name.upper()}
        for title, values in columns.items():
            found = spread(values, digits=1)
            row[title] = {"mean": found.value, "std": found.std, "values": values}
        rows.append(row)
    return rows


def _show(results: Sequence[Mapping[str, Any]]) -> None:
    from edgemask.cli.screen import print_table

    def written(cell: Mapping[str, Any]) -> str:
        spread = "" if cell["std"] is None else f" ± {100 * cell['std']:.1f}"
        return f"{100 * cell['mean']:.1f}{spread}"

    titles = [title for title in results[0] if title != "name"]
    rows = [(row["name"], *(written(row[title]) for title in titles)) for row in results]
    print_table(["in %", *titles], rows, right=len(titles))
    say(
        "test accuracy at the last epoch, as mean of the last ten, and at the epoch that the test\n"
        "set itself would choose; memorised: wrong training labels that the network repeats;\n"
        "mean ± standard deviation over the seeds"
    )
