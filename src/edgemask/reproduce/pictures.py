"""Drawings of results, one function a kind of figure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean, stdev
from typing import Any

import numpy as np
import torch
from torch import Tensor

from edgemask._registry import Registry
from edgemask.data import Batch, DataBundle, Loader, Split
from edgemask.diagnostics import activation_map, criteria_histograms, edge_picture, overlay
from edgemask.engine import Objects, Run
from edgemask.engine.job import build_job
from edgemask.errors import MissingExtraError
from edgemask.heads.functional import keep_probability
from edgemask.reproduce.plan import Cell, Plan
from edgemask.reproduce.results import Result
from edgemask.reproduce.spec import Experiment

__all__ = ["DRAWINGS", "draw"]

_TITLES = {
    "confidence/clean": "confidence in right labels",
    "confidence/noisy": "confidence in wrong labels",
    "train/gradient_error": "gradient error D_f",
    "train/gradient_error_relative": "D_f / clean gradient",
    "train/gradient_cosine": "cosine of the gradients",
    "head/retention": "share of edges kept",
}
# Families whose members differ in how much they drop; others are points.
_DOSES = ("capped", "DropConnect", "Dropout")


def draw(plan: Plan, experiment: Experiment, results: Sequence[Result]) -> Any:
    """Return the experiment's figure, or None if it has none or nothing is done yet."""
    if experiment.picture is None or not results:
        return None
    figure = DRAWINGS[experiment.picture.kind](plan, experiment, results)
    if figure is not None:
        note = plan.preset.warning
        lines = [experiment.title, f"preset {plan.preset.name}", note]
        figure.suptitle("\n".join(filter(None, lines)), fontsize=7)
    return figure


def _figure(rows: int, columns: int) -> tuple[Any, Any]:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("matplotlib", "app", "to draw figures", error) from error
    figure = Figure(figsize=(3.4 * columns, 2.6 * rows + 0.4), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False)


def _done(plan: Plan, experiment: Experiment) -> list[tuple[Cell, Run]]:
    return [
        (cell, Run(plan.root / cell.name))
        for cell in plan.of(experiment)
        if cell.state == "done" and cell.name is not None
    ]


def _curves(plan: Plan, experiment: Experiment, results: Sequence[Result]) -> Any:
    """Metrics over epochs: a row of panels a column of the table, a line a method."""
    assert experiment.picture is not None
    keys = experiment.picture.keys
    runs = _done(plan, experiment)
    columns = [c for c in experiment.columns if any(cell.column is c for cell, _ in runs)]
    figure, axes = _figure(len(columns), len(keys))
    for line, column in zip(axes, columns, strict=True):
        for axis, key in zip(line, keys, strict=True):
            axis.set_title(f"{column.title}: {_TITLES.get(key, key)}", fontsize=8)
            for number, row in enumerate(experiment.rows):
                mine = [run for cell, run in runs if (cell.row, cell.column) == (row, column)]
                for place, run in enumerate(mine):
                    points = [(r["epoch"], r[key]) for r in run.history if r.get(key) is not None]
                    label = row.titles[0] if not place else None
                    if points:
                        xs, ys = zip(*points, strict=True)
                        axis.plot(xs, ys, color=f"C{number}", label=label, linewidth=1.2)
            if axis.lines:
                axis.legend(fontsize=7)
            else:
                axis.text(0.5, 0.5, "not recorded", ha="center", transform=axis.transAxes)
            axis.set_xlabel("epoch", fontsize=7)
    return figure


