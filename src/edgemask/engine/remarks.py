"""What a person has to know to read the numbers of a run: signs that it went wrong."""

from __future__ import annotations

import math

import numpy as np

from edgemask.engine.evaluation import Evaluation
from edgemask.engine.run_data import RunData

__all__ = ["learning_remarks", "run_remarks"]

_FEW = 20
_HARDLY = 0.01


def run_remarks(data: RunData, train: Evaluation) -> list[str]:
    """Return a sentence for each sign that the model or its numbers are not what they seem.

    Args:
        data: Data and labels of the run.
        train: The last epoch's model on the training samples and their given labels.
    """
    return [*learning_remarks(data, train), *_noisy_test(data)]


def learning_remarks(data: RunData, train: Evaluation) -> list[str]:
    """Return a sentence for each sign that the model has not learnt what it should have."""
    return [*_lost_classes(data, train), *_at_chance(data, train)]


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


def _at_chance(data: RunData, train: Evaluation) -> list[str]:
    """Say where the model agrees with the labels no more often than a constant answer would."""
    count = len(train.labels)
    commonest = float(np.bincount(train.labels).max() / count)
    agreement = float((train.predicted == train.labels).mean())
    chance = commonest + 2 * math.sqrt(commonest * (1 - commonest) / count)
    if count < _FEW or commonest == 1 or agreement > chance:
        return []
    return [
        (
            f"the loss has stayed at chance: the model agrees with {100 * agreement:.0f} % of the "
            f"training labels, and the most frequent one alone is {100 * commonest:.0f} %; try "
            "another learning rate or more epochs"
        )
    ]


def _noisy_test(data: RunData) -> list[str]:
    if data.bundle.clean_test:
        return []
    return [
        (
            "the test samples were held out of the same data: their labels are as noisy, and the "
            "accuracy is measured against them"
        )
    ]
