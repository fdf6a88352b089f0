"""Which candidate is the default: the tables, the rule and the picture of docs/defaults.md."""

from __future__ import annotations

import argparse
import math
from statistics import fmean, median

from candidates import BASELINE, CANDIDATES, CHOSEN
from problems import PROBLEMS
from reading import cell, family_mean, gains, hours, markdown, read

from _measure import table
from edgemask.reproduce.compare import PairedDifference

LARGEST_LOSS = -0.01  # no interval of a candidate may lie wholly below
SINGLE_LOSS = -0.03  # nor may a single run, which has no interval
EARLY = "ce, chosen epoch"


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
        worse = [name for name, gain in found.items() if loses(gain)]
        missing = [name for name in needed if name not in found]
        if worse:
            note = "below -1 point on " + ", ".join(worse)
        else:
            note = "safe so far, not run on " + ", ".join(missing) if missing else "safe"
        place = (bool(worse), bool(missing), -family_mean(found))
        ranking.append((place, f"{100 * family_mean(found):+6.2f}  {candidate}: {note}"))
    for _, line in sorted(ranking):
        print(line)


def report(options: argparse.Namespace) -> None:
    """Print the table of a candidate in Markdown, from seeds that did not choose the default."""
    records = read(options.out)
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
    overs: dict[str, dict[str, PairedDifference]] = {BASELINE: {}, EARLY: {}}
    for name in PROBLEMS:
        mine, plain = records[name, candidate], records[name, BASELINE]
        shared = sorted(set(mine) & set(plain) & set(PROBLEMS[name].fresh_seeds))
        note = "" if shared else "*"
        shared = shared or sorted(set(mine) & set(plain))
        if not shared:
            continue
        seeds = dict.fromkeys(PROBLEMS, shared)
        gain = gains(records, candidate, BASELINE, seeds)[name]
        early = gains(records, candidate, EARLY, seeds).get(name)
        recall = [fmean(r[seed]["worst_recall"] for seed in shared) for r in (plain, mine)]
        ratios = [
            mine[s]["epoch_seconds"] / plain[s]["epoch_seconds"]
            for s in shared
            if "epoch_seconds" in mine[s] and "epoch_seconds" in plain[s]
        ]
        means = [100 * fmean(r[seed]["accuracy"] for seed in shared) for r in (plain, mine)]
        recalls = f"{recall[0]:.2f} → {recall[1]:.2f}"
        row = [name, f"{len(shared)}{note}", f"{means[0]:.1f}", f"{means[1]:.1f}", cell(gain)]
        rows.append([*row, cell(early) or "-", recalls, f"{median(ratios):.2f}" if ratios else "-"])
        overs[BASELINE][name] = gain
        if early is not None:
            overs[EARLY][name] = early
    markdown(columns, rows)
    over = [f"{100 * family_mean(found):+.1f} over {name}" for name, found in overs.items()]
    print(f"\nMean gain over families of noisy problems, in points: {'; '.join(over)}.")
    print(f"All candidates together: {hours(records)}.")


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
    "elr sem",
    "sce",
)
