"""Reading the records of the suite: paired gains of a candidate over another one."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from problems import PROBLEMS, Problem

from edgemask.reproduce.compare import PairedDifference, paired_difference

RESULTS = Path(__file__).resolve().parents[2] / "results" / "suite"

Records = dict[tuple[str, str], dict[int, dict[str, Any]]]


def read(folder: Path, name: str = "candidates") -> Records:
    """Return the recorded runs of a set: (problem, candidate) -> seed -> record."""
    found: Records = defaultdict(dict)
    for path in sorted((folder / name).glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            record = json.loads(line)
            found[record["problem"], record["candidate"]][record["seed"]] = record
    return found


def select_problems(wanted: list[str] | None, known: Mapping[str, Problem] = PROBLEMS) -> list[str]:
    """Return the problems whose name is or starts with one of those wanted; all without any."""
    words = tuple(f"{word}-" for word in wanted or [""])
    chosen = [name for name in known if not wanted or f"{name}-".startswith(words)]
    if not chosen:
        raise SystemExit(f"no problem is called {wanted}; there are: {', '.join(known)}")
    return chosen


def gains(
    records: Records,
    candidate: str,
    against: str,
    seeds: Mapping[str, Collection[int]] | None = None,
) -> dict[str, PairedDifference]:
    """Return the gain of a candidate over another on every problem with paired seeds.

    Args:
        records: What :func:`read` found.
        candidate: Whose gain it is.
        against: Over whom.
        seeds: Those to use by problem; default: all.
    """
    found = {}
    for problem in PROBLEMS:
        mine, other = records[problem, candidate], records[problem, against]
        shared = sorted(set(mine) & set(other) & set(mine if seeds is None else seeds[problem]))
        gain = compare(mine, other, shared)
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


def compare(
    mine: dict[int, Any], other: dict[int, Any], seeds: list[int]
) -> PairedDifference | None:
    """Return the difference of two candidates over paired seeds."""
    if not seeds:
        return None
    return paired_difference(
        [mine[seed]["accuracy"] for seed in seeds], [other[seed]["accuracy"] for seed in seeds]
    )


def cell(gain: PairedDifference | None, *, digits: int = 1) -> str:
    """Return a gain in points with its interval."""
    if gain is None:
        return ""
    mean = f"{100 * gain.mean:+.{digits}f}"
    if gain.low is None or gain.high is None:
        return mean
    return f"{mean} [{100 * gain.low:+.{digits}f}, {100 * gain.high:+.{digits}f}]"


def hours(records: Records) -> str:
    """Return how many runs there are, and what they cost."""
    seconds = [record["cpu_seconds"] for runs in records.values() for record in runs.values()]
    return f"{len(seconds):,} runs, {sum(seconds) / 3600:.1f} core-hours"


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table in Markdown."""
    print("| " + " | ".join(header) + " |")
    print("| :-- |" + " --: |" * (len(header) - 1))
    for row in rows:
        print("| " + " | ".join(row) + " |")
