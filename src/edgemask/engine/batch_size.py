"""The batch size where none is named: small for few samples, so that an epoch has enough steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from edgemask.engine.config import Config, TrainConfig
from edgemask.engine.run_data import Objects, load_data

__all__ = ["batch_size_for", "choose_batch_size", "names_batch_size"]


def batch_size_for(samples: int) -> int:
    """Return 32 below 2,000 samples, 64 below 10,000, and 128 from there on.

    Example:
        >>> [batch_size_for(samples) for samples in (600, 5_000, 50_000)]
        [32, 64, 128]
    """
    return 128 if samples >= 10_000 else 64 if samples >= 2_000 else 32


def names_batch_size(recipe: str | None, values: Mapping[str, Any]) -> bool:
    """Return whether the batch size is given, or left to a recipe.

    Example:
        >>> names_batch_size(None, {"train": {"epochs": 3}}), names_batch_size("digits/ce", {})
        (False, True)
    """
    return recipe is not None or "batch_size" in (values.get("train") or {})


def choose_batch_size(config: Config, objects: Objects) -> tuple[Config, Objects]:
    """Put the batch size for the number of samples into a config that names none."""
    bundle = objects.bundle or load_data(config.data)
    objects = replace(objects, bundle=bundle)
    samples = min(len(bundle.train), config.data.limit or len(bundle.train))
    train: TrainConfig = config.train.model_copy(update={"batch_size": batch_size_for(samples)})
    return config.model_copy(update={"train": train}), objects
