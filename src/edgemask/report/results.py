"""The tables of a report: results, comparison, noise, classes, config, versions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from edgemask.report.groups import Group, flatten
from edgemask.report.outcomes import (
    accuracies,
    final_value,
    last_value,
    noise_facts,
    status,
    total_seconds,
)
from edgemask.report.tables import UNKNOWN, Table, TableCell, TableRow, number, percent
from edgemask.report.trust import clean_labels, detection, doubtful_list, trust
from edgemask.runs import RunRecord, finite_number

__all__ = ["MEASURES", "comparison_table", "metric_title", "run_tables", "runs_table"]

WAYS = {
    "last": "last",
    "mean_last_10": "mean of last 10",
    "best": "best (oracle)",
    "at_validation": "at validation",
}
SELECTED = {"selected": "selected"}
ORACLE = (
    "“best (oracle)” is the epoch that the test set itself would choose: no choice that a user "
    "could make. “at validation” is the epoch that held-out noisy data choose."
)
CHOSEN = (
    "“selected”: the weights that did best on validation samples, noisy or clean as `train.select` "
    "says, each network's by itself; the exported model has these."
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
    "test/networks_accuracy": "mean accuracy of the single networks",
}


def metric_title(key: str) -> str:
    """Return the words for an accuracy."""
    if key in _TITLES:
        return _TITLES[key]
    where, _, what = key.partition("/")
    if what.startswith("accuracy."):
        what = f"accuracy of the network {what.removeprefix('accuracy.')!r}"
    return f"{where.removeprefix('test.')} {what.replace('_', ' ')}"


def run_tables(run: RunRecord, *, doubtful: int = 100) -> dict[str, Table | None]:
    """Return all tables about one run by what they show; ``None`` for what is not known.

    Args:
        run: The run.
        doubtful: How many samples of low trust to list.
    """
    return {
        "doubtful": doubtful_list(run, doubtful),
        "detection": detection(run),
        "noise": noise_table(run),
        "corrections": corrections_table(run),
        "results": result_table(run),
        "classes": class_table(run),
        "config": config_table(run) if run.config else None,
        "versions": versions_table(run),
    }


def result_table(run: RunRecord) -> Table:
    """Return the accuracies of one run by every way to choose the epoch, and what it memorised."""
    rows: list[TableRow] = []
    ways = _ways([run])
    for key, end in accuracies(run).items():
        best = percent(end.best)
        if end.best_epoch is not None:
            best = TableCell(text=f"{best.text} (epoch {end.best_epoch})", value=best.value)
        row = [percent(end.last), percent(end.mean_last_10), best, percent(end.at_validation)]
        row += [percent(end.selected)] * ("selected" in ways)
        rows.append([metric_title(key), *row])
    for key, title in MEASURES.items():
        value = last_value(run, key)
        if value is not None:
            mean = final_value(run, key).mean_last_10
            rows.append([title, percent(value), percent(mean), *[""] * (len(ways) - 2)])
    notes = [ORACLE, *[CHOSEN] * ("selected" in ways)]
    if run.summary.get("clean_test") is False:
        notes.append("The labels of the test set are not known to be clean.")
    remarks = run.summary.get("remarks")
    notes += [
        f"{text[:1].upper()}{text[1:400]}."
        for text in (remarks if isinstance(remarks, list) else ())
        if isinstance(text, str) and "held out of the same data" not in text
    ]
    if len(run.history) < 10:
        notes.append(f"Only {len(run.history)} epoch(s) so far: “last 10” is the mean over these.")
    return Table(["in %", *ways.values()], rows, notes=notes)


def _ways(runs: Iterable[RunRecord]) -> dict[str, str]:
    """Return the ways to choose the epoch; selected weights only where a run selected some."""
    return WAYS | SELECTED if any("selected" in run.summary for run in runs) else WAYS


def comparison_table(groups: Sequence[Group]) -> Table:
    """Return one row per config: mean ± std over its seeds; columns without values are left out."""
    columns: dict[str, list[TableCell]] = {}
    ways = _ways(run for group in groups for run in group.runs)
    for way, title in ways.items():
        columns[title] = [group.final("test/accuracy", way) for group in groups]
    columns["balanced, last"] = [group.final("test/balanced_accuracy", "last") for group in groups]
    comparable = len({_task(group.representative) for group in groups}) == 1
    for title, column in columns.items():
        # The oracle is not a result, so that none of its values is marked.
        if comparable and len(groups) > 1 and title != WAYS["best"]:
            columns[title] = _with_best(column, groups)
    for key in ("memorised", "head/retention"):
        columns[MEASURES[key]] = [group.last(key) for group in groups]
    columns = {
        title: column
        for title, column in columns.items()
        if any(item.value is not None for item in column)
    }
    rows: list[TableRow] = [
        [
            group.label if group.finished else f"{group.label} (unfinished)",
            len(group.counted),
            *(column[place] for column in columns.values()),
        ]
        for place, group in enumerate(groups)
    ]
    notes = [
        "Mean ± sample standard deviation over the runs, or over (n) of them. " + ORACLE,
        "Unfinished runs do not count where a config has finished ones.",
        *[CHOSEN] * ("selected" in ways),
    ]
    corrected = {flatten(group.representative.config).get("data.corrections") for group in groups}
    if len(corrected) > 1:
        notes.append(
            "Corrections change the labels of reviewed test samples as well, and so the test that "
            "configs are compared by."
        )
    if not comparable:
        notes.append("The configs differ in data or noise: compare only rows of the same task.")
    if any(group.repeated_seeds for group in groups):
        notes.append(
            "Some configs have several runs of one seed: these are no independent repetitions, "
            "and the deviation shown is too small."
        )
    return Table(["config", "runs", *columns], rows, "Test accuracy in %", notes)


def _task(run: RunRecord) -> tuple[str, str]:
    flat = flatten(run.config)
    noise = {key: value for key, value in flat.items() if key.startswith("noise")}
    noise = {key: value for key, value in noise.items() if not key.endswith("seed")}
    return str(flat.get("data.spec")), repr(sorted(noise.items()))


def _with_best(column: Sequence[TableCell], groups: Sequence[Group]) -> list[TableCell]:
    """Mark the best value among the finished configs."""
    values = [
        item.value if group.finished and isinstance(item.value, float) else None
        for item, group in zip(column, groups, strict=True)
    ]
    top = max((value for value in values if value is not None), default=None)
    return [
        replace(item, best=value is not None and value == top)
        for item, value in zip(column, values, strict=True)
    ]


def runs_table(groups: Sequence[Group]) -> Table:
    """Return one row per run, with all that a program may want; this is also the CSV."""
    keys = sorted({key for group in groups for run in group.runs for key in accuracies(run)})
    ways = _ways(run for group in groups for run in group.runs)
    rows: list[list[TableCell | str | float | None]] = []
    for group in groups:
        for run in group.runs:
            facts = noise_facts(run)
            flat = flatten(run.config)
            ends = [final_value(run, key) for key in keys]
            row: list[TableCell | str | float | None] = [
                run.name,
                group.label,
                status(run),
                str(flat.get("data.spec", flat.get("data", ""))),
                str(flat.get("noise.spec", facts["kind"] or "")),
                str(run.path),
                str(facts["fingerprint"] or ""),
                str(run.summary.get("config_hash") or ""),
                run.seed,
                len(run.history),
                *(facts[key] for key in ("rate", "realised_rate")),
            ]
            row += [percent(getattr(end, way)) for end in ends for way in ways]
            row += [percent(last_value(run, key)) for key in MEASURES]
            row.append(number(total_seconds(run), digits=1))
            rows.append(row)
    return Table(
        [
            *("run", "config", "status", "data", "noise", "folder", "noise fingerprint"),
            *("config hash", "seed", "epochs", "noise rate", "realised rate"),
            *(f"{metric_title(key)}: {title}" for key in keys for title in ways.values()),
            *MEASURES.values(),
            "seconds",
        ],
        rows,
        text_columns=8,
    )


def noise_table(run: RunRecord) -> Table:
    """Return what is known about the labels and their noise."""
    facts = noise_facts(run)
    noisy = run.noise.get("noisy")
    outside = np.asarray(run.noise.get("clean", ())) < 0
    rows: list[TableRow] = [
        ["kind", str(facts["kind"] or UNKNOWN)],
        ["protocol", str(facts["protocol"] or UNKNOWN)],
        ["nominal rate (%)", percent(facts["rate"])],
        ["realised rate (%), counted", percent(facts["realised_rate"])],
        ["seed", str(facts["seed"]) if facts["seed"] is not None else UNKNOWN],
        ["samples", int(np.size(noisy)) if noisy is not None else None],
        ["classes", run.num_classes or None],
        ["fingerprint", _fingerprint(facts["fingerprint"])],
    ]
    if outside.any():
        rows.append(["of none of the classes (%)", percent(float(outside.mean()))])
    return Table(["labels", "value"], rows)


def _fingerprint(value: object) -> TableCell:
    """Return enough of a fingerprint to tell two apart; the whole is shown for repeating."""
    text = str(value or UNKNOWN)
    return TableCell(text=text if len(text) <= 12 else f"{text[:12]}…", value=text)


def class_table(run: RunRecord) -> Table | None:
    """Return accuracy and noise class by class."""
    size = run.num_classes
    accuracy = run.summary.get("per_class_accuracy")
    given = run.samples.get("given", run.noise.get("noisy"))
    if not size or (not isinstance(accuracy, list) and given is None):
        return None
    columns: dict[str, list[TableCell | float | None]] = {}
    if isinstance(accuracy, list) and accuracy:
        known = [*map(finite_number, accuracy), *[None] * size][:size]
        columns["test accuracy (%)"] = [percent(value) for value in known]
    if given is not None:
        counts = np.bincount(given, minlength=size)[:size]
        columns["samples given"] = counts.tolist()
        clean = clean_labels(run) if run.samples else run.noise.get("clean")
        if clean is not None:
            wrong = np.bincount(given[given != clean], minlength=size)[:size]
            columns["labels wrong (%)"] = [percent(x) for x in wrong / np.maximum(counts, 1)]
        if run.samples:
            sums = np.bincount(given, weights=trust(run), minlength=size)[:size]
            columns["mean trust"] = [
                number(total / count, digits=3) if count else None
                for total, count in zip(sums.tolist(), counts.tolist(), strict=True)
            ]
    rows = [
        [run.class_name(label), *(column[label] for column in columns.values())]
        for label in range(size)
    ]
    return Table(["class", *columns], rows)


def corrections_table(run: RunRecord) -> Table | None:
    """Return the labels by class before and after corrections; None without any."""
    stored = run.summary.get("corrections")
    if not isinstance(stored, Mapping):
        return None
    before, after = stored.get("before"), stored.get("after")
    if not isinstance(before, list) or not isinstance(after, list) or len(before) != len(after):
        return None
    counts = [
        (int(had), int(has))
        for had, has in zip(map(finite_number, before), map(finite_number, after), strict=True)
        if had is not None and has is not None
    ]
    if len(counts) != len(before) or len(counts) > run.num_classes:
        return None
    rows: list[TableRow] = [
        [run.class_name(label), had, has, TableCell(text=f"{has - had:+d}", value=has - had)]
        for label, (had, has) in enumerate(counts)
    ]
    numbers = {
        key: int(finite_number(stored.get(key)) or 0) for key in ("kept", "relabelled", "dropped")
    }
    caption = (
        f"Labels reviewed and kept: {numbers['kept']}, changed: {numbers['relabelled']}; samples "
        f"dropped: {numbers['dropped']}. Labels by class, test samples included"
    )
    return Table(["class", "before", "after", "change"], rows, caption)


def config_table(run: RunRecord) -> Table:
    """Return the config, one row per part; what is unset is left to ``config.yaml``."""
    rows = []
    for part, value in run.config.items():
        settings = flatten(value) if isinstance(value, Mapping) else {"": value}
        text = ", ".join(
            f"{key.removeprefix('options.')} {option}".strip()
            for key, option in settings.items()
            if option is not None and option != {} and option != []
        )
        if text:
            rows.append([str(part), text])
    return Table(["part", "settings"], rows, text_columns=2)


def versions_table(run: RunRecord) -> Table | None:
    """Return the versions of the packages that the run used."""
    versions = run.summary.get("versions")
    if not isinstance(versions, Mapping) or not versions:
        return None
    rows = [[str(name), str(version)] for name, version in versions.items()]
    return Table(["package", "version"], rows, text_columns=2)
