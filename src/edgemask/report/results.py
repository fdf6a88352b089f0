"""The tables of a report: results, comparison, noise, classes, config, versions."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from edgemask.report.doubtful import known_clean
from edgemask.report.groups import Group, flatten
from edgemask.report.outcomes import last_value, noise_facts, outcome, outcomes, total_seconds
from edgemask.report.records import RunRecord
from edgemask.report.tables import UNKNOWN, Cell, Row, Table, number, percent

__all__ = [
    "class_table",
    "command",
    "comparison_table",
    "config_table",
    "noise_table",
    "result_table",
    "runs_table",
    "status",
    "versions_table",
]

WAYS = {
    "last": "last",
    "mean_last_10": "mean of last 10",
    "best": "best (oracle)",
    "at_validation": "at validation",
}
ORACLE = (
    "“best (oracle)” is the epoch that the test set itself would choose: no choice that a person "
    "could make. “at validation” is the epoch that held-out noisy data choose."
)
MEASURES = {
    "memorised": "wrong labels memorised",
    "corrected": "wrong labels corrected",
    "fitted": "right labels fitted",
    "head/retention": "edges retained",
}
_TITLES = {
    "test/accuracy": "test accuracy",
    "test/balanced_accuracy": "balanced accuracy",
    "test/top5": "top-5 accuracy",
}


def title_of(key: str) -> str:
    """Return the words for a measure of accuracy."""
    if key in _TITLES:
        return _TITLES[key]
    where, _, what = key.partition("/")
    return f"{where.removeprefix('test.')} {what.replace('_', ' ')}"


def status(run: RunRecord) -> str:
    """Return how far a run got."""
    if run.finished:
        return "finished"
    train = run.config.get("train")
    total = train.get("epochs") if isinstance(train, Mapping) else None
    return f"unfinished: {len(run.history)} of {total or '?'} epochs"


def result_table(run: RunRecord) -> Table:
    """Return the accuracies of one run in every way to name an end, and what it memorised."""
    rows: list[Row] = []
    for key, end in outcomes(run).items():
        best = percent(end.best)
        if end.best_epoch is not None:
            best = Cell(text=f"{best.text} (epoch {end.best_epoch})", value=best.value)
        row = [percent(end.last), percent(end.mean_last_10), best, percent(end.at_validation)]
        rows.append([title_of(key), *row])
    for key, title in MEASURES.items():
        value = last_value(run, key)
        if value is not None:
            mean = outcome(run, key).mean_last_10
            rows.append([title, percent(value), percent(mean), "", ""])
    notes = [ORACLE]
    if run.summary.get("clean_test") is False:
        notes.append("The labels of the test set are not known to be clean.")
    if len(run.history) < 10:
        notes.append(f"Only {len(run.history)} epoch(s) so far: “last 10” is the mean over these.")
    return Table(["in %", *WAYS.values()], rows, notes=notes)


def comparison_table(groups: Sequence[Group]) -> Table:
    """Return one row a config: mean ± std (n) over its seeds, columns without values left out."""
    columns: dict[str, list[Cell]] = {}
    for way, title in WAYS.items():
        columns[title] = [group.outcome("test/accuracy", way) for group in groups]
    columns["balanced, last"] = [
        group.outcome("test/balanced_accuracy", "last") for group in groups
    ]
    comparable = len({_task(group.speaker) for group in groups}) == 1
    for title, column in columns.items():
        if comparable and len(groups) > 1:
            columns[title] = _with_best(column, groups)
    for key in ("memorised", "head/retention"):
        columns[MEASURES[key]] = [group.last(key) for group in groups]
    columns = {
        title: column
        for title, column in columns.items()
        if any(item.value is not None for item in column)
    }
    rows: list[Row] = [
        [
            group.label if group.finished else f"{group.label} (unfinished)",
            ["classes", run.num_classes or None],
        ["fingerprint", str(facts["fingerprint"] or UNKNOWN)],
    ]
    if outside.any():
        rows.append(["of none of the classes (%)", percent(float(outside.mean()))])
    return Table(["labels", "value"], rows)


def class_table(run: RunRecord) -> Table | None:
    """Return accuracy and noise class by class."""
    accuracy = run.summary.get("per_class_accuracy")
    accuracy = accuracy if isinstance(accuracy, list) else []
    size = run.num_classes
    given = run.samples.get("given", run.noise.get("noisy"))
    if not size or (not accuracy and given is None):
        return None
    columns: dict[str, list[Cell | str | float | None]] = {}
    if accuracy:
        columns["test accuracy (%)"] = [
            percent(accuracy[place] if place < len(accuracy) else None) for place in range(size)
        ]
    if given is not None:
        counts = np.bincount(given, minlength=size)[:size]
        columns["samples given"] = [int(count) for count in counts]
        shares = np.maximum(counts, 1)
        clean = known_clean(run) if run.samples else run.noise.get("clean")
        if clean is not None:
            wrong = np.bincount(given[given != clean], minlength=size)[:size] / shares
            columns["labels wrong (%)"] = [percent(float(value)) for value in wrong]
        if run.samples:
            trust = np.nan_to_num(run.samples["trust"].astype(np.float64), nan=0.5)
            sums = np.bincount(given, weights=trust, minlength=size)[:size]
            columns["mean trust"] = [
                number(float(total / count), digits=3) if count else None
                for total, count in zip(sums, counts, strict=True)
            ]
    rows = [
        [run.class_name(place), *(column[place] for column in columns.values())]
        for place in range(size)
    ]
    return Table(["class", *columns], rows)


def config_table(run: RunRecord) -> Table:
    """Return the config, a row a part."""
    rows = []
    for part, value in run.config.items():
        text = (
            ", ".join(f"{key}: {_short(option)}" for key, option in flatten(value).items())
            if isinstance(value, Mapping)
            else _short(value)
        )
        rows.append([str(part), text])
    return Table(["part", "settings"], rows, text_columns=2)


def _short(value: Any) -> str:
    return UNKNOWN if value is None else str(value)


def versions_table(run: RunRecord) -> Table | None:
    """Return the versions of the packages that the run used."""
    versions = run.summary.get("versions")
    if not isinstance(versions, Mapping) or not versions:
        return None
    rows = [[str(name), str(version)] for name, version in versions.items()]
    return Table(["package", "version"], rows, text_columns=2)


def command(run: RunRecord) -> str:
    """Return the line that repeats a run: its own, or one from its config."""
    told = run.summary.get("command")
    if isinstance(told, list) and told:
        return shlex.join(str(word) for word in told)
    if isinstance(told, str) and told:
        return told
    config = shlex.quote(str(run.path / "config.yaml"))
    return f"edgemask train --config {config} --out {shlex.quote(run.name + '-again')}"
