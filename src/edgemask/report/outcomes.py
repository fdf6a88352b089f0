"""The results of a run: its accuracies, each under the name of how the epoch was chosen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from statistics import fmean
from typing import Any

from edgemask.runs import RunRecord, finite_number

__all__ = [
    "FinalValue",
    "accuracies",
    "final_value",
    "last_value",
    "noise_facts",
    "status",
    "total_seconds",
]


@dataclass(frozen=True, kw_only=True)
class FinalValue:
    """One metric at the end of a run, by the ways to choose the epoch."""

    last: float | None = None
    """At the last epoch."""
    mean_last_10: float | None = None
    """Mean over the last ten epochs (over all, where there are fewer)."""
    best: float | None = None
    """The best epoch by the test set itself: an oracle, no choice that a user could make."""
    best_epoch: int | None = None
    at_validation: float | None = None
    """At the epoch that the held-out part of the noisy data chooses."""
    selected: float | None = None
    """With the weights that the run chose on validation samples, which are those it deploys."""


def status(run: RunRecord) -> str:
    """Return how far a run got."""
    if run.finished:
        return "finished"
    return f"unfinished: {len(run.history)} of {run.epochs or '?'} epochs"


def final_value(run: RunRecord, key: str) -> FinalValue:
    """Return the final values of a metric, from the summary or else from the epochs so far."""
    stored = _mapping(run.summary.get(key))
    values: dict[str, Any] = {
        field.name: finite_number(stored.get(field.name)) for field in fields(FinalValue)
    }
    values["selected"] = finite_number(_mapping(run.summary.get("selected")).get(key))
    known = {name: value for name, value in values.items() if value is not None}
    if "best_epoch" in known:
        known["best_epoch"] = int(known["best_epoch"])
    return replace(_from_history(run, key), **known)


def accuracies(run: RunRecord) -> dict[str, FinalValue]:
    """Return all accuracies on test sets by key, the plain one first."""
    keys = {key for row in run.history for key in row} | run.summary.keys()
    found = [
        key
        for key in sorted(keys)
        if key.startswith(("test/", "test."))
        and (key.endswith(("accuracy", "/top5")) or "/accuracy." in key)
    ]
    order = {"test/accuracy": 0, "test/balanced_accuracy": 1, "test/top5": 2}
    return {key: final_value(run, key) for key in sorted(found, key=lambda key: order.get(key, 3))}


def last_value(run: RunRecord, key: str) -> float | None:
    """Return the last known value of a metric that has one number per run."""
    stored = finite_number(run.summary.get(key))
    if stored is not None:
        return stored
    return next((row[key] for row in reversed(run.history) if row.get(key) is not None), None)


def total_seconds(run: RunRecord) -> float | None:
    """Return how long a run took, or has taken so far."""
    stored = finite_number(run.summary.get("seconds"))
    if stored is not None or not run.history:
        return stored
    return sum(row.get("seconds") or 0.0 for row in run.history)


def noise_facts(run: RunRecord) -> dict[str, Any]:
    """Return what is known of the noise: kind, protocol, the rates, seed, fingerprint."""
    stored = _mapping(run.summary.get("noise"))
    facts: dict[str, Any] = {}
    for key in ("kind", "protocol", "rate", "realised_rate", "seed"):
        facts[key] = stored[key] if stored.get(key) is not None else run.noise.get(key)
    if facts["realised_rate"] is None and "clean" in run.noise and len(run.noise["clean"]):
        facts["realised_rate"] = float((run.noise["clean"] != run.noise["noisy"]).mean())
    for key in ("rate", "realised_rate"):
        facts[key] = finite_number(facts[key])
    facts["fingerprint"] = run.summary.get("noise_fingerprint")
    return facts


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _from_history(run: RunRecord, key: str) -> FinalValue:
    rows = [row for row in run.history if row.get(key) is not None]
    if not rows:
        return FinalValue()
    values = [row[key] or 0.0 for row in rows]
    best = values.index(max(values))
    judged = [row for row in rows if row.get("validation/accuracy") is not None]
    chosen = max(judged, key=lambda row: row["validation/accuracy"] or 0.0, default=None)
    return FinalValue(
        last=values[-1],
        mean_last_10=fmean(values[-10:]),
        best=values[best],
        best_epoch=int(rows[best]["epoch"] or 0),
        at_validation=None if chosen is None else chosen[key],
    )
