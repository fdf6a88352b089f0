"""What a person has to know to read the numbers of a run: signs that it went wrong."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping

import numpy as np

from edgemask.engine.evaluation import Evaluation
from edgemask.engine.run_data import RunData
from edgemask.errors import EdgeMaskWarning

__all__ = ["EPOCHS_AT_CHANCE", "ChanceWatch", "learning_remarks", "run_remarks"]

EPOCHS_AT_CHANCE = 5
"""A model that stays at chance for so many epochs is warned of while it trains."""

_FEW = 20
_HARDLY = 0.01
# docs/defaults.md: with 100 and 1,000 classes and 3 to 12 % of the edges, 7 to 30 points were lost.
_MANY_CLASSES, _FEW_EDGES = 100, 0.12


class ChanceWatch:
    """Warns once, during a run, of a model that has stayed at chance for some epochs.

    Args:
        advice: What to try instead, for the message.
    """

    def __init__(self, advice: str):
        self._advice = advice
        self._since: int | None = None
        self._warned = False

    def check(self, epoch: int, evaluations: Mapping[str, Evaluation]) -> None:
        """Look at the evaluations of an epoch, by the name of their samples.

        The model is at chance where each of them is. Those of few samples do not count, and an
        epoch without any changes nothing.

        Warns:
            EdgeMaskWarning: If this is the last of EPOCHS_AT_CHANCE epochs at chance.
        """
        found = [_chance(name, each) for name, each in evaluations.items() if _can_tell(each)]
        if not found:
            return
        if None in found:
            self._since = None
            return
        self._since = epoch if self._since is None else self._since
        count = epoch - self._since + 1
        if count >= EPOCHS_AT_CHANCE and not self._warned:
            self._warned = True
            warnings.warn(
                f"for {count} epochs the model has been at chance: it {found[-1]}; stop it and try "
                f"{self._advice}",
                EdgeMaskWarning,
                stacklevel=2,
            )


def run_remarks(data: RunData, train: Evaluation, retention: float | None = None) -> list[str]:
    """Return a sentence for each sign that the model or its numbers are not what they seem.

    Args:
        data: Data and labels of the run.
        train: The last epoch's model on the training samples and their given labels.
        retention: Share of edges that the head kept in the last step, if it masks them.
    """
    return [*learning_remarks(data, train, retention), *_noisy_test(data)]


def learning_remarks(data: RunData, train: Evaluation, retention: float | None = None) -> list[str]:
    """Return a sentence for each sign that the model has not learnt what it should have."""
    return [*_lost_classes(data, train), *_at_chance(train), *_few_edges(data, retention)]


def _few_edges(data: RunData, retention: float | None) -> list[str]:
    """Say where a mask keeps few edges of many classes, which cost accuracy in all our runs."""
    classes = data.bundle.num_classes
    if retention is None or retention >= _FEW_EDGES or classes < _MANY_CLASSES:
        return []
    share = f"{100 * retention:.1f} % of its edges"
    return [
        (
            f"the head kept {share} in the last step, which is too few to learn {classes:,} "
            "classes well; try a lower rho, head adaptive or head linear"
        )
    ]


def _lost_classes(data: RunData, train: Evaluation) -> list[str]:
    """Name classes that are given often and (nearly) never predicted."""
    classes = data.bundle.num_classes
    given = np.bincount(train.labels, minlength=classes)
    predicted = np.bincount(train.predicted, minlength=classes)
    often = given >= max(_FEW, 0.25 * len(train.labels) / classes)
    lost = np.flatnonzero(often & (predicted <= _HARDLY * given))
    return [
        f"the class {data.bundle.class_names[label]!r} is given to {given[label]:,} training "
        f"samples and predicted for {predicted[label]:,} of them: the model has lost it; try loss "
        "ce, a larger learning rate or more epochs"
        for label in lost[:5]
    ]


def _at_chance(train: Evaluation) -> list[str]:
    """Say where the model agrees with the labels no more often than a constant prediction would."""
    found = _chance("training", train) if _can_tell(train) else None
    if found is None:
        return []
    advice = "try another learning rate or more epochs"
    return [f"the loss has stayed at chance: the model {found}; {advice}"]


def _can_tell(evaluation: Evaluation) -> bool:
    """Return whether there are enough samples, of two classes at least, to compare with chance."""
    labels = evaluation.labels
    return len(labels) >= _FEW and bool((labels != labels[0]).any())


def _chance(name: str, evaluation: Evaluation) -> str | None:
    """Compare a model with a constant prediction, with two standard errors of tolerance.

    Returns:
        Its agreement with the labels in words, or None if it is above chance.
    """
    count = len(evaluation.labels)
    commonest = float(np.bincount(evaluation.labels).max() / count)
    agreement = float((evaluation.predicted == evaluation.labels).mean())
    bound = commonest + 2 * math.sqrt(commonest * (1 - commonest) / count)
    if agreement > bound:
        return None
    return (
        f"agrees with {100 * agreement:.0f} % of the {name} labels, and the most frequent one "
        f"alone is {100 * commonest:.0f} %"
    )


def _noisy_test(data: RunData) -> list[str]:
    if data.bundle.clean_test:
        return []
    return [
        (
            "the test samples were held out of the same data: their labels are as noisy, and the "
            "accuracy is measured against them"
        )
    ]
