"""What came out of a run: its accuracies, each under the name of how it was chosen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from edgemask.report.records import RunRecord, known

__all__ = ["Outcome", "last_value", "noise_facts", "outcome", "outcomes", "total_seconds"]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """One measure at the end of a run, in the ways to name an end."""

    last: float | None = None
    """At the last epoch."""
    mean_last_10: float | None = None
    """Mean over the last ten epochs (over all, where there are fewer)."""
    best: float | None = None
    """The best epoch by the test set itself: an oracle, no choice that a person could make."""
    best_epoch: int | None = None
    at_validation: float | None = None
    """At the epoch that the held-out part of the noisy data chooses."""
    selected: float | None = None
    """With the weights that the run chose on validation samples, which are those it deploys."""


def outcome(run: RunRecord, key: str) -> Outcome:
    """Return the outcome of one measure, from the summary or else from the epochs so far."""
    told = run.summary.get(key)
    told = told if isinstance(told, Mapping) else {}
    seen = _from_history(run, key)
    values = {name: known(told.get(name)) for name in seen}
    merged: dict[str, Any] = {
        name: value if value is not None else seen[name] for name, value in values.items()
    }
    if merged["best_epoch"] is not None:
        merged["best_epoch"] = int(merged["best_epoch"])
    chosen = run.summary.get("selected")
    selected = known(chosen.get(key)) if isinstance(chosen, Mapping) else None
    return Outcome(**merged, selected=selected)


def outcomes(run: RunRecord) -> dict[str, Outcome]:
    """Return all accuracies on test sets by key, the plain one first."""
    keys = {key for row in run.history for key in row} | run.summary.keys()
    found = sorted(
        key
        for key in keys
        if key.startswith(("test/", "test.")) and key.endswith(("accuracy", "/top5"))
    )
    order = {"test/accuracy": 0, "test/balanced_accuracy": 1, "test/top5": 2}
    return {key: outcome(run, key) for key in sorted(found, key=lambda key: order.get(key, 3))}


def last_value(run: RunRecord, key: str) -> float | None:
    """Return the last known value of a measure that has one number a run."""
    told = known(run.summary.get(key))
    if told is not None:
        return told
    return next((row[key] for row in reversed(run.history) if row.get(key) is not None), None)


def total_seconds(run: RunRecord) -> float | None:
    """Return how long a run took, or has taken so far."""
    told = known(run.summary.get("seconds"))
    if told is not None or not run.history:
        return told
    return sum(row.get("seconds") or 0.0 for row in run.history)


def noise_facts(run: RunRecord) -> dict[str, Any]:
    """Return what is known of the noise: kind, protocol, the three rates, seed, fingerprint."""
    told = run.summary.get("noise")
    told = told if isinstance(told, Mapping) else {}
    facts: dict[str, Any] = {}
    for key in ("kind", "protocol", "rate", "realised_rate", "estimated_rate", "seed"):
        facts[key] = told.get(key) if told.get(key) is not None else run.noise.get(key)
    if facts["realised_rate"] is None and "clean" in run.noise and len(run.noise["clean"]):
        facts["realised_rate"] = float((run.noise["clean"] != run.noise["noisy"]).mean())
    for key in ("rate", "realised_rate", "estimated_rate"):
        facts[key] = known(facts[key])
    facts["fingerprint"] = run.summary.get("noise_fingerprint")
    return facts


def _from_history(run: RunRecord, key: str) -> dict[str, float | None]:
    rows = [(row["epoch"], row[key]) for row in run.history if row.get(key) is not None]
    result: dict[str, float | None] = dict.fromkeys(
        ("last", "mean_last_10", "best", "best_epoch", "at_validation")
    )
    if not rows:
        return result
    values = [value for _, value in rows if value is not None]
    place = values.index(max(values))
    result |= {
        "last": values[-1],
        "mean_last_10": fmean(values[-10:]),
        "best": values[place],
        "best_epoch": rows[place][0],
    }
    judged = [
        (row["validation/accuracy"], row[key])
        for row in run.history
        if row.get("validation/accuracy") is not None and row.get(key) is not None
    ]
    if judged:
        result["at_validation"] = max(judged, key=lambda pair: pair[0] or 0.0)[1]
    return result
