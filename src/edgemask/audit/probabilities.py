"""An audit from out-of-sample probabilities of one or several models."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from edgemask.audit.confident_learning import check_probabilities, joint_of_chunks, transition_of
from edgemask.audit.label_audit import LabelAudit
from edgemask.audit.verdict import judge_share, model_evidence
from edgemask.errors import UserError
from edgemask.noise._checks import Int64

__all__ = ["from_probabilities", "prune_by_noise_rate", "rank_samples"]

Floats = NDArray[np.float64]

_CHUNK = 1 << 22
_SURE_MARGIN = 0.5
_LEAST = 1e-9  # a probability of zero has no logarithm


def from_probabilities(
    labels: ArrayLike,
    probs: Any,
    *,
    ids: Sequence[str] | None = None,
    class_names: Sequence[str] | None = None,
    kinds: Sequence[str] | None = None,
    chance_driven: bool = False,
    out_of_sample: Sequence[bool] | None = None,
    source: str = "probabilities",
    seed: int = 0,
) -> LabelAudit:
    """Audit given labels by probabilities from models that were not trained on those samples.

    Samples are ranked by the class-adjusted margin of the averaged probabilities: with
    ``a_k = P_k / t_k``, where ``t_k`` is the mean probability of k over the samples labelled k, the
    score is ``max over k != y of log(a_k / a_y)``. Trust is ``a_y / (a_y + a_k)``. Models that have
    not seen the labels count in the average by the square of how much more often they agree with
    the given labels than the commonest label does. Worth checking are those samples that pruning by
    noise rate chooses from the confident joint. Memory beyond the arguments is linear in the
    samples.

    Args:
        labels: The given labels: class numbers (the columns), or names.
        probs: Probability of each class for each sample, ``(N, K)``; or a list of such matrices,
            one per model. Columns are in the order of the class numbers or sorted names.
        ids: What to call each sample; its row otherwise.
        class_names: One name per column.
        kinds: The kind of each model (``"forest"``, ``"network"``). What is said of the share of
            wrong labels rests on how many different kinds there are; all differ by default.
        chance_driven: Whether outcomes depend on chance (forecasts, prognoses); nothing is then
            said of the least share of wrong labels.
        out_of_sample: Whether each model has not seen the labels; all have not by default. One that
            has helps to rank samples, but not to say how many are worth checking.
        source: What the audit says of where trust comes from.
        seed: Breaks ties between samples that nothing tells apart.

    Reference:
        Northcutt et al., "Confident learning", JAIR 2021; Kuan and Mueller, "Model-agnostic label
        quality scoring to detect real-world label errors", ICML workshop 2022.

    Example:
        >>> probs = [[0.9, 0.1], [0.8, 0.2], [0.1, 0.9], [0.2, 0.8], [0.95, 0.05], [0.15, 0.85]]
        >>> audit = from_probabilities(["cat", "cat", "dog", "dog", "dog", "dog"], probs)
        >>> audit.suspects[["rank", "id", "given", "suggested"]].values.tolist()
        [[1, '4', 'dog', 'cat']]
    """
    matrices = _matrices(probs)
    samples, classes = matrices[0].shape
    given, names = encode_labels(labels, classes, class_names)
    if len(given) != samples:
        raise UserError(f"probs has {samples} rows, but there are {len(given)} labels")
    if kinds is not None and len(kinds) != len(matrices):
        raise UserError(f"kinds names {len(kinds)} models, and probs has {len(matrices)}")
    if out_of_sample is not None and len(out_of_sample) != len(matrices):
        raise UserError(f"{len(out_of_sample)} values of out_of_sample for {len(matrices)} models")
    if ids is not None and len(ids) != samples:
        raise UserError(f"{len(ids)} ids for {samples} samples")
    evidence = []
    for number, matrix in enumerate(matrices):
        predicted, confidence = np.empty(samples, dtype=np.int64), np.empty(samples)
        for rows in _chunks(samples, classes):
            part = check_probabilities(matrix[rows], rows.start, f"probs[{number}]")
            predicted[rows], confidence[rows] = part.argmax(axis=1), part.max(axis=1)
        evidence.append(model_evidence(given, predicted, confidence))
    counts = np.bincount(given, minlength=classes)
    commonest = float(counts.max() / samples)
    unseen = [True] * len(matrices) if out_of_sample is None else list(out_of_sample)
    weights = [_weight(model.disagreement, commonest) for model in evidence]
    # How often a model agrees with labels that it has seen says nothing about it.
    averaged = _Average(matrices, weights if all(unseen) else [1.0] * len(matrices))
    joint, threshold = joint_of_chunks(averaged.chunks, given, classes)
    judged = scores = _Scores(averaged, given, np.where(counts > 0, threshold, 1.0))
    if any(unseen) and not all(unseen):
        judges = [number for number, judge in enumerate(unseen) if judge]
        alone = _Average([matrices[n] for n in judges], [weights[n] for n in judges])
        joint, threshold = joint_of_chunks(alone.chunks, given, classes)
        judged = _Scores(alone, given, np.where(counts > 0, threshold, 1.0))
    order = rank_samples([scores.margin, -scores.own, scores.best], seed=seed)
    listed = prune_by_noise_rate(averaged, given, joint, order)
    listed &= judged.predicted != given
    # A sample on the list gets a label to check against, also where the adjusted margin favours
    # the given one.
    adjusted = np.where(scores.margin > 0, scores.suggested, given)
    suggested = np.where(listed & (adjusted == given), judged.predicted, adjusted)
    return LabelAudit(
        ids=[str(row) for row in range(samples)] if ids is None else [str(i) for i in ids],
        given=given,
        suggested=suggested,
        trust=1.0 / (1.0 + np.exp(scores.margin)),
        trust_is_probability=False,
        listed=listed,
        reason=_reasons(scores, judged, given),
        order=order,
        rate=judge_share(
            evidence,
            commonest=commonest,
            kinds=len(set(kinds)) if kinds is not None else None,
            chance_driven=chance_driven,
        ),
        transition_matrix=transition_of(joint),
        class_names=names,
        source=source,
        doubt=judged.best / np.maximum(judged.best + judged.own, 1e-12),
    )


def encode_labels(
    labels: ArrayLike, classes: int, class_names: Sequence[str] | None
) -> tuple[Int64, list[str]]:
    """Return labels as class numbers, and the names of the classes.

    Whole numbers below ``classes`` are class numbers. Others (names, numbers from 1) are matched
    with ``class_names``, or sorted if there are as many different ones as classes.
    """
    array = np.asarray(labels)
    if array.ndim != 1 or not array.size:
        raise UserError(f"labels must be one value per sample, got the shape {array.shape}")
    if class_names is not None and len(class_names) != classes:
        raise UserError(f"{len(class_names)} class names for {classes} columns of probabilities")
    if array.dtype.kind == "f" and np.isfinite(array).all() and (array == array.round()).all():
        array = array.astype(np.int64)
    if array.dtype.kind in "iub" and array.min() >= 0 and array.max() < classes:
        names = [str(k) for k in range(classes)] if class_names is None else class_names
        return array.astype(np.int64), [str(name) for name in names]
    if array.dtype.kind not in "iubUSO":
        raise UserError(f"labels must be class numbers or names, got values of type {array.dtype}")
    texts = array.astype(np.str_)
    if class_names is None:
        found = np.unique(array) if array.dtype.kind != "O" else np.unique(texts)
        if len(found) != classes:
            raise UserError(
                f"labels have {len(found)} different values and probs has {classes} columns; name "
                "the columns with class_names"
            )
        class_names = [str(value) for value in found]
    places = {str(name): number for number, name in enumerate(class_names)}
    unknown = sorted(set(texts.tolist()) - places.keys())
    if unknown:
        raise UserError(f"label {unknown[0]!r} is not among the class names {list(places)[:10]}")
    values, inverse = np.unique(texts, return_inverse=True)
    numbers = np.array([places[str(value)] for value in values], dtype=np.int64)
    return numbers[inverse], list(places)


def rank_samples(scores: Sequence[NDArray[Any]], *, seed: int = 0) -> Int64:
    """Return positions by decreasing score; later scores break ties, then chance, never position.

    Example:
        >>> rank_samples([np.array([0.1, 0.9, 0.9]), np.array([0.0, 0.3, 0.4])]).tolist()
        [2, 1, 0]
    """
    shuffled = np.random.default_rng(seed).permutation(len(scores[0]))
    keys = [-np.asarray(score, dtype=np.float64)[shuffled] for score in reversed(scores)]
    return shuffled[np.lexsort(keys)]


def prune_by_noise_rate(averaged: Any, given: Int64, joint: Floats, order: Int64) -> NDArray[Any]:
    """Return which samples pruning by noise rate chooses.

    For each pair of classes i != j these are the ``joint[i, j]`` samples labelled i with the
    largest ``P_j - P_i``; ties are broken by rank.

    Args:
        averaged: Averaged probabilities, indexed by rows.
        given: The given labels.
        joint: The calibrated confident joint.
        order: All positions, the most suspicious first.

    Reference:
        Northcutt et al., "Confident learning", JAIR 2021, section 3.2.
    """
    counts = _round_rows(joint)
    listed = np.zeros(len(given), dtype=bool)
    by_class = order[np.argsort(given[order], kind="stable")]
    ends = np.cumsum(np.bincount(given, minlength=len(joint)))
    for label, end in enumerate(ends):
        members = by_class[(ends[label - 1] if label else 0) : end]
        wanted = [k for k in np.flatnonzero(counts[label]) if k != label]
        if len(members) <= 1 or not wanted:
            continue
        probs = averaged[members]
        for other in wanted:
            margin = probs[:, other] - probs[:, label]
            number = min(int(counts[label, other]), len(members) - 1)
            least = np.partition(margin, len(margin) - number)[len(margin) - number]
            above = margin > least
            tied = np.flatnonzero(margin == least)[: number - int(above.sum())]
            listed[members[above]] = True
            listed[members[tied]] = True
    return listed


def _round_rows(joint: Floats) -> Int64:
    """Round counts to whole numbers; each row keeps its sum, by largest remainders."""
    whole = np.round(joint).astype(np.int64)
    for row, floats in zip(whole, joint, strict=True):
        missing = round(float(floats.sum())) - int(row.sum())
        nearest = np.argsort(floats - row)
        chosen = nearest[::-1][:missing] if missing > 0 else nearest[: -missing or 0]
        row[chosen] += np.sign(missing)
    return whole


def _weight(disagreement: float, commonest: float) -> float:
    """Return the weight of a model in the average; a model as good as none has next to none."""
    return max(1.0 - disagreement - commonest, 1e-3) ** 2


class _Average:
    """The weighted mean of several matrices, computed for the rows that are asked for."""

    def __init__(self, matrices: Sequence[NDArray[Any]], weights: Sequence[float]):
        self._matrices = matrices
        self._shares = [weight / sum(weights) for weight in weights]

    def __getitem__(self, rows: Any) -> Floats:
        total: Floats = self._shares[0] * self._matrices[0][rows].astype(np.float64)
        for share, matrix in zip(self._shares[1:], self._matrices[1:], strict=True):
            total += share * matrix[rows].astype(np.float64)
        return total

    def chunks(self) -> Iterator[tuple[slice, Floats]]:
        """Yield slices of rows and their averages."""
        for rows in _chunks(*self._matrices[0].shape):
            yield rows, self[rows]


class _Scores:
    """What ranking, trust and reasons need of each sample."""

    def __init__(self, averaged: _Average, given: Int64, threshold: Floats):
        count = len(given)
        self.margin, self.own, self.best = np.empty(count), np.empty(count), np.empty(count)
        self.suggested = np.empty(count, dtype=np.int64)
        self.predicted = np.empty(count, dtype=np.int64)
        for rows, probs in averaged.chunks():
            place, label = np.arange(len(probs)), given[rows]
            self.own[rows] = probs[place, label]
            self.predicted[rows] = probs.argmax(axis=1)
            adjusted = np.log(np.maximum(probs, _LEAST) / threshold)
            mine = adjusted[place, label]
            adjusted[place, label] = -np.inf
            other = adjusted.argmax(axis=1)
            self.suggested[rows] = other
            self.margin[rows] = adjusted[place, other] - mine
            probs[place, label] = -np.inf
            self.best[rows] = probs.max(axis=1)


def _reasons(scores: _Scores, judged: _Scores, given: Int64) -> list[str]:
    words = (
        "the given label is likeliest",
        "less likely than usual for this label",
        "another label is likelier",
        "another label is far likelier",
    )
    code = (scores.margin > 0).astype(np.int64)
    code[judged.predicted != given] = 2
    code[judged.best - judged.own > _SURE_MARGIN] = 3
    return [words[number] for number in code.tolist()]


def _chunks(samples: int, classes: int) -> Iterator[slice]:
    """Yield slices of rows that hold about four million numbers each."""
    step = max(1, _CHUNK // classes)
    for start in range(0, samples, step):
        yield slice(start, min(start + step, samples))


def _matrices(probs: Any) -> list[NDArray[Any]]:
    """Return one matrix per model; lists of lists of lists are several, too."""
    several = isinstance(probs, list | tuple) and bool(probs) and np.ndim(probs[0]) == 2
    found = [_numbers(matrix) for matrix in (probs if several else [probs])]
    for matrix in found:
        if matrix.ndim != 2 or matrix.shape[1] < 2:
            raise UserError(f"probs must be (samples, classes), got the shape {matrix.shape}")
        if matrix.shape != found[0].shape:
            raise UserError(
                f"all models need probabilities of one shape, got {found[0].shape} and "
                f"{matrix.shape}"
            )
    return found


def _numbers(matrix: Any) -> NDArray[Any]:
    if hasattr(matrix, "detach"):
        matrix = matrix.detach().cpu().numpy()
    array = np.asarray(matrix)
    return array if array.dtype.kind == "f" else array.astype(np.float64)
