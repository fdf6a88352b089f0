"""Ways to learn from partly wrong labels, all on one loop."""

from __future__ import annotations

from edgemask._registry import Registry
from edgemask.methods.base import Clock, Ensemble, Feed, Method, Phase, Role, Scorer, Step, Task
from edgemask.methods.supervised import Supervised

__all__ = [
    "METHODS",
    "Clock",
    "Ensemble",
    "Feed",
    "Method",
    "Phase",
    "Role",
    "Scorer",
    "Step",
    "Supervised",
    "Task",
]

METHODS: Registry[type[Method]] = Registry("method", {"supervised": Supervised})
