"""The embedded digits: minutes on a laptop, to see the mechanism and to try things out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from edgemask.engine.recipes.base import Recipe, Setting

__all__ = ["recipes"]

_SOURCE = "EdgeMask: chosen on plain CE"
_SETTINGS: dict[str, Any] = {
    "data.spec": "digits",
    "noise.spec": "sym:0.6",
    "noise.protocol": "paper",
    "model.name": "small-cnn",
    "optim.name": "sgd",
    "optim.lr": 0.01,
    "optim.momentum": 0.9,
    "optim.schedule.name": "constant",
    "train.epochs": 60,
    "train.batch_size": 32,
}


def recipes() -> Iterator[Recipe]:
    """Make the recipes: CE, ANL and JAL, plain and with the SEM head."""
    for loss in ("ce", "anl", "jal"):
        settings = {key: Setting(value, _SOURCE) for key, value in _SETTINGS.items()}
        settings["loss.name"] = Setting(loss, _SOURCE)
        summary = f"{loss.upper()} on the embedded digits with 60 % symmetric noise"
        plain = Recipe(name=f"digits/{loss}", summary=summary, settings=settings)
        yield plain
        yield plain.but(
            name=f"digits/{loss}-sem",
            summary=f"{summary}, with the SEM head",
            settings={"head.name": Setting("sem", _SOURCE)},
        )
