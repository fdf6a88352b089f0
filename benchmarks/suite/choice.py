"""Which candidate is the default: the tables, the rule and the picture of docs/defaults.md."""

from __future__ import annotations

import argparse
import math
from collections.abc import Collection
from statistics import fmean, median

from candidates import BASELINE, CANDIDATES, CHOSEN
from problems import PROBLEMS
from reading import Records, cell, family_mean, gains, hours, markdown, read

from _measure import table
from edgemask.reproduce.compare import PairedDifference

LARGEST_LOSS = -0.01  # no interval of a candidate may lie wholly below
SINGLE_LOSS = -0.03  # nor may a single run, which has no interval
LONGEST = 1.3  # times the time of cross entropy
LEAST_RECALL = 0.1  # of cross entropy's worst class; below it, a class is already lost
EARLY = "ce, chosen epoch"


def show(options: argparse.Namespace) -> None:
    """Print the gains of all candidates."""
    records = read(options.out, options.set)
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


def loses(gain: PairedDifference) -> bool:
    """Whether the interval lies wholly below the limit, or a single run clearly does."""
    return gain.mean < SINGLE_LOSS if gain.high is None else gain.high < LARGEST_LOSS


def choose(options: argparse.Namespace) -> None:
    """Print the candidates: first those that are safe on all problems, by their mean gain."""
    records = read(options.out)
    ranking = []
    seeds = {name: problem.choosing_seeds for name, problem in PROBLEMS.items()}
    needed = [name for name in PROBLEMS if set(records[name, BASELINE]) & set(seeds[name])]
    for candidate in CANDIDATES:
        found = gains(records, candidate, BASELINE, seeds)
        if candidate == BASELINE or not found:
            continue
        faults = {
            "below -1 point on": [name for name, gain in found.items() if loses(gain)],
            "worst class below half on": [
                name for name in found if loses_a_class(records, name, candidate, seeds[name])
            ],
            f"over {LONGEST} times the time on": [
                name for name in found if (cost(records, name, candidate) or 0) > LONGEST
            ],
        }
        missing = [name for name in needed if name not in found]
        notes = [f"{fault} {', '.join(names)}" for fault, names in faults.items() if names]
        if not notes:
            notes = [f"safe so far, not run on {', '.join(missing)}" if missing else "safe"]
        place = (any(faults.values()), bool(missing), -family_mean(found))
        ranking.append(
            (place, f"{100 * family_mean(found):+6.2f}  {candidate}: {'; '.join(notes)}")
        )
    for _, line in sorted(ranking):
        print(line)


def cost(records: Records, problem: str, candidate: str) -> float | None:
    """Return the time of a candidate over that of cross entropy, the median over paired seeds.

    Only runs of the same commit count: those of other days had other neighbours on the machine.
    """
    mine, plain = records[problem, candidate], records[problem, BASELINE]
    ratios = [
        mine[seed]["epoch_seconds"] / plain[seed]["epoch_seconds"]
        for seed in set(mine) & set(plain)
        if "epoch_seconds" in mine[seed] and "epoch_seconds" in plain[seed]
        if mine[seed]["commit"] == plain[seed]["commit"]
    ]
    return median(ratios) if ratios else None


def loses_a_class(records: Records, problem: str, candidate: str, seeds: Collection[int]) -> bool:
    """Whether the worst class has less than half the recall that it has with cross entropy."""
    mine, plain = records[problem, candidate], records[problem, BASELINE]
    shared = set(mine) & set(plain) & set(seeds)
    before, after = (fmean(r[seed]["worst_recall"] for seed in shared) for r in (plain, mine))
    return before >= LEAST_RECALL and after < before / 2


def report(options: argparse.Namespace) -> None:
    """Print the table of a candidate in Markdown, from seeds that did not choose the default."""
    records = read(options.out, options.set)
    candidate = options.candidates[0] if options.candidates else CHOSEN
    columns = (
        "problem",
        "seeds",
        "CE",
        "default" if candidate == CHOSEN else candidate,
        "gain over CE",
        "over CE, chosen epoch",
        "worst recall",
        "time",
    )
    rows = []
    over_ce, over_early = (_fresh_gains(records, candidate, name) for name in (BASELINE, EARLY))
    for name, gain in over_ce.items():
        mine, plain = records[name, candidate], records[name, BASELINE]
        shared = _fresh(records, name, candidate, BASELINE)
        note = "" if set(shared) <= set(PROBLEMS[name].fresh_seeds) else "*"
        recall = [fmean(r[seed]["worst_recall"] for seed in shared) for r in (plain, mine)]
        time = cost(records, name, candidate)
        means = [100 * fmean(r[seed]["accuracy"] for seed in shared) for r in (plain, mine)]
        recalls = f"{recall[0]:.2f} → {recall[1]:.2f}"
        row = [name, f"{len(shared)}{note}", f"{means[0]:.1f}", f"{means[1]:.1f}", cell(gain)]
        early = cell(over_early.get(name)) or "-"
        rows.append([*row, early, recalls, f"{time:.2f}" if time else "-"])
    markdown(columns, rows)
    overs = {BASELINE: over_ce, EARLY: over_early}
    where = "families of noisy problems"
    if options.set == "laptop":  # beside the problems that it does not repeat
        smaller = read(options.out)
        overs = {
            name: {**_fresh_gains(smaller, candidate, name), **found}
            for name, found in overs.items()
        }
        where += ", with these runs in place of the smaller ones"
    over = [
        f"{100 * family_mean(found):+.1f} over {name}" for name, found in overs.items() if found
    ]
    print(f"\nMean gain over {where}, in points: {'; '.join(over)}.")
    print(f"All candidates together: {hours(records)}.")


def _fresh(records: Records, problem: str, candidate: str, against: str) -> list[int]:
    """Return the seeds of both that did not choose the default; all of them if there are none."""
    shared = set(records[problem, candidate]) & set(records[problem, against])
    return sorted(shared & set(PROBLEMS[problem].fresh_seeds)) or sorted(shared)


def _fresh_gains(records: Records, candidate: str, against: str) -> dict[str, PairedDifference]:
    seeds = {name: _fresh(records, name, candidate, against) for name in PROBLEMS}
    return gains(records, candidate, against, seeds)


def draw(options: argparse.Namespace) -> None:
    """Draw the gain over cross entropy on each problem, one line per candidate."""
    from matplotlib import pyplot as plt

    records = read(options.out)
    problems = [name for name in PROBLEMS if records[name, CHOSEN] and records[name, BASELINE]]
    figure, axis = plt.subplots(figsize=(10, 5))
    for candidate in options.candidates or DRAWN:
        found = gains(records, candidate, BASELINE)
        heights = [100 * found[name].mean if name in found else math.nan for name in problems]
        width = 2.5 if candidate == CHOSEN else 1
        axis.plot(range(len(problems)), heights, "o-", label=candidate, lw=width)
    axis.axhline(0, color="black", lw=0.8)
    axis.set_xticks(range(len(problems)), problems, rotation=60, ha="right")
    axis.set_ylabel("gain over cross entropy, points")
    axis.legend(fontsize=8, ncols=2)
    figure.tight_layout()
    figure.savefig(options.out / "gains.png", dpi=110)


DRAWN = (
    CHOSEN,
    EARLY,
    "ce sem",
    "ce capped-0.3",
    "ce dropconnect-0.2-scaled",
    "ce adaptive",
    "elr",
    "elr sem-by-classes",
    "sce",
)
