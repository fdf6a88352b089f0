"""Figures of results with matplotlib, one function per kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean, stdev
from typing import Any

import numpy as np
import torch
from torch import Tensor

from edgemask._registry import Registry
from edgemask.data import Batch, DataBundle, Loader, Split
from edgemask.diagnostics import activation_map, criteria_histograms, edge_picture, overlay
from edgemask.engine import Objects, Run
from edgemask.engine.run_data import build_run_data
from edgemask.errors import MissingExtraError
from edgemask.heads.policies import parse_policy
from edgemask.reproduce.experiments import Experiment
from edgemask.reproduce.plan import ExperimentPlan
from edgemask.reproduce.results import CellResult
from edgemask.runs import read_arrays

__all__ = ["FIGURES", "draw", "draw_grid", "error_bars"]

_TITLES = {
    "confidence/clean": "confidence in right labels",
    "confidence/noisy": "confidence in wrong labels",
    "train/gradient_error": "gradient error D_f",
    "train/gradient_error_relative": "D_f / clean gradient",
    "train/gradient_cosine": "cosine of the gradients",
    "head/retention": "share of edges kept",
}
# Figures of the results alone; all others read the folders of the runs.
_FROM_RESULTS = ("sweep", "tradeoff")
# Families whose members differ in how much they drop are lines; others are single points.
_FAMILIES_WITH_LINES = ("capped", "DropConnect", "Dropout")


def draw(plan: ExperimentPlan, experiment: Experiment, results: Sequence[CellResult]) -> Any:
    """Return the experiment's figure, or None if it has none or nothing is done yet.

    A figure of what happened inside the runs wants all of their folders.
    """
    if experiment.figure is None or not results:
        return None
    if experiment.figure.kind not in _FROM_RESULTS and not all(
        (plan.root / result.run).is_dir() for result in results
    ):
        return None
    figure = FIGURES[experiment.figure.kind](plan, experiment, results)
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


def _curves(plan: ExperimentPlan, experiment: Experiment, results: Sequence[CellResult]) -> Any:
    """Metrics over epochs: one row of panels per column of the table, one line per method."""
    assert experiment.figure is not None
    keys = experiment.figure.metrics
    runs = plan.finished(experiment)
    columns = [c for c in experiment.columns if any(cell.column is c for cell, _ in runs)]
    figure, axes = _figure(len(columns), len(keys))
    for line, column in zip(axes, columns, strict=True):
        for axis, key in zip(line, keys, strict=True):
            axis.set_title(f"{column.title}: {_TITLES.get(key, key)}", fontsize=8)
            for number, row in enumerate(experiment.rows):
                mine = [run for cell, run in runs if (cell.row, cell.column) == (row, column)]
                for place, run in enumerate(mine):
                    epochs, values = _metric(run, key)
                    label = row.titles[0] if not place else None
                    if epochs:
                        axis.plot(epochs, values, color=f"C{number}", label=label, linewidth=1.2)
            if axis.lines:
                axis.legend(fontsize=7)
            else:
                axis.text(0.5, 0.5, "not recorded", ha="center", transform=axis.transAxes)
            axis.set_xlabel("epoch", fontsize=7)
    return figure


def _criteria(plan: ExperimentPlan, experiment: Experiment, results: Sequence[CellResult]) -> Any:
    """Dynamic range over epochs, and how the normalised scores spread at the end."""
    runs = plan.finished(experiment)
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
            head = read_arrays(run.path / "head.npz")
            counts, edges = head["histogram"][-1], head["edges"]
            right.stairs(counts / max(counts.sum(), 1), edges, label=cell.row.titles[0])
        for axis, title in ((left, "largest / smallest score"), (right, "share of edges by score")):
            axis.set_yscale("log")
            axis.set_title(f"{column.title}: {title}", fontsize=8)
            axis.legend(fontsize=7)
    return figure


def _metric(run: Run, key: str) -> tuple[list[int], list[float]]:
    """Return the epochs at which a metric was recorded, and its values."""
    points = [(row["epoch"], row[key]) for row in run.history if row.get(key) is not None]
    return [epoch for epoch, _ in points], [value for _, value in points]


def _range(axis: Any, run: Run, criterion: str, label: str) -> None:
    axis.plot(*_metric(run, f"train/criteria/{criterion}/range"), label=label)


def error_bars(axis: Any, values: Mapping[Any, Sequence[float]], label: str | None) -> None:
    """Draw mean and standard deviation over x; an x without values is left out."""
    known = {x: ys for x, ys in values.items() if ys}
    if known:
        means = [fmean(ys) for ys in known.values()]
        deviations = [stdev(ys) if len(ys) > 1 else 0.0 for ys in known.values()]
        axis.errorbar(list(known), means, deviations, marker="o", markersize=3, label=label)


def draw_grid(title: str, lines: Mapping[str, Mapping[Any, Sequence[float]]], y_title: str) -> Any:
    """Return a figure with one line per label: values over a setting, mean and deviation."""
    figure, axes = _figure(1, 1)
    axis = axes[0][0]
    for label, values in lines.items():
        error_bars(axis, values, label or None)
    axis.set_xlabel(title)
    axis.set_ylabel(y_title)
    if len(lines) > 1:
        axis.legend(fontsize=7)
    return figure


def _all_criteria(left: Any, right: Any, run: Run) -> None:
    """Show every criterion on the network of one run; the scores are those of test images."""
    model: Any = run.model
    with torch.no_grad():
        features = model.embed(_test_batch(run, 512).views[0])
        histograms = criteria_histograms(features, model.head.weight, model.head.bias)
    for name, shares in histograms.items():
        _range(left, run, name, name)
        right.stairs(shares.numpy(), np.linspace(0.0, 1.0, len(shares) + 1), label=name)


def _sweep(plan: ExperimentPlan, experiment: Experiment, results: Sequence[CellResult]) -> Any:
    """Accuracy over a setting: one panel per group of columns, one line per method."""
    assert experiment.figure is not None
    groups = list(dict.fromkeys(column.group for column in experiment.columns))
    figure, axes = _figure(1, len(groups))
    for axis, group in zip(axes[0], groups, strict=True):
        columns = [c for c in experiment.columns if c.group == group and c.x is not None]
        for row in experiment.rows:
            values = {
                column.x: [
                    100 * r.value for r in results if (r.row, r.column) == (row.key, column.key)
                ]
                for column in columns
            }
            error_bars(axis, values, row.titles[0])
        axis.set_title(group, fontsize=8)
        axis.set_xlabel(experiment.figure.x_title, fontsize=7)
        axis.set_ylabel("test accuracy (%)", fontsize=7)
        if axis.containers:
            axis.legend(fontsize=7)
    return figure


def _edges(plan: ExperimentPlan, experiment: Experiment, results: Sequence[CellResult]) -> Any:
    """Kept edges at the start, the middle and the end of a run, for each head."""
    keeps = {}
    for cell, run in plan.finished(experiment):
        head = read_arrays(run.path / "head.npz")
        scores, epochs = head["scores"].astype(np.float32), head["epochs"]
        options = run.config.head.options
        for place in sorted({0, len(epochs) // 2, len(epochs) - 1}):
            rho: Any = options["rho"]
            policy = parse_policy(str(options["policy"]))
            keep = policy.keep_probability(torch.from_numpy(scores[place]), rho)
            keeps[f"{cell.row.titles[0]}, epoch {epochs[place]}"] = keep
    return edge_picture(keeps)


def _cam(plan: ExperimentPlan, experiment: Experiment, results: Sequence[CellResult]) -> Any:
    """Images of the test set, and the class activation map of the true class for each model."""
    runs = plan.finished(experiment)
    where = "ilsvrc12" if "ILSVRC12" in experiment.title else None
    batch = _test_batch(runs[0][1], 6, where)
    _, split, index = _test_split(runs[0][1], 6, where)
    images = split.raw(index).permute(0, 2, 3, 1).numpy()
    count = len(images)
    figure, axes = _figure(1 + len(runs), count)
    for axis, image in zip(axes[0], images, strict=True):
        axis.imshow(image, cmap="gray")
    for line, (cell, run) in zip(axes[1:], runs, strict=True):
        maps = activation_map(run.model, batch.views[0], batch.target)
        for axis, image, heat in zip(line, images, maps, strict=True):
            axis.imshow(overlay(image, heat))
        line[0].set_title(cell.row.titles[0], fontsize=8)
    for axis in axes.flat:
        axis.set_axis_off()
    return figure


def _test_split(run: Run, count: int, name: str | None) -> tuple[DataBundle, Split, Tensor]:
    """Return some evenly spaced samples of a run's test set."""
    job = build_run_data(run.config, Objects())
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


def _tradeoff(plan: ExperimentPlan, experiment: Experiment, results: Sequence[CellResult]) -> Any:
    """Accuracy, memorised and fitted shares over the share of edges kept, one line per family."""
    panels: dict[str, Callable[[CellResult], float | None]] = {
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
                    linestyle="-" if family in _FAMILIES_WITH_LINES else "none",
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


def _kept(result: CellResult) -> float:
    """Return the share of edges kept in percent; a head that drops none keeps all."""
    kept = result.facts["last_epoch"].get("head/retention")
    return 100.0 if kept is None else 100 * float(kept)


Drawing = Callable[[ExperimentPlan, Experiment, Sequence[CellResult]], Any]
FIGURES: Registry[Drawing] = Registry(
    "figure",
    {
        "curves": _curves,
        "criteria": _criteria,
        "sweep": _sweep,
        "edges": _edges,
        "cam": _cam,
        "tradeoff": _tradeoff,
    },
)
