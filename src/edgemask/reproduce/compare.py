"""Paired differences, their confidence intervals, and whether the paper's ordering holds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from edgemask.reproduce.experiments import Experiment
from edgemask.reproduce.results import CellResult

__all__ = ["ClaimComparison", "PairedDifference", "compare", "paired_difference"]


@dataclass(frozen=True)
class PairedDifference:
    """A mean of differences over paired seeds."""

    mean: float
    low: float | None
    """Lower end of the confidence interval; None for a single pair."""
    high: float | None
    count: int


@dataclass(frozen=True)
class ClaimComparison:
    """One claim in one column."""

    better: str
    worse: str
    column: str
    ours: PairedDifference | None
    """In fractions; None without paired runs."""
    paper: float | None
    """The paper's difference in percentage points."""

    @property
    def verdict(self) -> str:
        """The verdict on the claim, in words."""
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
) -> PairedDifference:
    """Return the mean of ``first - second`` with its interval from Student's t distribution.

    Example:
        >>> gap = paired_difference([0.5, 0.6, 0.7], [0.4, 0.4, 0.6])
        >>> round(gap.mean, 4), round(gap.low, 4), round(gap.high, 4)
        (0.1333, -0.0101, 0.2768)
    """
    gaps = [a - b for a, b in zip(first, second, strict=True)]
    if not gaps:
        raise ValueError("there is no pair to compare")
    mean, count = fmean(gaps), len(gaps)
    if count == 1:
        return PairedDifference(mean, None, None, 1)
    from scipy.stats import t

    reach = float(t.ppf(0.5 + confidence / 2, count - 1)) * stdev(gaps) / math.sqrt(count)
    return PairedDifference(mean, mean - reach, mean + reach, count)


def compare(experiment: Experiment, results: Sequence[CellResult]) -> list[ClaimComparison]:
    """Compare the two rows of every claim in every column that has both."""
    values = {(result.row, result.column, result.seed): result.value for result in results}
    seeds = sorted({result.seed for result in results})
    cells = {(row.key, column.key) for row, column in experiment.cells()}
    comparisons = []
    for claim in experiment.claims:
        for column in experiment.columns:
            better, worse = (claim.better, column.key), (claim.worse, column.key)
            if not {better, worse} <= cells:
                continue
            paired = [
                seed for seed in seeds if (*better, seed) in values and (*worse, seed) in values
            ]
            ours = None
            if paired:
                ours = paired_difference(
                    [values[*better, seed] for seed in paired],
                    [values[*worse, seed] for seed in paired],
                )
            paper = None
            if better in experiment.paper and worse in experiment.paper:
                paper = experiment.paper[better].mean - experiment.paper[worse].mean
            comparisons.append(ClaimComparison(claim.better, claim.worse, column.key, ours, paper))
    return comparisons
