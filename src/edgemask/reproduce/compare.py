"""Paired differences, their confidence intervals, and whether the paper's ordering holds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from edgemask.reproduce.results import Result
from edgemask.reproduce.spec import Experiment

__all__ = ["Comparison", "Difference", "compare", "paired_difference"]


@dataclass(frozen=True)
class Difference:
    """A mean of differences over paired seeds."""

    mean: float
    low: float | None
    """Lower end of the confidence interval; None for a single pair."""
    high: float | None
    count: int


@dataclass(frozen=True)
class Comparison:
    """One claim in one column."""

    better: str
    worse: str
    column: str
    ours: Difference | None
    """In fractions; None without paired runs."""
    paper: float | None
    """The paper's difference in percentage points."""

    @property
    def verdict(self) -> str:
        """What can be said of the claim."""
        if self.ours is None:
            return "not run"
        if self.ours.low is None or self.ours.high is None:
            return f"{_direction(self.ours.mean)}, one seed"
        if self.ours.low > 0:
            return "holds"
        if self.ours.high < 0:
            return "reversed"
        return f"{_direction(self.ours.mean)}, not certain"


def _direction(mean: float) -> str:
    return "points to it" if mean > 0 else "points against it" if mean < 0 else "no difference"


def paired_difference(
    first: Sequence[float], second: Sequence[float], *, confidence: float = 0.95
) -> Difference:
    """Return the mean of ``first - second`` with its interval from Student's t distribution.

    Example:
        >>> found = paired_difference([0.5, 0.6, 0.7], [0.4, 0.4, 0.6])
        >>> round(found.mean, 4), round(found.low, 4), round(found.high, 4)
        (0.1333, -0.0101, 0.2768)
    """
    gaps = [a - b for a, b in zip(first, second, strict=True)]
    if not gaps:
        raise ValueError("there is no pair to compare")
    mean, count = fmean(gaps), len(gaps)
    if count == 1:
        return Difference(mean, None, None, 1)
    from scipy.stats import t

    reach = float(t.ppf(0.5 + confidence / 2, count - 1)) * stdev(gaps) / math.sqrt(count)
    return Difference(mean, mean - reach, mean + reach, count)


def compare(experiment: Experiment, results: Sequence[Result]) -> list[Comparison]:
    """Judge every claim of an experiment in every column where it can be."""
    values = {(found.row, found.column, found.seed): found.value for found in results}
    seeds = sorted({found.seed for found in results})
    found = []
    places = {(row.key, column.key) for row, column in experiment.cells()}
    for claim in experiment.claims:
        for column in experiment.columns:
            key = column.key
            if (claim.better, key) not in places or (claim.worse, key) not in places:
                continue
            both = [
                seed
                for seed in seeds
                if (claim.better, key, seed) in values and (claim.worse, key, seed) in values
            ]
            ours = None
            if both:
                ours = paired_difference(
                    [values[claim.better, key, seed] for seed in both],
                    [values[claim.worse, key, seed] for seed in both],
                )
            first = experiment.paper.get((claim.better, key))
            second = experiment.paper.get((claim.worse, key))
            paper = None if first is None or second is None else first.mean - second.mean
            found.append(Comparison(claim.better, claim.worse, key, ours, paper))
    return found
