"""Which head and loss should a person get who says nothing? Candidates on real noisy problems.

    python benchmarks/suite run [--problems NAME ...] [--candidates NAME ...] [--seeds 0-19]
    python benchmarks/suite table [--against "ce, chosen epoch"]
    python benchmarks/suite choose
    python benchmarks/suite report [--candidates NAME]
    python benchmarks/suite picture
    python benchmarks/suite run --set mechanism --problems wine-sym-40 [--seeds 0-19]
    python benchmarks/suite mechanism [--problems NAME ...]
    python benchmarks/suite run --set scale --seeds 0-1 --jobs 2
    python benchmarks/suite scale

``run`` adds one line per run to ``results/suite/SET/PROBLEM.jsonl`` and skips what is there
already, so that it can be stopped and started again; ``--jobs`` shares the runs among processes.
``table`` prints mean gains in points with 95 % intervals over paired seeds. ``choose`` applies the
rule that docs/defaults.md states, ``report`` prints its table for the candidate that was chosen, or
is named, and ``picture`` draws all gains. The sets ``mechanism`` and ``scale`` ask why masking
helps, and whether it does as the data grow; the actions of those names print their tables and draw
``results/suite/mechanism.png`` and ``scale.png``.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch
from candidates import BASELINE, CANDIDATES
from choice import choose, picture, report, show
from mechanism import SETTINGS, mechanism
from problems import PROBLEMS, SIZES, Problem
from reading import RESULTS, read, select_problems
from sizes import SETTINGS as SCALE_SETTINGS
from sizes import belongs, scale

import edgemask as em
from edgemask.engine.job import code_commit

SETS = {
    "candidates": CANDIDATES,
    "mechanism": {name: arguments for name, (_, arguments) in SETTINGS.items()},
    "scale": SCALE_SETTINGS,
}
Task = tuple[str, str, int]


def run_one(problem: Problem, candidate: str, changes: dict[str, Any], seed: int) -> dict[str, Any]:
    """Train a candidate on a problem and return what is recorded of it."""
    arguments = {**problem.arguments(seed), **changes}
    factor = arguments.pop("lr_factor", None)
    if factor is not None:
        arguments["lr"] = factor * problem.lr
    started = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        run = em.fit(**arguments, out=Path(folder) / "run")
        summary, history = run.summary, run.history
    chosen = summary.get("selected")
    last = summary["test/accuracy"]["last"]
    recalls = (chosen or summary)["per_class_accuracy"]
    return {
        "problem": problem.name,
        "candidate": candidate,
        "seed": seed,
        "accuracy": chosen["test/accuracy"] if chosen else last,
        "last": last,
        "worst_recall": min(recalls),
        "fitted": next((e["fitted"] for e in reversed(history) if "fitted" in e), None),
        "memorised": summary.get("memorised"),
        "retention": summary.get("head/retention"),
        "retention_by_epoch": [
            (row["epoch"] + 1, row["head/retention"]) for row in history if "head/retention" in row
        ],
        "wrong": summary["noise"].get("realised_rate"),
        "cpu_seconds": round(time.process_time() - started, 2),
        "config": summary["config_hash"],
        "commit": code_commit(),
    }


def run(options: argparse.Namespace) -> None:
    """Run what is missing."""
    chosen = options.candidates or SETS[options.set]
    (options.out / options.set).mkdir(parents=True, exist_ok=True)
    done = read(options.out, options.set)
    known = SIZES if options.set == "scale" else PROBLEMS
    todo = [
        (problem, candidate, seed)
        for problem in select_problems(options.problems, known)
        for seed in options.seeds
        for candidate in chosen
        if seed not in done[problem, candidate]
        and (options.set != "scale" or belongs(problem, candidate))
    ]
    missing = [
        task for task in todo if known[task[0]].needs_data and not os.getenv("EDGEMASK_DATA")
    ]
    for name in dict.fromkeys(problem for problem, _, _ in missing):
        print(f"{name}: left out, EDGEMASK_DATA is not set")
    tasks = [task for task in todo if task not in missing]
    if options.jobs == 1:
        run_tasks(tasks, options.set, options.out)
        return
    # Tasks alternate, so that slow problems are shared, too.
    shares = [(tasks[i :: options.jobs], options.set, options.out) for i in range(options.jobs)]
    with multiprocessing.get_context("spawn").Pool(options.jobs) as pool:
        pool.starmap(run_tasks, shares, chunksize=1)


def run_tasks(tasks: list[Task], name: str, out: Path) -> None:
    """Run some candidates of a set, one after the other, and add their records."""
    torch.set_num_threads(1)
    for count, (problem, candidate, seed) in enumerate(tasks, 1):
        found = (PROBLEMS | SIZES)[problem]
        record = run_one(found, candidate, SETS[name][candidate], seed)
        with (out / name / f"{problem}.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")
        print(
            f"{count}/{len(tasks)}  {problem}  {candidate}  seed {seed}: {record['accuracy']:.3f}",
            flush=True,
        )


def seeds(text: str) -> list[int]:
    """Read ``0-19`` or ``3``."""
    first, _, last = text.partition("-")
    return list(range(int(first), int(last or first) + 1))


ACTIONS = {
    "run": run,
    "table": show,
    "choose": choose,
    "report": report,
    "picture": picture,
    "mechanism": mechanism,
    "scale": scale,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("action", choices=list(ACTIONS))
    parser.add_argument("--problems", nargs="+", help="names or their first words; default: all")
    parser.add_argument("--set", choices=list(SETS), default="candidates", help="what to run")
    parser.add_argument("--candidates", nargs="+", help="names of the set; default: all")
    parser.add_argument("--seeds", type=seeds, default=seeds("0-2"), help="such as 0-19")
    parser.add_argument("--jobs", type=int, default=1, help="processes, one thread each")
    parser.add_argument("--against", default=BASELINE, choices=list(CANDIDATES))
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    ACTIONS[options.action](options)


if __name__ == "__main__":
    main()
