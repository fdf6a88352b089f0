"""Ways to learn from partly wrong labels, all on one loop."""

from __future__ import annotations

from edgemask._registry import Registry
from edgemask.methods.base import (
    Clock,
    Ensemble,
    Feed,
    Method,
    Phase,
    Role,
    Scorer,
    StepResult,
    Task,
)
from edgemask.methods.ca2c import CA2C
from edgemask.methods.cdr import CDR
from edgemask.methods.clipcleaner import CLIPCleaner
from edgemask.methods.coteaching import CoTeaching
from edgemask.methods.disc import DISC
from edgemask.methods.dividemix import DivideMix
from edgemask.methods.elr import ELR
from edgemask.methods.elr_plus import ELRPlus
from edgemask.methods.jocor import JoCoR
from edgemask.methods.josnc import JoSNC
from edgemask.methods.josrc import JoSRC
from edgemask.methods.neighborhood import NeighborhoodCollectiveEstimation
from edgemask.methods.promix import ProMix
from edgemask.methods.sop import SOP
from edgemask.methods.ssr import SSR
from edgemask.methods.supervised import Supervised
from edgemask.methods.unicon import UNICON

__all__ = [
    "CA2C",
    "CDR",
    "DISC",
    "ELR",
    "METHODS",
    "SOP",
    "SSR",
    "UNICON",
    "CLIPCleaner",
    "Clock",
    "CoTeaching",
    "DivideMix",
    "ELRPlus",
    "Ensemble",
    "Feed",
    "JoCoR",
    "JoSNC",
    "JoSRC",
    "Method",
    "NeighborhoodCollectiveEstimation",
    "Phase",
    "ProMix",
    "Role",
    "Scorer",
    "StepResult",
    "Supervised",
    "Task",
]

METHODS: Registry[type[Method]] = Registry(
    "method",
    {
        "supervised": Supervised,
        "cdr": CDR,
        "elr": ELR,
        "elr-plus": ELRPlus,
        "sop": SOP,
        "co-teaching": CoTeaching,
        "jocor": JoCoR,
        "ca2c": CA2C,
        "jo-src": JoSRC,
        "jo-snc": JoSNC,
        "dividemix": DivideMix,
        "unicon": UNICON,
        "ssr": SSR,
        "neighborhood-collective-estimation": NeighborhoodCollectiveEstimation,
        "promix": ProMix,
        "disc": DISC,
        "clipcleaner": CLIPCleaner,
    },
)
