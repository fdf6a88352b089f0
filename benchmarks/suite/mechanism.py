"""Why does masking help? Settings of many kinds that slow a head down, add noise, or do neither.

Each setting has a kind, which is its colour in the picture, and arguments of :func:`edgemask.fit`.
``lr_factor`` multiplies the learning rate of the problem.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from statistics import fmean
from typing import Any

import controls  # noqa: F401 - registers its heads
import numpy as np
from reading import cell, compare, read, select_problems

from _measure import table
from edgemask.reproduce.compare import paired_difference

Setting = tuple[str, dict[str, Any]]

KEEP = (0.5, 0.35, 0.2, 0.1)

SETTINGS: dict[str, Setting] = {
    "linear": ("plain", {"loss": "ce"}),
    **{f"logits x {s}": ("scale", {"head": f"scaled(scale={s})"}) for s in (0.3, 0.1, 0.03)},
    **{f"lr x {f}": ("learning rate", {"loss": "ce", "lr_factor": f}) for f in (0.3, 0.1, 0.03)},
    **{
        f"edges {q} unscaled": (
            "chance, unscaled",
            {"head": f"dropconnect(p={1 - q:g}, scaling=none)"},
        )
        for q in KEEP
    },
    **{
        f"edges {q} scaled": ("chance, scaled", {"head": f"dropconnect(p={1 - q:g})"}) for q in KEEP
    },
    **{f"features {q} scaled": ("features", {"head": f"dropout(p={1 - q:g})"}) for q in KEEP},
    "sem": ("scores", {"head": "sem"}),
    "capped 0.3": ("scores", {"head": "sem(policy=capped(0.3))"}),
    "capped 0.1": ("scores", {"head": "sem(policy=capped(0.1))"}),
    **{
        f"as capped {cap}, {name}": (
            "matched",
            {"head": f"matched(cap={cap}, weighted={str(weighted).lower()})"},
        )
        for cap in (0.3, 0.1)
        for name, weighted in (("equal activation", True), ("equal edges", False))
    },
    **{f"head decay {d}": ("weight decay", {"head": f"decayed(decay={d})"}) for d in (0.1, 0.3)},
    **{f"row norm {b}": ("norm bound", {"head": f"bounded(bound={b})"}) for b in (1.0, 0.3)},
    **{
        f"smoothing {e}": ("label smoothing", {"loss": f"label-smoothing(rate={e})"})
        for e in (0.1, 0.4, 0.8)
    },
}

# CIFAR takes 50 times as long as a table, so its runs leave out doses that tell least.
_TABLES_ONLY = {
    "lr x 0.03",
    "as capped 0.1, equal edges",
    "head decay 0.1",
    "row norm 1.0",
    "smoothing 0.1",
    "smoothing 0.8",
}


def belongs(problem: str, setting: str) -> bool:
    """Whether a setting is run on a problem."""
    return not (problem.startswith("cifar") and setting in _TABLES_ONLY)


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
