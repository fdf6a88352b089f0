"""What a person gets who names no head, loss or method; docs/defaults.md says how it was chosen."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from edgemask.engine.config import Config, merge, to_dict
from edgemask.engine.resolve import resolve
from edgemask.engine.run_data import Objects, load_data
from edgemask.errors import EdgeMaskWarning

__all__ = ["DEFAULT_TRAINING", "choose_training", "says_nothing"]

DEFAULT_TRAINING: dict[str, Any] = {
    "head": {"name": "linear"},
    "loss": {
        "name": "elr",
        "preset": None,
        "options": {"beta": 0.7, "lam": 5.0, "align": 5.0, "full_at": 0.1},
    },
}
_MOST_TARGETS = 2**28  # numbers, 1 GB: the loss keeps one per sample and class


def says_nothing(recipe: str | None, values: Mapping[str, Any]) -> bool:
    """Return whether settings leave open what a network is trained with; ``head.at`` may be said.

    Example:
        >>> says_nothing(None, {"train": {"epochs": 3}, "head": {"at": "fc"}})
        True
        >>> says_nothing(None, {"loss": {"name": "ce"}})
        False
    """
    said = {key for part in ("head", "loss", "method") for key in values.get(part) or {}}
    return recipe is None and said <= {"at"}


def choose_training(config: Config, objects: Objects) -> tuple[Config, Objects]:
    """Put the default into a config that names no head, loss or method."""
    bundle = objects.bundle or load_data(config.data)
    objects = replace(objects, bundle=bundle)
    samples, classes = len(bundle.train), bundle.num_classes
    if samples * classes > _MOST_TARGETS:
        warnings.warn(
            f"the default loss would keep a number for each of {samples:,} samples and {classes:,} "
            "classes, which is too much: plain cross entropy is used; loss= names another one",
            EdgeMaskWarning,
            stacklevel=2,
        )
        return config, objects
    return resolve(merge(to_dict(config), DEFAULT_TRAINING), objects=objects), objects