def _criteria(plan: Plan, experiment: Experiment, results: Sequence[Result]) -> Any:
    """Dynamic range over epochs, and how the normalised scores spread at the end."""
    runs = _done(plan, experiment)
    columns = [c for c in experiment.columns if any(cell.column is c for cell, _ in runs)]
    figure, axes = _figure(len(columns), 2)
    for (left, right), column in zip(axes, columns, strict=True):
        here = [(cell, run) for cell, run in runs if cell.column is column]
        seed = min(cell.seed for cell, _ in here)
        mine = [(cell, run) for cell, run in here if cell.seed == seed]
        if len(mine) == 1:
            _all_criteria(left, right, mine[0][1])
        for cell, run in mine if len(mine) > 1 else ():
            _range(left, run, str(run.config.head.options["criterion"]), cell.row.titles[0])
            with np.load(run.path / "head.npz", allow_pickle=False) as head:
                counts, edges = head["histogram"][-1], head["edges"]
            right.stairs(counts / max(counts.sum(), 1), edges, label=cell.row.titles[0])
        for axis, title in ((left, "largest / smallest score"), (right, "share of edges by score")):
            axis.set_yscale("log")
            axis.set_title(f"{column.title}: {title}", fontsize=8)
            axis.legend(fontsize=7)
    return figure


def _range(axis: Any, run: Run, criterion: str, label: str) -> None:
    key = f"train/criteria/{criterion}/range"
    points = [(r["epoch"], r[key]) for r in run.history if r.get(key) is not None]
    axis.plot(*(zip(*points, strict=True) if points else ((), ())), label=label)


def _all_criteria(left: Any, right: Any, run: Run) -> None:
    """Show every criterion on the network of one run; the scores are those of test images."""
    model: Any = run.model
    with torch.no_grad():
        features = model.embed(_test_batch(run, 512).views[0])
        histograms = criteria_histograms(features, model.head.weight, model.head.bias)
    for name, shares in histograms.items():
        _range(left, run, name, name)
        right.stairs(shares.numpy(), np.linspace(0.0, 1.0, len(shares) + 1), label=name)


def _sweep(plan: Plan, experiment: Experiment, results: Sequence[Result]) -> Any:
    """Accuracy over a setting: a panel a group of columns, a line a method, a bar a deviation."""
    assert experiment.picture is not None
    groups = list(dict.fromkeys(column.group for column in experiment.columns))
    figure, axes = _figure(1, len(groups))
    for axis, group in zip(axes[0], groups, strict=True):
        columns = [c for c in experiment.columns if c.group == group and c.x is not None]
        for row in experiment.rows:
            points = []
            for column in columns:
                values = [
                    100 * r.value for r in results if (r.row, r.column) == (row.key, column.key)
                ]
                if values:
                    deviation = stdev(values) if len(values) > 1 else 0.0
                    points.append((column.x, fmean(values), deviation))
            if points:
                xs, ys, bars = zip(*points, strict=True)
                axis.errorbar(xs, ys, bars, marker="o", markersize=3, label=row.titles[0])
        axis.set_title(group, fontsize=8)
        axis.set_xlabel(experiment.picture.x_title, fontsize=7)
        axis.set_ylabel("test accuracy (%)", fontsize=7)
        if axis.containers:
            axis.legend(fontsize=7)
    return figure


