"""``edgemask demo``: what wrong labels do to a network, and what the head does against it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from edgemask.cli.options import Json

if TYPE_CHECKING:
    from concurrent.futures import Future

    from rich.console import Console

__all__ = ["demo"]

ROWS = ("ce", "ce-sem", "jal", "jal-sem")
# Long enough for plain CE to learn the digits and then the wrong labels too.
SETTINGS: dict[str, dict[str, Any]] = {
    "train": {"epochs": 50, "batch_size": 64, "threads": 1},
    "optim": {"lr": 0.02},
    "log": {"trackers": []},
}


@dataclass(frozen=True)
class Cell:
    """One run of the demo."""

    row: str
    """Loss and head, the name of a recipe below ``digits/``."""
    seed: int
    """Seed of weights, order, augmentation, masks and of the noise."""
    path: Path
    """The run's folder."""


def demo(
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder of the runs and the report.")
    ] = Path("runs/demo"),
    seeds: Annotated[int, typer.Option(min=1, metavar="N", help="Runs of each kind.")] = 3,
    epochs: Annotated[
        int, typer.Option(min=1, metavar="N", help="Passes over the data.")
    ] = SETTINGS["train"]["epochs"],
    jobs: Annotated[
        int, typer.Option(min=1, metavar="N", help="Runs at the same time, a thread each.")
    ] = min(2, os.cpu_count() or 1),
    fresh: Annotated[bool, typer.Option("--fresh", help="Do finished runs again.")] = False,
    as_json: Json = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print nothing but errors and the outcome.")
    ] = False,
) -> None:
    """Compare CE and JAL with and without the SEM head on digits with 60 % wrong labels.

    Under two minutes on two cores; writes a report and prints a table. Runs that are there
    already are not done again.
    """
    from edgemask.cli.screen import console, duration, print_json
    from edgemask.report import write_report

    begun = time.monotonic()
    console_out = console(stderr=as_json)
    cells = [Cell(row, seed, out / f"{row}-{seed}") for seed in range(seeds) for row in ROWS]
    if not quiet:
        console_out.print(_setting(seeds, epochs))
    _run_all(cells, console_out, epochs=epochs, jobs=jobs, fresh=fresh, quiet=quiet)
    files = write_report([cell.path for cell in cells], out)
    results = _results(cells)
    seconds = time.monotonic() - begun
    if as_json:
        print_json({"rows": results, "report": str(files.html), "seconds": round(seconds, 1)})
        return
    _show(results)
    console_out.print(f"{len(cells)} runs in {duration(seconds)}")
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


def _run_all(
    cells: Sequence[Cell], out: Console, *, epochs: int, jobs: int, fresh: bool, quiet: bool
) -> None:
    """Run all cells, some at a time, each in a process with one thread."""
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    os.environ["OMP_NUM_THREADS"] = "1"  # read by the processes that are started below
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(min(jobs, len(cells)), mp_context=context)
    try:
        futures = {pool.submit(_run, cell, epochs, fresh): cell for cell in cells}
        for done in _finished(futures, out, epochs=epochs, quiet=quiet):
            done.result()
        pool.shutdown()
    except KeyboardInterrupt:
        raise KeyboardInterrupt("stopped; the same line goes on with it") from None
    finally:
        # Nothing is left to end but after a failure; then the runs go on next time.
        pool.shutdown(wait=False, cancel_futures=True)
        for worker in multiprocessing.active_children():
            worker.terminate()


def _run(cell: Cell, epochs: int, fresh: bool) -> None:
    """Train one cell; runs in a worker."""
    from edgemask.engine import RECIPES, merge, train

    changed = {
        "name": cell.row,
        "noise": {"seed": cell.seed},
        "train": {"seed": cell.seed, "epochs": epochs},
    }
    config = RECIPES[f"digits/{cell.row}"].config(merge(SETTINGS, changed))
    train(config, out=cell.path, fresh=fresh)


def _finished(
    futures: Mapping[Future[None], Cell], out: Console, *, epochs: int, quiet: bool
) -> Iterator[Future[None]]:
    """Yield runs as they finish, and show how far all of them are."""
    from concurrent.futures import FIRST_COMPLETED, wait

    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    live = out.is_terminal and not quiet
    columns = (BarColumn(32), MofNCompleteColumn(), TextColumn("epochs"), TimeRemainingColumn())
    with Progress(*columns, console=out, disable=not live, transient=True) as bar:
        task = bar.add_task("", total=epochs * len(futures))
        waiting = set(futures)
        while waiting:
            done, waiting = wait(waiting, timeout=0.3, return_when=FIRST_COMPLETED)
            bar.update(task, completed=sum(_epochs(cell.path) for cell in futures.values()))
            for future in done:
                yield future
                if not quiet and not live:
                    cell = futures[future]
                    out.print(f"done: {cell.row}, seed {cell.seed}")


def _epochs(path: Path) -> int:
    """Return how many epochs a run has behind it."""
    try:
        return (path / "metrics.jsonl").read_bytes().count(b"\n")
    except OSError:
        return 0


def _results(cells: Sequence[Cell]) -> list[dict[str, Any]]:
    """Return mean and standard deviation over the seeds, in percent."""
    from edgemask.engine import load_run
    from edgemask.report import spread

    rows = []
    for name in ROWS:
        summaries = [load_run(cell.path).summary for cell in cells if cell.row == name]
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
    typer.echo(
        "test accuracy at the last epoch, as mean of the last ten, and at the epoch that the test\n"
        "set itself would choose; memorised: wrong training labels that the network repeats;\n"
        "mean ± standard deviation over the seeds"
    )
