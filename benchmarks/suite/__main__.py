"""Which head and loss should a person get who says nothing? Candidates on real noisy problems.

    python benchmarks/suite run [--problems NAME ...] [--candidates NAME ...] [--seeds 0-19]
    python benchmarks/suite table [--against "ce, chosen epoch"]
    python benchmarks/suite choose
    python benchmarks/suite report [--candidates NAME]
    python benchmarks/suite picture
    python benchmarks/suite run --set mechanism --problems wine-sym-40 [--seeds 0-19]
    python benchmarks/suite mechanism [--problems NAME ...]

``run`` adds one line per run to ``results/suite/PROBLEM.jsonl`` and skips what is there already,
so that it can be stopped and started again. ``table`` prints mean gains in points with 95 %
intervals over paired seeds. ``choose`` applies the rule that docs/defaults.md states, ``report``
prints its table for the candidate that was chosen, or is named, and ``picture`` draws all gains.
The set ``mechanism`` asks why masking helps; the action of that name prints its table and draws
``results/suite/mechanism.png``.
"""

from __future__ import annotations

import argparse
import json
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
from problems import PROBLEMS, Problem
from reading import RESULTS, read, select_problems

import edgemask as em
from edgemask.engine.job import code_commit

SETS = {"candidates": CANDIDATES, "mechanism": {name: a for name, (_, a) in SETTINGS.items()}}


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
        "wrong": summary["noise"].get("realised_rate"),
        "cpu_seconds": round(time.process_time() - started, 2),
        "config": summary["config_hash"],
        "commit": code_commit(),
    }


def run(options: argparse.Namespace) -> None:
    """Run what is missing."""
    torch.set_num_threads(1)
    chosen, folder = SETS[options.set], options.out / options.set
    folder.mkdir(parents=True, exist_ok=True)
    done = read(options.out, options.set)
    todo = [
        (problem, candidate, seed)
        for problem in select_problems(options.problems)
        for seed in options.seeds
        for candidate in options.candidates or chosen
        if seed not in done[problem, candidate]
    ]
    for count, (name, candidate, seed) in enumerate(todo, 1):
        problem = PROBLEMS[name]
        if problem.needs_data and "EDGEMASK_DATA" not in os.environ:
            print(f"{name}: left out, EDGEMASK_DATA is not set")
            continue
        record = run_one(problem, candidate, chosen[candidate], seed)
        with (folder / f"{name}.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")
        print(
            f"{count}/{len(todo)}  {name}  {candidate}  seed {seed}: {record['accuracy']:.3f}",
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
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("action", choices=list(ACTIONS))
    parser.add_argument("--problems", nargs="+", help="names or their first words; default: all")
    parser.add_argument("--set", choices=list(SETS), default="candidates", help="what to run")
    parser.add_argument("--candidates", nargs="+", help="names of the set; default: all")
    parser.add_argument("--seeds", type=seeds, default=seeds("0-2"), help="such as 0-19")
    parser.add_argument("--against", default=BASELINE, choices=list(CANDIDATES))
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    ACTIONS[options.action](options)


if __name__ == "__main__":
    main()
