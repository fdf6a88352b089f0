"""Curves over epochs: the metrics of one run, or one metric of several configs."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, stdev

from edgemask.report.charts import Chart, FigureData, Series, curves
from edgemask.report.groups import Group
from edgemask.report.results import MEASURES, metric_title
from edgemask.runs import RunRecord

__all__ = ["compared_curves", "run_curves"]

_MAX_CHARTS = 16
_BOOKKEEPING = {"epoch", "step", "seconds", "lr"}
_NAMES = {
    "confidence/clean": "right labels",
    "confidence/noisy": "wrong labels",
    "validation/accuracy": "validation (noisy labels)",
    "clean_validation/accuracy": "validation (clean labels)",
    **MEASURES,
}
_NOTES = {
    "Confidence in the given labels": "Mean probability that the network gives to the given "
    "labels, for the right ones and the wrong ones.",
    "Memorisation": "Memorised: wrong labels that the network predicts as given. Corrected: wrong "
    "labels where it predicts the true class. Fitted: right labels that it predicts.",
    "Edges retained": "Share of the head's edges kept per training step.",
}
_COMPARED = {
    "test/accuracy": "Test accuracy",
    "memorised": "Wrong labels memorised",
    "confidence/clean": "Confidence in right labels",
    "confidence/noisy": "Confidence in wrong labels",
    "head/retention": "Edges retained",
}


def run_curves(figures: FigureData, run: RunRecord) -> list[Chart]:
    """Return all curves of one run; a metric that was not recorded has none."""
    keys = list(dict.fromkeys(key for row in run.history for key in row))
    scores = [key for key in keys if key.endswith(("accuracy", "/top5"))]
    shown = [key for key in scores if key.startswith(("test", "validation/", "clean_validation/"))]
    confidence = [key for key in keys if key.startswith("confidence/")]
    memory = [key for key in keys if key in {"memorised", "corrected", "fitted"}]
    retention = [key for key in keys if key.startswith("head/") and "retention" in key]
    losses = [key for key in keys if key.startswith("train/")]
    charts: list[tuple[str, list[str], bool]] = [
        ("Accuracy", shown, True),
        ("Confidence in the given labels", confidence, True),
        ("Memorisation", memory, True),
        ("Edges retained", retention, True),
        ("Training loss", losses, False),
    ]
    used = {*scores, *confidence, *memory, *retention, *losses, *_BOOKKEEPING}
    charts += [(key, [key], False) for key in keys if key not in used]
    drawn = [
        curves(
            figures,
            title,
            [_line(run, key) for key in part],
            percent=percent,
            note=_NOTES.get(title, ""),
        )
        for title, part, percent in charts[:_MAX_CHARTS]
    ]
    return [chart for chart in drawn if chart is not None]


def compared_curves(figures: FigureData, groups: Sequence[Group]) -> list[Chart]:
    """Return one chart per metric with one line per config: the mean over seeds, ± one std."""
    drawn = [
        curves(figures, title, [_mean_line(group, key) for group in groups])
        for key, title in _COMPARED.items()
    ]
    return [chart for chart in drawn if chart is not None]


def _line(run: RunRecord, key: str) -> Series:
    name = _NAMES.get(key) or (metric_title(key) if key.startswith("test") else key)
    return Series(
        name=name,
        x=[row["epoch"] or 0.0 for row in run.history],
        y=[row.get(key) for row in run.history],
    )


def _mean_line(group: Group, key: str) -> Series:
    """Return the mean over a config's runs with a band of one deviation, within 0 and 1."""
    values: dict[float, list[float]] = {}
    for run in group.counted:
        for row in run.history:
            value, epoch = row.get(key), row["epoch"]
            if value is not None and epoch is not None:
                values.setdefault(epoch, []).append(value)
    epochs = sorted(values)
    means = [fmean(values[epoch]) for epoch in epochs]
    deviations = [stdev(values[x]) if len(values[x]) > 1 else 0.0 for x in epochs]
    if not any(deviations):
        return Series(name=group.label, x=epochs, y=means)
    pairs = list(zip(means, deviations, strict=True))
    return Series(
        name=group.label,
        x=epochs,
        y=means,
        low=[max(0.0, mean - off) for mean, off in pairs],
        high=[min(1.0, mean + off) for mean, off in pairs],
    )
