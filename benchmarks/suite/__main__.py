"""Which head and loss should a person get who says nothing? Candidates on real noisy problems.

    python benchmarks/suite run [--problems NAME ...] [--candidates NAME ...] [--seeds 0-19]
    python benchmarks/suite table [--against "ce, chosen epoch"]
    python benchmarks/suite choose
    python benchmarks/suite run --set mechanism --problems wine-sym-40 [--seeds 0-19]
    python benchmarks/suite mechanism [--problems NAME ...]

``run`` adds one line per run to ``results/suite/PROBLEM.jsonl`` and skips what is there already,
so that it can be stopped and started again. ``table`` prints mean gains in points with 95 %
intervals over paired seeds. ``choose`` applies the rule that docs/defaults.md states. The set
``mechanism`` asks why masking helps; the action of that name prints its table and draws
``results/suite/mechanism.png``.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from statistics import fmean
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import torch
from candidates import BASELINE, CANDIDATES
from mechanism import SETTINGS
from problems import PROBLEMS, Problem

import edgemask as em
from _measure import table
from edgemask.engine.jobs import code_commit
from edgemask.reproduce.compare import PairedDifference, paired_difference

RESULTS = Path(__file__).resolve().parents[2] / "results" / "suite"
SETS = {"candidates": CANDIDATES, "mechanism": {name: a for name, (_, a) in SETTINGS.items()}}
LARGEST_LOSS = -0.01  # no interval of a candidate may lie wholly below

Records = dict[tuple[str, str], dict[int, dict[str, Any]]]


def read(folder: Path, name: str = "candidates") -> Records:
    """Return the recorded runs of a set: (problem, candidate) -> seed -> record."""
    found: Records = defaultdict(dict)
    for path in sorted((folder / name).glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            record = json.loads(line)
            found[record["problem"], record["candidate"]][record["seed"]] = record
    return found


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
        gain = compare(mine, other, sorted(set(mine) & set(other)))
        if gain is not None:
            found[problem] = gain
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


def mechanism(options: argparse.Namespace) -> None:
    """Print what each setting does, and draw accuracy against how far given labels are fitted."""
    from matplotlib import pyplot as plt

    records = read(options.out, "mechanism")
    problems = [name for name in select_problems(options.problems) if records[name, "linear"]]
    figure, axes = plt.subplots(1, len(problems), figsize=(5 * len(problems), 4.5), squeeze=False)
    rows = [[name] for name in SETTINGS]
    for problem, axis in zip(problems, axes[0], strict=True):
        base = records[problem, "linear"]
        points: dict[str, list[tuple[float, float]]] = defaultdict(list)
        for row, (name, (kind, _)) in zip(rows, SETTINGS.items(), strict=True):
            runs = records[problem, name]
            shared = sorted(set(runs) & set(base))
            row.append(cell(compare(runs, base, shared)))
            row.append(f"{100 * fmean(r['fitted'] for r in runs.values()):.0f}" if runs else "")
            if runs:
                accuracy = fmean(r["accuracy"] for r in runs.values())
                points[kind].append((fmean(r["fitted"] for r in runs.values()), accuracy))
        for kind, pairs in points.items():
            axis.plot(*zip(*sorted(pairs), strict=True), "o-", label=kind, alpha=0.8)
        everything = np.array([pair for pairs in points.values() for pair in pairs])
        fit = np.polyfit(*everything.T, 3)
        residual = everything[:, 1] - np.polyval(fit, everything[:, 0])
        share = 1 - residual.var() / everything[:, 1].var()
        axis.set(title=f"{problem}: a cubic explains {share:.0%}", xlabel="given labels fitted")
    axes[0][0].set_ylabel("accuracy on clean test labels")
    axes[0][-1].legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(options.out / "mechanism.png", dpi=110)
    table(["setting", *(word for name in problems for word in (name, "fitted, %"))], rows)
    for cap in (0.3, 0.1):
        for control in ("equal activation", "equal edges"):
            found = []
            for problem in problems:
                scored, matched = (
                    records[problem, f"capped {cap}"],
                    records[problem, f"as capped {cap}, {control}"],
                )
                shared = sorted(set(scored) & set(matched))
                found += [(scored[s]["accuracy"], matched[s]["accuracy"]) for s in shared]
            if found:
                gain = paired_difference(*zip(*found, strict=True))
                print(f"capped {cap} over chance at {control}: {cell(gain)} ({len(found)} pairs)")


def compare(
    mine: dict[int, Any], other: dict[int, Any], seeds: list[int]
) -> PairedDifference | None:
    """Return the difference of two candidates over paired seeds."""
    if not seeds:
        return None
    return paired_difference(
        [mine[seed]["accuracy"] for seed in seeds], [other[seed]["accuracy"] for seed in seeds]
    )


def seeds(text: str) -> list[int]:
    """Read ``0-19`` or ``3``."""
    first, _, last = text.partition("-")
    return list(range(int(first), int(last or first) + 1))


ACTIONS = {"run": run, "table": show, "choose": choose, "mechanism": mechanism}


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
