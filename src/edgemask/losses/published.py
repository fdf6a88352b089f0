"""Published settings of the losses, as tables: one TOML file per source in ``settings/``.

A file holds the arguments of each loss by dataset (``losses``), the optimisation settings by
dataset (``training``) and the penalties of some losses (``penalties``). A dataset may name the kind
of noise (``cifar10/asymmetric``) where the source distinguishes them.
"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from typing import Any, Literal

__all__ = ["SOURCES", "Noise", "Preset", "row", "tables", "training"]

Noise = Literal["symmetric", "asymmetric"]

SOURCES = ("jal", "anl", "apl", "alf", "elr", "sop")
"""Repositories whose settings are known, the default first."""


@dataclass(frozen=True, kw_only=True)
class Preset:
    """Hyper-parameters of a loss and the training settings that they were published with.

    A setting that the source does not state is None.
    """

    loss: str
    """Name of the loss."""
    dataset: str | None
    """The requested dataset."""
    published_for: str | None
    """The dataset whose numbers these are; None where the loss has no published numbers."""
    params: Mapping[str, float] = field(default_factory=dict)
    """Arguments of the loss."""
    source: str
    """Where the numbers come from, in words, with address and commit."""
    url: str | None = None
    """Address of the source."""
    commit: str | None = None
    """Commit of the source."""
    optimiser: str | None = None
    """Name of the optimiser."""
    lr: float | None = None
    """Learning rate at the start."""
    momentum: float | None = None
    """Momentum of the optimiser."""
    nesterov: bool = False
    """Whether the momentum is Nesterov's."""
    weight_decay: float | None = None
    """L2 penalty, as weight decay of the optimiser."""
    l1: float = 0.0
    """L1 penalty: this times Σ|w| over all parameters is added to the loss before backward."""
    epochs: int | None = None
    """Number of epochs."""
    batch_size: int | None = None
    """Samples per step, over all devices."""
    grad_clip: float | None = None
    """Largest norm of the whole gradient, the L1 penalty's part included."""
    schedule: str | None = None
    """Learning-rate schedule: cosine, cosine-restarts, step or milestones; stepped every epoch."""
    min_lr: float | None = None
    """Learning rate at the end of a cosine."""
    step_size: int | None = None
    """Epochs between two steps, or between two restarts."""
    gamma: float | None = None
    """Factor of the learning rate at a step or milestone."""
    milestones: tuple[int, ...] = ()
    """Epochs at which the learning rate falls."""

    @property
    def published(self) -> bool:
        """Whether the numbers were published for exactly the requested dataset."""
        return self.published_for is not None and self.published_for == self.dataset


@functools.cache
def tables(source: str) -> dict[str, Any]:
    """Return the file of a source; not to be modified."""
    path = resources.files("edgemask.losses") / "settings" / f"{source}.toml"
    return tomllib.loads(path.read_text(encoding="utf-8"))


def row(rows: Mapping[str, Any], dataset: str, noise: Noise) -> Mapping[str, Any] | None:
    """Return a dataset's row, that for the kind of noise if there is one."""
    found: Mapping[str, Any] | None = rows.get(f"{dataset}/{noise}", rows.get(dataset))
    return found


def training(loss: str, source: str, dataset: str, noise: Noise) -> dict[str, Any]:
    """Return the optimisation settings of a loss as fields of :class:`Preset`."""
    file = tables(source)
    settings = dict(row(file["training"], dataset, noise) or {})
    for penalty in file.get("penalties", ()):
        if loss in penalty["losses"]:
            settings |= row(penalty, dataset, noise) or {}
    if "milestones" in settings:
        settings["milestones"] = tuple(settings["milestones"])
    return settings
