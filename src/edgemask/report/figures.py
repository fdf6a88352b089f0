"""The curves of a report: one run with its measures, or one measure over several configs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import fmean, stdev

from edgemask.report.charts import Axis, Book, Series, curves
from edgemask.report.groups import Group
from edgemask.report.records import RunRecord
from edgemask.report.results import MEASURES, title_of

__all__ = ["compared_curves", "run_curves"]

_BOOKKEEPING = {"epoch", "step", "seconds", "lr"}
_NAMES = {
    "confidence/clean": "right labels",
    "confidence/noisy": "wrong labels",
    "validation/accuracy": "validation (noisy labels)",
    "clean_validation/accuracy": "validation (clean labels)",
    **MEASURES,
}
_VALIDATION = {"validation/accuracy", "clean_validation/accuracy"}
_NOTES = {
    "confidence": "Mean probability that the network gives to the labels it is shown, apart for "
    "those that are right and those that are wrong.",
    "memory": "Memorised: wrong labels that the network predicts as given. Corrected: wrong labels "
    "where it predicts the true class. Fitted: right labels that it predicts.",
    "retention": "Share of the head's edges that a training step keeps.",
}


def run_curves(book: Book, run: RunRecord) -> str:
    """Return all curves of one run; a measure that was not recorded has none."""
    keys = list(dict.fromkeys(key for row in run.history for key in row))
    ends = [key for key in keys if key.endswith(("accuracy", "/top5"))]
    accuracy = [key for key in ends if key.startswith("test") or key in _VALIDATION]
    confidence = [key for key in keys if key.startswith("confidence/")]
    memory = [key for key in keys if key in {"memorised", "corrected", "fitted"}]
    retention = [key for key in keys if key.startswith("head/") and "retention" in key]
    train = [key for key in keys if key.startswith("train/")]
    used = {*ends, *confidence, *memory, *retention, *train, *_BOOKKEEPING}
    blocks: list[tuple[str, list[str], bool, str]] = [
        ("Accuracy", accuracy, True, ""),
        ("Confidence in the given labels", confidence, True, _NOTES["confidence"]),
        ("Memorisation", memory, True, _NOTES["memory"]),
        ("Edges retained", retention, True, _NOTES["retention"]),
        ("Training loss", train, False, ""),
        *((key, [key], False, "") for key in keys if key not in used),
    ]
    return "".join(
        curves(book, title, [_series(run, key) for key in part], Axis(percent=percent), note)
        for title, part, percent, note in blocks[:16]
    )


def compared_curves(book: Book, groups: Sequence[Group]) -> str:
    """Return one chart a measure with a line a config: the mean over seeds, ± one deviation."""
    titles = {
        "test/accuracy": "Test accuracy",
        "memorised": "Wrong labels memorised",
        "confidence/clean": "Confidence in right labels",
        "confidence/noisy": "Confidence in wrong labels",
        "head/retention": "Edges retained",
    }
    return "".join(
        curves(book, title, [_mean(group, key) for group in groups], Axis())
        for key, title in titles.items()
    )


def _series(run: RunRecord, key: str) -> Series:
    pairs = [(row["epoch"] or 0.0, row.get(key)) for row in run.history]
    name = _NAMES.get(key) or (title_of(key) if key.startswith("test") else key)
    return Series(name=name, x=[x for x, _ in pairs], y=[y for _, y in pairs])


def _mean(group: Group, key: str) -> Series:
    at: dict[float, list[float]] = {}
    for run in group.counted:
        for row in run.history:
            value, epoch = row.get(key), row["epoch"]
            if value is not None and epoch is not None:
                at.setdefault(epoch, []).append(value)
    x = sorted(at)
    y = [fmean(at[epoch]) for epoch in x]
    deviation = [_deviation(at[epoch]) for epoch in x]
    return Series(
        name=group.label,
        x=x,
        y=y,
        low=_shifted(y, deviation, -1) if any(deviation) else (),
        high=_shifted(y, deviation, 1) if any(deviation) else (),
    )


def _deviation(values: Sequence[float]) -> float:
    return stdev(values) if len(values) > 1 else 0.0


def _shifted(values: Iterable[float], deviation: Iterable[float], sign: int) -> list[float | None]:
    """Return the edge of a band; shares stay between 0 and 1."""
    return [
        min(1.0, max(0.0, value + sign * off)) for value, off in zip(values, deviation, strict=True)
    ]
