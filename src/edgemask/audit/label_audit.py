"""The result of an audit: which labels are worth checking, and what is said of their share."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgemask import runs
from edgemask._files import write_arrays, write_json, write_text
from edgemask._text import as_csv, printable
from edgemask.audit.corrections import Corrections, read_corrections
from edgemask.audit.verdict import Verdict
from edgemask.errors import MissingExtraError, UserError
from edgemask.noise._checks import Int64

__all__ = ["LabelAudit"]

Floats = NDArray[np.float64]

_TO_CHECK = 100
_KEPT, _DROPPED = "reviewed by hand", "dropped by hand"
_COLUMNS = ("rank", "id", "given", "suggested", "trust", "reason")


@dataclass(frozen=True, kw_only=True, eq=False)
class LabelAudit:
    """Every sample of a dataset with the trust in its given label.

    The list of samples worth checking is ``suspects``; ``print`` shows what an audit says.
    """

    ids: Sequence[str]
    """What each sample is called: a file name, a row or a key."""
    given: Int64
    """The given label of each sample, a class number."""
    suggested: Int64
    """The class that fits each sample best; the given one where no other fits better."""
    trust: Floats
    """A score in [0, 1] per sample, higher where the given label is more likely right."""
    trust_is_probability: bool
    """Whether trust was calibrated; otherwise only its order means something."""
    listed: NDArray[np.bool_]
    """Which samples are worth checking."""
    reason: Sequence[str]
    """Why each sample has the rank that it has, in a few words."""
    order: Int64
    """Positions of all samples, the most suspicious first."""
    rate: Verdict
    """What is said of the share of wrong labels."""
    transition_matrix: Floats
    """Estimated probability that a sample of class i (row) is labelled j (column)."""
    class_names: Sequence[str]
    """One name per class number."""
    source: str
    """Where trust comes from: ``probabilities``, ``features``, ``dynamics``, ``folds``, ``run``."""
    doubt: Floats
    """Chance per sample that the suggested label is right rather than the given one, as the models
    see it, before anything is known of the share of wrong labels."""
    corrections: Corrections | None = None
    """What a person has decided about samples so far."""
    data: str = ""
    """The data by the name that commands take; empty where they were an object."""

    def __post_init__(self) -> None:
        count = len(self.ids)
        for name in ("given", "suggested", "trust", "listed", "reason", "order", "doubt"):
            if len(getattr(self, name)) != count:
                raise UserError(
                    f"an audit of {count} samples cannot have {len(getattr(self, name))} values "
                    f"in {name}"
                )

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def rank(self) -> Int64:
        """The place of each sample, from 1 for the most suspicious."""
        rank = np.empty(len(self), dtype=np.int64)
        rank[self.order] = np.arange(1, len(self) + 1)
        return rank

    @property
    def suspects(self) -> Any:
        """The samples worth checking as a pandas frame, in the order of their ranks."""
        return self._frame(self.order[self.listed[self.order]])

    @property
    def ranking(self) -> Any:
        """All samples as a pandas frame, in the order of their ranks."""
        frame = self._frame(self.order)
        frame["listed"] = self.listed[self.order]
        return frame

    def _frame(self, rows: Int64) -> Any:
        try:
            import pandas as pd
        except ImportError as error:
            raise MissingExtraError("pandas", "app", "for a table of suspects", error) from error
        return pd.DataFrame(self._records(rows), columns=list(_COLUMNS))

    def _records(self, rows: Int64) -> list[tuple[Any, ...]]:
        names = self.class_names
        return [
            (
                int(self.rank[row]),
                self.ids[row],
                names[self.given[row]],
                names[self.suggested[row]],
                float(self.trust[row]),
                self.reason[row],
            )
            for row in rows
        ]

    def expected_precision(self, first: int) -> tuple[float, float]:
        """Return what share of the first samples in rank order to expect wrong, as a range.

        At the upper end every label that the models contradict is wrong, as it is for the upper end
        of the share of wrong labels, which also limits how many can be. At the lower end chances
        are what the models say, shifted until they agree with the lower end of that share; 0 where
        nothing is said of it.

        Args:
            first: How many samples would be looked at.
        """
        if not 1 <= first <= len(self):
            raise UserError(f"first must be from 1 to the {len(self)} samples, got {first}")
        rows = self.order[:first]
        low, high = (float(chances[rows].mean()) for chances in self._chances)
        if self.rate.upper is not None:
            high = min(high, self.rate.upper * len(self) / first)
        return low, max(low, high)

    @cached_property
    def _chances(self) -> tuple[Floats, Floats]:
        """The chance of each label to be wrong, at the lower and at the upper end of the share."""
        low, high = self.rate.lower, self.rate.upper
        contradicted = self.doubt > 0.5
        most = contradicted.astype(np.float64)
        rest = (high or 0.0) * len(self) - contradicted.sum()
        if rest > 0:  # more are wrong than are contradicted
            left = ~contradicted & (self.doubt > 0)
            most[left] = _shifted(self.doubt[left], min(1.0, rest / max(1, left.sum())))
        return _shifted(self.doubt, low) if low > 0 else np.zeros(len(self)), most

    def after_checking(self, wrong: int, checked: int) -> LabelAudit:
        """Return the audit with what is known after random labels were checked by hand.

        Args:
            wrong: How many of them were wrong.
            checked: How many were checked.
        """
        return replace(self, rate=self.rate.after_checking(wrong, checked))

    @cached_property
    def check(self) -> Int64:
        """Positions of random samples to check by hand, in the order in which to check them.

        There are 100 of them, or all samples where there are fewer. The same samples are drawn
        each time.
        """
        return draw_to_check(len(self))

    def after_review(self, corrections: Any) -> LabelAudit:
        """Return the audit after a person has decided about some of the samples.

        They leave the list of samples worth checking and are ranked last, those that were not
        dropped with trust 1. Where samples of the random draw were checked, ``rate`` is the
        interval that follows from them: of the labels as they were before the corrections.

        Args:
            corrections: What was decided: the file that the review page saves, a frame, a list of
                mappings or ``Corrections``.

        Raises:
            UserError: If a sample is unknown; but dropped ones may be absent.
        """
        decisions = read_corrections(corrections)
        action = {row.id: row.action for row in decisions.rows}
        names = [printable(name, max_length=None) for name in self.ids]
        known = set(names)
        for row in decisions.rows:
            if row.id not in known and row.action != "drop":
                raise UserError(f"{row.where}: there is no sample {row.id!r} in the audit")
        decided = np.array([name in action for name in names], dtype=bool)
        words = {"keep": _KEPT, "relabel": _KEPT, "drop": _DROPPED}
        sure = np.array([action.get(name, "drop") != "drop" for name in names], dtype=bool)
        wrong, checked = decisions.checked()
        return replace(
            self,
            listed=self.listed & ~decided,
            trust=np.where(sure, 1.0, self.trust),
            doubt=np.where(sure, 0.0, self.doubt),
            order=self.order[np.argsort(decided[self.order], kind="stable")],
            reason=[
                words[action[name]] if name in action else reason
                for name, reason in zip(names, self.reason, strict=True)
            ],
            rate=self.rate.after_checking(wrong, checked) if checked else self.rate,
            corrections=decisions,
        )

    def __str__(self) -> str:
        lines = [
            f"{len(self)} labels, {int(self.listed.sum())} of them are worth checking.",
            self.rate.sentence,
        ]
        if self.rate.kind in ("cannot tell", "at most") and self.listed.any():
            lines.append("Those on the list may all be right.")
        return "\n".join(lines)

    def save(self, folder: str | Path) -> Path:
        """Write ``suspects.csv``, ``samples.npz`` and ``audit.json`` to a folder.

        Returns:
            The folder.
        """
        path = Path(folder)
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(_COLUMNS)
        for record in self._records(self.order[self.listed[self.order]]):
            writer.writerow(
                [f"{value:.6f}" if isinstance(value, float) else as_csv(value) for value in record]
            )
        write_text(path / "suspects.csv", text.getvalue())
        reasons, codes = np.unique(np.asarray(self.reason, dtype=np.str_), return_inverse=True)
        write_arrays(
            path / "samples.npz",
            {
                "id": np.asarray(self.ids, dtype=np.str_),
                "given": self.given.astype(np.int32),
                "suggested": self.suggested.astype(np.int32),
                "trust": self.trust.astype(np.float64),
                "doubt": self.doubt.astype(np.float64),
                "listed": self.listed,
                "rank": self.rank,
                "reason": codes.astype(np.int16),
            },
        )
        steps = [first for first in (10, 20, 50, 100, 200, 500, 1000, 2000) if first <= len(self)]
        write_json(
            path / "audit.json",
            {
                "schema": runs.AUDIT_SCHEMA,
                "source": self.source,
                "data": self.data,
                "samples": len(self),
                "listed": int(self.listed.sum()),
                "class_names": list(self.class_names),
                "trust_is_probability": self.trust_is_probability,
                "rate": asdict(self.rate),
                "transition_matrix": self.transition_matrix.tolist(),
                "reasons": reasons.tolist(),
                "check": self.check.tolist(),
                "decisions": [
                    {
                        key: str(value)
                        for key, value in asdict(row).items()
                        if value and key != "where"
                    }
                    for row in (self.corrections.rows if self.corrections else ())
                ],
                "expected_precision": [
                    {"first": first, "lower": low, "upper": high}
                    for first in steps
                    for low, high in [self.expected_precision(first)]
                ],
            },
        )
        return path

    @classmethod
    def load(cls, folder: str | Path) -> LabelAudit:
        """Read an audit that :meth:`save` has written.

        Raises:
            UserError: If a file is missing, damaged or of a later version.
        """
        record = runs.read_audit(folder)
        samples, facts = record.samples, record.facts
        return cls(
            ids=samples["id"].tolist(),
            given=samples["given"].astype(np.int64),
            suggested=samples["suggested"].astype(np.int64),
            trust=samples["trust"].astype(np.float64),
            trust_is_probability=bool(facts.get("trust_is_probability", False)),
            listed=samples["listed"],
            reason=record.reason,
            order=np.argsort(samples["rank"], kind="stable"),
            rate=Verdict(**record.rate),
            transition_matrix=record.transition_matrix,
            class_names=record.class_names,
            source=str(facts.get("source", "")),
            data=str(facts.get("data", "")),
            doubt=samples["doubt"].astype(np.float64),
            corrections=read_corrections(record.decisions) if record.decisions else None,
        )


def draw_to_check(samples: int) -> Int64:
    """Return random positions to check by hand, in order; the same each time."""
    return np.random.default_rng([_TO_CHECK, samples]).permutation(samples)[:_TO_CHECK]


def _shifted(doubt: Floats, mean: float) -> Floats:
    """Shift the log odds of chances by one number, so that their mean is the given one."""
    odds = np.log(np.clip(doubt, 1e-6, 1 - 1e-6)) - np.log1p(-np.clip(doubt, 1e-6, 1 - 1e-6))
    low, high = -30.0, 30.0
    for _ in range(40):
        middle = (low + high) / 2
        if float((1 / (1 + np.exp(-(odds + middle)))).mean()) < mean:
            low = middle
        else:
            high = middle
    return np.asarray(1 / (1 + np.exp(-(odds + (low + high) / 2))))
