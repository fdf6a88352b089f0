"""Audit folders read back."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from edgemask.errors import UserError, one_line
from edgemask.runs.files import Array, attempt, read_array, read_arrays, read_text
from edgemask.runs.run import is_finished
from edgemask.runs.samples import read_thumbnails

__all__ = ["AUDIT_SCHEMA", "AuditRecord", "is_audit", "read_audit"]

AUDIT_SCHEMA = 1
"""The schema version of the audit folders that this version writes."""

_FOLDS = "folds.npy"
# Columns of an audit's samples.npz and the kinds of numpy type that they may have.
_AUDIT_COLUMNS = {
    "id": "U",
    "given": "iu",
    "suggested": "iu",
    "trust": "f",
    "doubt": "f",
    "listed": "b",
    "rank": "iu",
    "reason": "iu",
}
_VERDICT = {
    "kind": str,
    "lower": float,
    "upper": (float, type(None)),
    "disagreement": float,
    "sentence": str,
    "explanation": str,
    "models": int,
    "checked": int,
    "wrong": int,
}


@dataclass(frozen=True, kw_only=True)
class AuditRecord:
    """The contents of an audit folder."""

    path: Path
    facts: Mapping[str, Any]
    """``audit.json``: the verdict, class names and everything else that is no array."""
    samples: Mapping[str, Array]
    """Columns of ``samples.npz``, all of one length: id, given, suggested, trust, doubt, listed,
    rank (from 1), reason (a number)."""
    thumbnails: Mapping[str, Array] = field(default_factory=dict)
    """``index`` (the position of a sample) and ``images``, where the samples are pictures."""
    items: tuple[Mapping[str, Any], ...] = ()
    """What to show of samples: ``index`` and one of ``text``, ``row``, ``path``."""
    problems: tuple[str, ...] = ()
    """What could not be read, one sentence each."""

    @property
    def rate(self) -> dict[str, Any]:
        """What is said of the share of wrong labels, as the fields of a verdict."""
        return {key: self.facts["rate"][key] for key in _VERDICT}

    @property
    def class_names(self) -> list[str]:
        """One name per class number."""
        return [str(name) for name in self.facts["class_names"]]

    @property
    def transition_matrix(self) -> npt.NDArray[np.float64]:
        """Estimated probability that a sample of class i (row) is labelled j (column)."""
        return np.asarray(self.facts["transition_matrix"], dtype=np.float64)

    @property
    def reason(self) -> list[str]:
        """The reason of each sample, in words."""
        reasons = [str(text) for text in self.facts["reasons"]]
        return [reasons[code] for code in self.samples["reason"].tolist()]

    @property
    def check(self) -> npt.NDArray[np.int64]:
        """Positions of samples drawn at random to be checked by hand, in their order."""
        return np.array(self.facts.get("check", ()), dtype=np.int64)

    @property
    def decisions(self) -> list[dict[str, str]]:
        """What was decided about samples before the audit, as rows of a corrections file."""
        return list(self.facts.get("decisions", ()))

    @property
    def order(self) -> npt.NDArray[np.int64]:
        """Positions of all samples, the most suspicious first."""
        return np.argsort(self.samples["rank"], kind="stable").astype(np.int64)


def is_audit(folder: Path) -> bool:
    """Return whether a folder holds an audit, finished or not."""
    return any((folder / name).is_file() for name in ("audit.json", _FOLDS))


def read_audit(path: str | Path) -> AuditRecord:
    """Read an audit folder.

    Raises:
        UserError: If the folder is no audit, or a file is damaged or of a later version.
    """
    folder = Path(path)
    if not is_audit(folder):
        raise UserError(f"the folder {str(path)!r} holds no audit: there is no audit.json in it")
    if not (folder / "audit.json").is_file():
        done = sum(is_finished(run) for run in sorted((folder / "runs").glob("*")))
        folds = read_array(folder / _FOLDS)
        count = int(folds.max()) + 1 if folds.dtype.kind in "iu" and folds.size else 0
        raise UserError(
            f"the audit in {str(path)!r} is not finished: {done} of {count} folds are trained; the "
            "same command continues it"
        )
    try:
        facts = json.loads(read_text(folder / "audit.json"))
    except (ValueError, RecursionError) as error:
        raise UserError(f"audit.json is not valid JSON ({one_line(error)}).") from error
    if not isinstance(facts, dict):
        raise UserError(f"audit.json holds a {type(facts).__name__} instead of an object.")
    schema = facts.get("schema")
    if not isinstance(schema, int) or not 1 <= schema <= AUDIT_SCHEMA:
        raise UserError(
            f"audit.json has schema version {str(schema)[:20]!r}, and this version of EdgeMask "
            f"reads 1 to {AUDIT_SCHEMA}; update EdgeMask."
        )
    samples = read_arrays(folder / "samples.npz")
    if not _facts_fit(facts) or not _audit_fits(facts, samples) or not _draw_fits(facts, samples):
        raise UserError("audit.json and samples.npz lack values, or do not fit together.")
    problems: list[str] = []
    return AuditRecord(
        path=folder,
        facts=facts,
        samples=samples,
        thumbnails=attempt(problems, read_thumbnails, folder / "thumbnails.npz") or {},
        items=tuple(_read_items(folder / "items.jsonl", len(samples["id"]), problems)),
        problems=tuple(problems),
    )


def _facts_fit(facts: Mapping[str, Any]) -> bool:
    """Return whether the verdict, names and matrix of an audit are there and of the right types."""
    rate, names, reasons = facts.get("rate"), facts.get("class_names"), facts.get("reasons")
    if not isinstance(rate, dict) or not isinstance(names, list) or not isinstance(reasons, list):
        return False
    numbers = {key: float(v) if isinstance(v, int) else v for key, v in rate.items()}
    for key, kinds in _VERDICT.items():
        value = rate.get(key) if kinds is int else numbers.get(key)
        if key not in rate or not isinstance(value, kinds):  # type: ignore[arg-type]
            return False
    try:
        matrix = np.asarray(facts.get("transition_matrix"), dtype=np.float64)
    except (TypeError, ValueError):
        return False
    return matrix.shape == (len(names), len(names))


def _draw_fits(facts: Mapping[str, Any], samples: Mapping[str, Array]) -> bool:
    """Return whether the random draw names samples, each once, and decisions are rows of text."""
    check, decisions = facts.get("check", []), facts.get("decisions", [])
    if not isinstance(check, list) or not isinstance(decisions, list):
        return False
    return (
        all(type(place) is int and 0 <= place < len(samples["id"]) for place in check)
        and len(set(check)) == len(check)
        and all(
            isinstance(row, dict)
            and row.keys() >= {"id", "action"}
            and all(isinstance(value, str) for value in row.values())
            for row in decisions
        )
    )


def _audit_fits(facts: Mapping[str, Any], samples: Mapping[str, Array]) -> bool:
    """Return whether the columns of an audit have one length and values that make sense."""
    if not samples.keys() >= _AUDIT_COLUMNS.keys():
        return False
    count = len(np.atleast_1d(samples["id"]))
    if any(
        samples[key].shape != (count,) or samples[key].dtype.kind not in kinds
        for key, kinds in _AUDIT_COLUMNS.items()
    ):
        return False
    if not count:
        return False
    below = {"given": "class_names", "suggested": "class_names", "reason": "reasons"}
    return (
        all(
            int(samples[key].min()) >= 0 and int(samples[key].max()) < len(facts[names])
            for key, names in below.items()
        )
        and bool(np.isfinite(samples["trust"]).all())
        and bool((np.sort(samples["rank"]) == np.arange(1, count + 1)).all())
    )


def _read_items(path: Path, count: int, problems: list[str]) -> Iterable[dict[str, Any]]:
    """Yield what is to be shown of samples; lines that are damaged are left out."""
    text = (attempt(problems, read_text, path) or "") if path.is_file() else ""
    damaged = 0
    for line in filter(str.strip, text.splitlines()):
        try:
            item = json.loads(line)
            good = isinstance(item["index"], int) and 0 <= item["index"] < count
        except (KeyError, RecursionError, TypeError, ValueError):
            good = False
        if good:
            yield item
        else:
            damaged += 1
    if damaged:
        problems.append(f"{damaged} line(s) of items.jsonl could not be read and are left out.")
