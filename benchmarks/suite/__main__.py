"""Which head and loss should a person get who says nothing? Candidates on real noisy problems.

    python benchmarks/suite run [--problems NAME ...] [--candidates NAME ...] [--seeds 0-19]
    python benchmarks/suite table [--against "ce, chosen epoch"]
    python benchmarks/suite choose

``run`` adds one line per run to ``results/suite/PROBLEM.jsonl`` and skips what is there already,
so that it can be stopped and started again. ``table`` prints mean gains in points with 95 %
intervals over paired seeds. ``choose`` applies the rule that docs/defaults.md states.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from statistics import fmean
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch
from candidates import BASELINE, CANDIDATES
from problems import PROBLEMS, Problem

import edgemask as em
from _measure import table
from edgemask.reproduce.compare import PairedDifference, paired_difference

RESULTS = Path(__file__).resolve().parents[2] / "results" / "suite"
LARGEST_LOSS = -0.01  # no interval of a candidate may lie wholly below

Records = dict[tuple[str, str], dict[int, dict[str, Any]]]


def read(folder: Path) -> Records:
    """Return the recorded runs: (problem, candidate) -> seed -> record."""
    found: Records = defaultdict(dict)
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            record = json.loads(line)
            found[record["problem"], record["candidate"]][record["seed"]] = record
    return found


def run_one(problem: Problem, candidate: str, seed: int) -> dict[str, Any]:
    """Train a candidate on a problem and return what is recorded of it."""
    arguments = {**problem.arguments(seed), **CANDIDATES[candidate]}
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
        "commit": commit(),
    }


def commit() -> str | None:
    """Return the commit of the code."""
    words = ["git", "rev-parse", "--short=12", "HEAD"]
    done = subprocess.run(  # noqa: S603
        words, capture_output=True, check=False, text=True, cwd=RESULTS.parents[1]
    )
    return done.stdout.strip() or None


def run(options: argparse.Namespace) -> None:
    """Run what is missing."""
    torch.set_num_threads(1)
    options.out.mkdir(parents=True, exist_ok=True)
    done = read(options.out)
    todo = [
        (problem, candidate, seed)
        for problem in select_problems(options.problems)
        for seed in options.seeds
        for candidate in options.candidates or CANDIDATES
        if seed not in done[problem, candidate]
    ]
    for count, (name, candidate, seed) in enumerate(todo, 1):
        problem = PROBLEMS[name]
        if problem.needs_data and "EDGEMASK_DATA" not in os.environ:
            print(f"{name}: left out, EDGEMASK_DATA is not set")
            continue
        record = run_one(problem, candidate, seed)
        with (options.out / f"{name}.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")
        print(
            f"{count}/{len(todo)}  {name}  {candidate}  seed {seed}: {record['accuracy']:.3f}",
            flush=True,
        )


def select_problems(wanted: list[str] | None) -> list[str]:
    """Return the problems whose name is or starts with one of those wanted; all without any."""
    words = tuple(f"{word}-" for word in wanted or [""])
    chosen = [name for name in PROBLEMS if not wanted or f"{name}-".startswith(words)]
    if not chosen:
        raise SystemExit(f"no problem is called {wanted}; there are: {', '.join(PROBLEMS)}")
    return chosen


def gains(records: Records, candidate: str, against: str) -> dict[str, PairedDifference]:
    """Return the gain of a candidate over another on every problem with paired seeds."""
    found = {}
    for problem in PROBLEMS:
        mine, other = records[problem, candidate], records[problem, against]
        seeds = sorted(set(mine) & set(other))
        if seeds:
            found[problem] = paired_difference(
                [mine[seed]["accuracy"] for seed in seeds],
                [other[seed]["accuracy"] for seed in seeds],
            )
    return found


def family_mean(found: dict[str, PairedDifference]) -> float:
    """Return the mean gain on noisy problems, averaged within families first."""
    families = defaultdict(list)
    for name, gain in found.items():
        if PROBLEMS[name].noisy:
            families[PROBLEMS[name].family].append(gain.mean)
    return fmean(fmean(values) for values in families.values()) if families else float("nan")


def show(options: argparse.Namespace) -> None:
    """Print the gains of all candidates."""
    records = read(options.out)
    problems = [name for name in PROBLEMS if records[name, options.against]]
    rows = []
    for candidate in CANDIDATES:
        found = gains(records, candidate, options.against)
        if found and candidate != options.against:
            cells = [cell(found.get(name)) for name in problems]
            rows.append((family_mean(found), [candidate, *cells]))
    rows.sort(key=lambda row: -row[0])
    print(f"Gain over {options.against!r} in points [95 % interval over paired seeds]\n")
    table(["candidate", "families", *problems], [[c[0], f"{m:+.1%}"[:-1], *c[1:]] for m, c in rows])


def cell(gain: PairedDifference | None) -> str:
    """Return a gain in points with its interval."""
    if gain is None:
        return ""
    if gain.low is None or gain.high is None:
        return f"{100 * gain.mean:+.1f}"
    return f"{100 * gain.mean:+.1f} [{100 * gain.low:+.1f}, {100 * gain.high:+.1f}]"


def choose(options: argparse.Namespace) -> None:
    """Print the candidate with the largest mean gain among those that are safe everywhere."""
    records = read(options.out)
    ranking = []
    for candidate in CANDIDATES:
        found = gains(records, candidate, BASELINE)
        if candidate == BASELINE or not found:
            continue
        worse = [n for n, g in found.items() if g.high is not None and g.high < LARGEST_LOSS]
        ranking.append((not worse, family_mean(found), candidate, worse))
    for safe, mean, candidate, worse in sorted(ranking, key=lambda row: row[:2], reverse=True):
        note = "safe" if safe else "below -1 point on " + ", ".join(worse)
        print(f"{100 * mean:+6.2f}  {candidate}: {note}")


def seeds(text: str) -> list[int]:
    """Read ``0-19`` or ``3``."""
    first, _, last = text.partition("-")
    return list(range(int(first), int(last or first) + 1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("action", choices=["run", "table", "choose"])
    parser.add_argument("--problems", nargs="+", help="names or their first words; default: all")
    parser.add_argument("--candidates", nargs="+", choices=list(CANDIDATES), help="default: all")
    parser.add_argument("--seeds", type=seeds, default=seeds("0-2"), help="such as 0-19")
    parser.add_argument("--against", default=BASELINE, choices=list(CANDIDATES))
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    {"run": run, "table": show, "choose": choose}[options.action](options)


if __name__ == "__main__":
    main()
