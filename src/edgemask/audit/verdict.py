"""What can honestly be said of the share of wrong labels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgemask.errors import UserError

__all__ = ["ModelEvidence", "Verdict", "clopper_pearson", "judge_share"]

_WHY = (
    "Labels and data alone do not distinguish a wrong label from a hard or random sample, and a "
    "mistake that is always made in the same way does not show. This statement rests on how many "
    "labels contradict models that were not trained on them; to know the share, check 100 labels "
    "by hand."
)
_SUREST = 0.1
_FEWEST = 50
_LEAST_SKILL = 1 / 3


@dataclass(frozen=True, kw_only=True)
class ModelEvidence:
    """How one model's out-of-sample predictions compare with the given labels."""

    samples: int
    """Number of samples."""
    disagreement: float
    """Share of samples whose given label is not the model's prediction."""
    surest: int
    """Number of samples that the model is surest of."""
    surest_disagreement: float
    """Share of those whose given label is not the model's prediction."""

    def upper(self, level: float) -> float:
        """Return the upper end that this model gives to the share of wrong labels."""
        return clopper_pearson(self.disagreement * self.samples, self.samples, level)[1]

    def lower(self, level: float) -> float:
        """Return the lower end: what disagreement among the surest samples does not explain.

        Wrong labels (share v) are taken to hit sure and unsure samples alike, and the model's own
        error among its surest share p of samples to be sqrt(p) of its error E overall. Then
        ``disagreement = v + E`` and ``surest_disagreement = v + sqrt(p) E``; solved for v.
        """
        root = math.sqrt(self.surest / self.samples)
        found = clopper_pearson(self.surest_disagreement * self.surest, self.surest, level)[0]
        return found - root / (1 - root) * max(0.0, self.disagreement - self.surest_disagreement)


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What is said of the share of wrong labels; never a single number.

    Shares are between 0 and 1.
    """

    kind: str
    """``at most``, ``between``, ``at least``, ``cannot tell``, or ``checked`` after a check by
    hand."""
    lower: float
    """Lower end; 0 where nothing is said of it."""
    upper: float | None
    """Upper end; None where nothing is said of it."""
    disagreement: float
    """Share of the labels that the best model disagrees with."""
    sentence: str
    """The statement in words."""
    explanation: str
    """What it rests on."""
    models: int = 1
    """How many kinds of model it rests on."""
    checked: int = 0
    """How many random labels were checked by hand."""
    wrong: int = 0
    """How many of them were wrong."""

    def after_checking(self, wrong: int, checked: int) -> Verdict:
        """Return the verdict after random labels were checked by hand.

        Args:
            wrong: How many of them were wrong.
            checked: How many were checked.

        Returns:
            The interval of Clopper and Pearson (two-sided, 95 %) in place of the estimate.

        Example:
            >>> start = judge_share([ModelEvidence(samples=1000, disagreement=0.3, surest=100,
            ...     surest_disagreement=0.02)], commonest=0.1)
            >>> start.after_checking(8, 100).sentence
            '8 of 100 labels checked by hand were wrong: between 3.5 and 15.2 % of all are (95 %).'
        """
        if not 0 <= wrong <= checked or checked < 1:
            raise UserError(f"{wrong} wrong of {checked} checked labels is not possible")
        low, high = clopper_pearson(wrong, checked, 0.975)
        return replace(
            self,
            kind="checked",
            lower=low,
            upper=high,
            checked=checked,
            wrong=wrong,
            sentence=(
                f"{wrong} of {checked} labels checked by hand were wrong: between "
                f"{100 * low:.1f} and {100 * high:.1f} % of all are (95 %)."
            ),
            explanation=(
                "The labels to check were drawn at random; the interval is Clopper and Pearson's."
            ),
        )


def clopper_pearson(count: float, total: int, level: float) -> tuple[float, float]:
    """Return the one-sided lower and upper limits of a binomial share.

    Args:
        count: Number of successes.
        total: Number of trials.
        level: Confidence of each limit alone; 0.975 gives a two-sided 95 % interval.

    Reference:
        Clopper and Pearson, "The use of confidence or fiducial limits illustrated in the case of
        the binomial", Biometrika 1934.

    Example:
        >>> [round(limit, 3) for limit in clopper_pearson(8, 100, 0.975)]
        [0.035, 0.152]
    """
    low = 0.0 if count <= 0 else _beta_quantile(1 - level, count, total - count + 1)
    high = 1.0 if count >= total else _beta_quantile(level, count + 1, total - count)
    return low, high


def _beta_quantile(level: float, a: float, b: float) -> float:
    """Return where the distribution function of Beta(a, b) reaches a level, by bisection."""
    low, high = 0.0, 1.0
    while high - low > 1e-15 * high:
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if _beta_cdf(middle, a, b) < level else (low, middle)
    return (low + high) / 2


def _beta_cdf(x: float, a: float, b: float) -> float:
    """Return the regularised incomplete beta function, by its continued fraction (DLMF 8.17.22)."""
    if x > (a + 1) / (a + b + 2):  # where the fraction of the complement converges faster
        return 1 - _beta_cdf(1 - x, b, a)
    logarithm = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    front = math.exp(logarithm + a * math.log(x) + b * math.log1p(-x)) / a
    tiny = 1e-300
    value, c, d = 1.0, 1.0, 0.0
    for m in range(100_000):
        if m == 0:
            term = 1.0
        elif m % 2:
            n = (m - 1) // 2
            term = -(a + n) * (a + b + n) * x / ((a + 2 * n) * (a + 2 * n + 1))
        else:
            n = m // 2
            term = n * (b - n) * x / ((a + 2 * n - 1) * (a + 2 * n))
        d = 1 / (1 + term * d or tiny)
        c = 1 + term / c or tiny
        value *= c * d
        if m and abs(c * d - 1) < 1e-15:
            break
    return front * (value - 1)


def model_evidence(
    given: NDArray[Any], predicted: NDArray[Any], confidence: NDArray[Any]
) -> ModelEvidence:
    """Compare one model's predictions with the given labels.

    Where several samples tie for the last place among the surest, each counts in part.

    Args:
        given: The given labels, ``(N,)``.
        predicted: The likeliest class of each sample.
        confidence: Its probability.
    """
    differs = predicted != given
    samples = len(given)
    surest = min(samples, max(_FEWEST, round(_SUREST * samples)))
    least = np.partition(confidence, samples - surest)[samples - surest]
    above, tied = confidence > least, confidence == least
    part = (surest - above.sum()) / tied.sum()
    count = float(differs[above].sum() + part * differs[tied].sum())
    return ModelEvidence(
        samples=samples,
        disagreement=float(differs.mean()),
        surest=surest,
        surest_disagreement=count / surest,
    )


def judge_share(
    evidence: Sequence[ModelEvidence],
    *,
    commonest: float,
    kinds: int | None = None,
    chance_driven: bool = False,
) -> Verdict:
    """Say what the predictions of one or more models tell about the share of wrong labels.

    The upper end is the smallest disagreement of any model (one-sided Clopper-Pearson limit); it
    holds if for every sample its right label is the one most likely to be given. The lower end is
    that of :meth:`ModelEvidence.lower`, the smallest of all models; it is 0 below 500 samples and
    where the best model has a skill below 1/3. With one kind of model the limits are one-sided
    99 % instead of 95 %.

    Args:
        evidence: One entry per model.
        commonest: Share of the samples that have the most frequent label.
        kinds: How many different kinds of model there are; None for as many as ``evidence``.
        chance_driven: Whether outcomes depend on chance (forecasts, prognoses), so that even a
            perfect model would disagree with right labels; nothing is then said of a lower end.

    Example:
        >>> sure = ModelEvidence(samples=1797, disagreement=0.223, surest=180,
        ...     surest_disagreement=0.22)
        >>> weak = ModelEvidence(samples=1797, disagreement=0.24, surest=180,
        ...     surest_disagreement=0.22)
        >>> judge_share([sure, weak], commonest=0.1).sentence
        'Between 16.1 and 24.0 % of the labels look wrong.'
    """
    kinds = len(evidence) if kinds is None else kinds
    level = 0.95 if kinds > 1 else 0.99
    best = min(entry.disagreement for entry in evidence)
    upper = min(entry.upper(level) for entry in evidence)
    skill = 1 - best / (1 - commonest) if commonest < 1 else 0.0
    silent = chance_driven or evidence[0].samples < 500 or skill < _LEAST_SKILL
    lower = 0.0 if silent else max(0.0, min(entry.lower(level) for entry in evidence))
    low, high = f"{100 * lower:.1f}", f"{100 * upper:.1f}"
    stated: float | None = upper
    if lower < 0.02 and upper <= 0.10:
        kind, lower, sentence = "at most", 0.0, f"At most {high} % of the labels look wrong."
    elif lower < 0.02:
        kind, lower, stated = "cannot tell", 0.0, None
        sentence = (
            f"Cannot tell: the model disagrees with {100 * best:.1f} % of the labels; that may be "
            "wrong labels or its own weakness."
        )
    elif upper - lower <= 0.10:
        kind, sentence = "between", f"Between {low} and {high} % of the labels look wrong."
    else:
        kind = "at least"
        sentence = f"At least {low} % of the labels look wrong, at most {high} %."
    return Verdict(
        kind=kind,
        lower=lower,
        upper=stated,
        disagreement=best,
        sentence=sentence,
        explanation=_WHY,
        models=kinds,
    )
