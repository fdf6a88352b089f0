"""The tables and figures of the paper, and the controls that it lacks, one family a file.

A new experiment is one entry of a file's ``experiments()``; a new family one line here.
"""

from __future__ import annotations

from edgemask._registry import Registry
from edgemask.reproduce.paper import (
    ablations,
    controls,
    figures,
    overhead,
    real_world,
    regularisers,
    robust_losses,
    selection,
)
from edgemask.reproduce.spec import Experiment

__all__ = ["EXPERIMENTS"]

_FAMILIES = (
    robust_losses.experiments,
    selection.experiments,
    regularisers.experiments,
    real_world.experiments,
    ablations.experiments,
    overhead.experiments,
    figures.experiments,
    controls.experiments,
)


def _order(name: str) -> tuple[int, int]:
    kinds = ("table", "tables", "figure", "figures", "controls")
    kind = name.rstrip("0123456789")
    return kinds.index(kind), int(name[len(kind) :] or 0)


EXPERIMENTS: Registry[Experiment] = Registry(
    "experiment",
    {
        experiment.name: experiment
        for experiment in sorted(
            (found for family in _FAMILIES for found in family()), key=lambda e: _order(e.name)
        )
    },
)