def _edges(plan: Plan, experiment: Experiment, results: Sequence[Result]) -> Any:
    """Kept edges at the start, the middle and the end of a run, for each head."""
    keeps = {}
    for cell, run in _done(plan, experiment):
        with np.load(run.path / "head.npz", allow_pickle=False) as head:
            scores, epochs = head["scores"].astype(np.float32), head["epochs"]
        options = run.config.head.options
        for place in sorted({0, len(epochs) // 2, len(epochs) - 1}):
            rho: Any = options["rho"]
            keep = keep_probability(torch.from_numpy(scores[place]), rho, str(options["policy"]))
            keeps[f"{cell.row.titles[0]}, epoch {epochs[place]}"] = keep
    return edge_picture(keeps)


def _cam(plan: Plan, experiment: Experiment, results: Sequence[Result]) -> Any:
    """Pictures of the test set, and where each model sees the true class in them."""
    runs = _done(plan, experiment)
    where = "ilsvrc12" if "ILSVRC12" in experiment.title else None
    batch, raw = _test_batch(runs[0][1], 6, where), _test_pictures(runs[0][1], 6, where)
    pictures = raw.permute(0, 2, 3, 1).numpy()
    count = len(pictures)
    figure, axes = _figure(1 + len(runs), count)
    for axis, picture in zip(axes[0], pictures, strict=True):
        axis.imshow(picture, cmap="gray")
    for line, (cell, run) in zip(axes[1:], runs, strict=True):
        maps = activation_map(run.model, batch.views[0], batch.target)
        for axis, picture, heat in zip(line, pictures, maps, strict=True):
            axis.imshow(overlay(picture, heat))
        line[0].set_title(cell.row.titles[0], fontsize=8)
    for axis in axes.flat:
        axis.set_axis_off()
    return figure


def _test_split(run: Run, count: int, name: str | None) -> tuple[DataBundle, Split, Tensor]:
    """Return some evenly spaced samples of a run's test set."""
    job = build_job(run.config, Objects())
    split = job.tests[name] if name in job.tests else next(iter(job.tests.values()))
    count = min(count, len(split))
    return job.bundle, split, torch.arange(count) * (len(split) // count)


def _test_batch(run: Run, count: int, name: str | None = None) -> Batch:
    bundle, split, index = _test_split(run, count, name)
    loader = Loader(
        split,
        bundle=bundle,
        views=("none",),
        batch_size=len(index),
        shuffle=False,
        indices=index,
    )
    return next(iter(loader))


def _test_pictures(run: Run, count: int, name: str | None = None) -> Tensor:
    _, split, index = _test_split(run, count, name)
    return split.raw(index)


def _tradeoff(plan: Plan, experiment: Experiment, results: Sequence[Result]) -> Any:
    """Accuracy, memorised and fitted shares against the share of edges kept, a line a family."""
    panels: dict[str, Callable[[Result], float | None]] = {
        "test accuracy (%)": lambda r: r.value,
        "wrong labels memorised (%)": lambda r: r.facts["last_epoch"].get("memorised"),
        "right labels fitted (%)": lambda r: r.facts["last_epoch"].get("fitted"),
    }
    column = experiment.columns[0]
    mine = [result for result in results if result.column == column.key]
    figure, axes = _figure(1, len(panels))
    families = list(dict.fromkeys(row.titles[1] for row in experiment.rows))
    for axis, (title, value) in zip(axes[0], panels.items(), strict=True):
        for number, family in enumerate(families):
            points = []
            for row in experiment.rows:
                if row.titles[1] != family:
                    continue
                known = [
                    (_kept(r), 100 * y)
                    for r in mine
                    if r.row == row.key and (y := value(r)) is not None
                ]
                if known:
                    xs, ys = zip(*known, strict=True)
                    points.append((fmean(xs), fmean(ys)))
                    left = points[-1][0] > 80.0
                    axis.annotate(
                        row.key,
                        points[-1],
                        xytext=(-4 if left else 4, 2),
                        textcoords="offset points",
                        horizontalalignment="right" if left else "left",
                        fontsize=5,
                        color=f"C{number}",
                    )
            if points:
                axis.plot(
                    *zip(*sorted(points), strict=True),
                    marker="o",
                    markersize=4,
                    linestyle="-" if family in _DOSES else "none",
                    color=f"C{number}",
                    label=family,
                )
        axis.set_title(f"{column.title}: {title}", fontsize=8)
        axis.set_xlabel("edges kept at the end (%)", fontsize=7)
        axis.margins(x=0.1)
    figure.legend(
        *axes[0][0].get_legend_handles_labels(), loc="outside lower center", ncol=9, fontsize=6
    )
    return figure


def _kept(result: Result) -> float:
    """Return the share of edges kept in percent; a head that drops none keeps all."""
    kept = result.facts["last_epoch"].get("head/retention")
    return 100.0 if kept is None else 100 * float(kept)


Drawing = Callable[[Plan, Experiment, Sequence[Result]], Any]
DRAWINGS: Registry[Drawing] = Registry(
    "drawing",
    {
        "curves": _curves,
        "criteria": _criteria,
        "sweep": _sweep,
        "edges": _edges,
        "cam": _cam,
        "tradeoff": _tradeoff,
    },
)
