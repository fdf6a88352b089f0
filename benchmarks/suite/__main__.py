"""Which head and loss should a person get who says nothing? Candidates on real noisy problems.

    python benchmarks/suite run [--problems NAME ...] [--candidates NAME ...] [--seeds 0-19]
    python benchmarks/suite table [--against "ce, chosen epoch"] [--set batches]
    python benchmarks/suite choose
    python benchmarks/suite report [--candidates NAME] [--set laptop]
    python benchmarks/suite run --set mechanism --problems wine-sym-40 [--seeds 0-19]
    python benchmarks/suite mechanism [--problems NAME ...]
    python benchmarks/suite sentence
    python benchmarks/suite run --set scale --seeds 0-1 --jobs 2
    python benchmarks/suite scale
    python benchmarks/suite pictures
    python benchmarks/suite pages [--check]

``run`` adds one line per run to ``results/suite/SET/PROBLEM.jsonl`` and skips what is there
already. It can be stopped at any moment: the same command continues, also inside a run, whose
folder stays below ``--runs`` until its line is written. ``--jobs`` is the number of processes.

``table`` prints mean gains in points with 95 % intervals over paired seeds. ``choose`` applies the
rule that docs/defaults.md states, and ``report`` prints the table of the candidate that was chosen,
or is named. The sets ``mechanism`` and ``scale`` ask why masking helps, and whether it does as the
data grow; the actions of those names print their tables, and ``sentence`` says in one what choosing
edges adds. The set ``batches`` repeats some candidates with the batches that a person gets,
``laptop`` repeats some on CIFAR-10 with twice the images and 30 epochs.
``pictures`` draws all three into ``results/suite``, and ``pages`` puts the tables into docs/
and the README.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import choice
import mechanism
import pages
import sizes
from candidates import AT_LAPTOP_SCALE, BASELINE, BATCHES, CANDIDATES
from problems import LAPTOP, PROBLEMS, SIZES, Problem
from reading import RESULTS, read, select_problems

from edgemask.engine import Config, Run
from edgemask.engine.compose import compose
from edgemask.engine.job import JobResult, RunJob, job_record
from edgemask.engine.jobs import JobRunner

SETS = {
    "candidates": CANDIDATES,
    "mechanism": {name: arguments for name, (_, arguments) in mechanism.SETTINGS.items()},
    "scale": sizes.SETTINGS,
    "batches": BATCHES,
    "laptop": {name: CANDIDATES[name] for name in AT_LAPTOP_SCALE},
}
PROBLEMS_OF = {"scale": SIZES, "laptop": LAPTOP}
BELONGS = {"mechanism": mechanism.belongs, "scale": sizes.belongs}
Task = tuple[str, str, int]


def config_of(problem: Problem, changes: dict[str, Any], seed: int) -> Config:
    """Return the config of a run: the arguments of a problem, changed by those of a candidate."""
    keywords = {**problem.arguments(seed), **changes}
    if callable(keywords.get("head")):
        keywords["head"] = keywords["head"](problem.classes)
    settings, sets = keywords.pop("settings", None), list(keywords.pop("set", ()))
    if (factor := keywords.pop("lr_factor", None)) is not None:
        sets.append(f"optim.lr={factor * problem.lr:g}")
    if "select" in changes:
        sets.append(f"eval.every={problem.test_every}")
    return compose(keywords.pop("recipe", None), None, keywords, sets, settings=settings)[0]


def record_of(task: Task, folder: Path) -> dict[str, Any]:
    """Return what is recorded of a finished run."""
    run = Run(folder)
    summary, history = run.summary, run.history
    chosen = summary.get("selected")
    last = summary["test/accuracy"]["last"]
    job = job_record(folder)
    return {
        **dict(zip(("problem", "candidate", "seed"), task, strict=True)),
        "accuracy": chosen["test/accuracy"] if chosen else last,
        "last": last,
        "worst_recall": min((chosen or summary)["per_class_accuracy"]),
        "fitted": next((e["fitted"] for e in reversed(history) if "fitted" in e), None),
        "memorised": summary.get("memorised"),
        "retention": summary.get("head/retention"),
        "retention_by_epoch": [
            (row["epoch"] + 1, row["head/retention"]) for row in history if "head/retention" in row
        ],
        "wrong": summary["noise"].get("realised_rate"),
        "epoch_seconds": job["cpu_seconds_per_epoch"],
        "cpu_seconds": round(len(history) * job["cpu_seconds_per_epoch"], 2),
        "config": summary["config_hash"],
        "commit": job["commit"],
    }


def run(options: argparse.Namespace) -> None:
    """Run what is missing."""
    chosen = options.candidates or SETS[options.set]
    (options.out / options.set).mkdir(parents=True, exist_ok=True)
    done = read(options.out, options.set)
    known = PROBLEMS_OF.get(options.set, PROBLEMS)
    tasks = [
        (problem, candidate, seed)
        for problem in select_problems(options.problems, known)
        for seed in options.seeds
        for candidate in chosen
        if seed not in done[problem, candidate]
        and (options.set not in BELONGS or BELONGS[options.set](problem, candidate))
    ]
    for name in dict.fromkeys(problem for problem, _, _ in tasks):
        if known[name].needs_data and not os.getenv("EDGEMASK_DATA"):
            print(f"{name}: left out, EDGEMASK_DATA is not set")
            tasks = [task for task in tasks if task[0] != name]
    folders = {
        options.runs / re.sub(r"[^\w.+]+", "-", f"{options.set} {p} {c} {s}"): (p, c, s)
        for p, c, s in tasks
    }
    jobs = [
        RunJob(config_of(known[p], SETS[options.set][c], s), folder)
        for folder, (p, c, s) in folders.items()
    ]
    count = 0

    def keep(result: JobResult) -> None:
        nonlocal count
        count += 1
        problem, candidate, seed = task = folders[result.folder]
        text = f"{result.state}: {result.error}"
        if result.state == "done":
            record = record_of(task, result.folder)
            with (options.out / options.set / f"{problem}.jsonl").open("a") as file:
                file.write(json.dumps(record) + "\n")
            shutil.rmtree(result.folder)
            text = f"{record['accuracy']:.3f}"
        print(f"{count}/{len(jobs)}  {problem}  {candidate}  seed {seed}: {text}", flush=True)

    runner = JobRunner(workers=options.jobs, imports=("problems", "controls"))
    # Those that were finished, but whose line was not written, are not reported as progress.
    for result in runner.run(jobs, keep):
        if result.folder.exists() and result.state == "done":
            keep(result)


def seeds(text: str) -> list[int]:
    """Read ``0-19`` or ``3``."""
    first, _, last = text.partition("-")
    return list(range(int(first), int(last or first) + 1))


def draw(options: argparse.Namespace) -> None:
    """Draw all pictures."""
    for part in (choice, mechanism, sizes):
        part.draw(options)


ACTIONS: dict[str, Callable[[argparse.Namespace], None]] = {
    "run": run,
    "table": choice.show,
    "choose": choice.choose,
    "report": choice.report,
    "mechanism": mechanism.mechanism,
    "sentence": mechanism.sentence,
    "scale": sizes.scale,
    "pictures": draw,
    "pages": lambda options: pages.fill(options, main),
}


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("action", choices=list(ACTIONS))
    parser.add_argument("--problems", nargs="+", help="names or their first words; default: all")
    parser.add_argument("--set", choices=list(SETS), default="candidates", help="which runs")
    parser.add_argument("--candidates", nargs="+", help="names of the set; default: all")
    parser.add_argument("--seeds", type=seeds, default=seeds("0-2"), help="such as 0-19")
    parser.add_argument("--jobs", type=int, default=1, help="processes, one thread each")
    parser.add_argument("--runs", type=Path, default=Path("runs/suite"), help="unfinished runs")
    parser.add_argument("--against", default=BASELINE, choices=list(CANDIDATES))
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--check", action="store_true", help="fail where pages are out of date")
    options = parser.parse_args(words)
    ACTIONS[options.action](options)


if __name__ == "__main__":
    main()
