"""Why does masking help? Settings of many kinds that slow a head down, add noise, or do neither.

Each setting has a kind, which is its colour in the picture, and arguments of :func:`edgemask.fit`.
``lr_factor`` multiplies the learning rate of the problem.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Sequence
from statistics import fmean
from typing import Any

import controls  # noqa: F401 - registers its heads
import numpy as np
from problems import PROBLEMS
from reading import Records, cell, compare, hours, markdown, read, select_problems

from edgemask.reproduce.compare import paired_difference

Setting = tuple[str, dict[str, Any]]

KEEP = (0.5, 0.35, 0.2, 0.1)
_FEW = 8  # settings: a cubic through so few of them explains nothing
COLOURS = [f"C{i}" for i in range(10)] + ["black"]
_TABLES, _PICTURES = ("wine", "cancer", "digits"), ("cifar10",)

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
    """Print what each setting does, and what choosing edges by score adds."""
    records = read(options.out, "mechanism")
    problems = [name for name in select_problems(options.problems) if records[name, "linear"]]
    rows = [[name] for name in SETTINGS]
    explained = ["a cubic in the share fitted explains"]
    for problem in problems:
        points = [pair for pairs in _points(records, problem).values() for pair in pairs]
        explained += [f"{_explained(points):.0%}" if len(points) > _FEW else "", ""]
        base = records[problem, "linear"]
        for row, name in zip(rows, SETTINGS, strict=True):
            runs = records[problem, name]
            shared = sorted(set(runs) & set(base))
            if not shared:
                row += ["", ""]
            elif name == "linear":
                row += [_percent(runs, shared, "accuracy"), _percent(runs, shared, "fitted")]
            else:
                gain = cell(compare(runs, base, shared))
                row += [gain, _percent(runs, shared, "fitted")]
    seeds = [f"{name} ({_count(len(records[name, 'linear']))})" for name in problems]
    markdown(["setting", *(w for name in seeds for w in (name, "fitted, %"))], [*rows, explained])
    print("\nThe first row is accuracy in per cent, the others are gains over it in points.\n")
    rows = []
    for cap in (0.3, 0.1):
        for control in ("equal activation", "equal edges"):
            row = [f"`capped` {cap} minus chance at {control}"]
            for part in (_TABLES, _PICTURES, (*_TABLES, *_PICTURES)):
                row.append(_against_chance(records, cap, control, problems, part))
            rows.append(row)
    markdown(["choosing edges by score", "tables", "CIFAR-10", "all"], rows)
    print(f"\n{hours(records)}.")


def sentence(options: argparse.Namespace) -> None:
    """Print in one sentence what choosing edges adds."""
    records = read(options.out, "mechanism")
    gain = _against_chance(records, 0.3, "equal activation", list(PROBLEMS), ("",))
    print(
        "**At an equal dose, choosing edges by their scores changes the accuracy by "
        f"{gain.replace(' (', ' points (')} compared with dropping edges by chance.**"
    )


def draw(options: argparse.Namespace) -> None:
    """Draw accuracy on clean labels against how far the given labels are fitted."""
    from matplotlib import pyplot as plt

    records = read(options.out, "mechanism")
    problems = [name for name in PROBLEMS if sum(bool(records[name, s]) for s in SETTINGS) > _FEW]
    figure, axes = plt.subplots(1, len(problems), figsize=(4 * len(problems), 4), squeeze=False)
    kinds = dict.fromkeys(kind for kind, _ in SETTINGS.values())
    colours = dict(zip(kinds, COLOURS, strict=False))
    drawn = {}
    for problem, axis in zip(problems, axes[0], strict=True):
        for kind, pairs in _points(records, problem).items():
            xs, ys = 100 * np.array(pairs).T
            drawn[kind] = axis.scatter(xs, ys, s=45, color=colours[kind], alpha=0.8)
        axis.set(title=problem, xlabel="given labels fitted, %")
    axes[0][0].set_ylabel("accuracy on clean test labels, %")
    figure.tight_layout()
    shown = [kind for kind in kinds if kind in drawn]
    handles = [drawn[kind] for kind in shown]
    figure.legend(handles, shown, loc="lower center", ncols=6, bbox_to_anchor=(0.5, 1.0))
    figure.savefig(options.out / "mechanism.png", dpi=110, bbox_inches="tight")


def _points(records: Records, problem: str) -> dict[str, list[tuple[float, float]]]:
    """Return the share of given labels fitted and the accuracy of each setting, by kind."""
    points: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for name, (kind, _) in SETTINGS.items():
        runs = records[problem, name].values()
        if runs:
            point = tuple(fmean(run[key] for run in runs) for key in ("fitted", "accuracy"))
            points[kind].append(point)
    return points


def _percent(runs: dict[int, Any], seeds: Sequence[int], key: str) -> str:
    digits = 1 if key == "accuracy" else 0
    return f"{100 * fmean(runs[seed][key] for seed in seeds):.{digits}f}"


def _count(seeds: int) -> str:
    return f"{seeds} seeds" if seeds > 1 else "one seed"


def _explained(points: Sequence[tuple[float, float]]) -> float:
    """Return the share of the accuracy's variance that a cubic in the share fitted explains."""
    fitted, accuracy = np.array(points).T
    residual = accuracy - np.polyval(np.polyfit(fitted, accuracy, 3), fitted)
    return float(1 - residual.var() / accuracy.var())


def _against_chance(
    records: Records, cap: float, control: str, problems: Sequence[str], names: tuple[str, ...]
) -> str:
    """Return how much choosing edges gains over dropping as many by chance, over all pairs."""
    pairs = []
    for problem in problems:
        if problem.startswith(names):
            scored = records[problem, f"capped {cap}"]
            matched = records[problem, f"as capped {cap}, {control}"]
            shared = sorted(set(scored) & set(matched))
            pairs += [(scored[s]["accuracy"], matched[s]["accuracy"]) for s in shared]
    if not pairs:
        return "not run"
    gain = cell(paired_difference(*zip(*pairs, strict=True)), digits=2)
    return f"{gain} ({len(pairs)} paired runs)" if len(pairs) > 1 else f"{gain} (one pair of runs)"
