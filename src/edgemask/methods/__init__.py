"""Ways to learn from partly wrong labels, all on one loop."""

from __future__ import annotations

from edgemask._registry import Registry
from edgemask.methods.base import Clock, Feed, Method, Phase, Role, Scorer, Step, Task
from edgemask.methods.ca2c import CA2C
from edgemask.methods.coteaching import CoTeaching
from edgemask.methods.jocor import JoCoR
from edgemask.methods.josnc import JoSNC
from edgemask.methods.josrc import JoSRC
from edgemask.methods.supervised import Supervised

__all__ = [
    "CA2C",
    "METHODS",
    "Clock",
    "CoTeaching",
    "Feed",
    "JoCoR",
    "JoSNC",
    "JoSRC",
    "Method",
    "Phase",
    "Role",
    "Scorer",
    "Step",
    "Supervised",
    "Task",
]

METHODS: Registry[type[Method]] = Registry(
    "method",
    {
        "supervised": Supervised,
        "coteaching": CoTeaching,
        "jocor": JoCoR,
        "ca2c": CA2C,
        "josrc": JoSRC,
        "josnc": JoSNC,
    },
)
