"""EdgeMask trains classifiers on data whose labels are partly wrong.

Rooms are imported when they are first used, so that ``import edgemask`` costs nothing and needs
nothing but torch and numpy:

>>> import edgemask as em
>>> layer = em.SEMLinear(512, 10)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from edgemask import _compat

if TYPE_CHECKING:
    from edgemask import data as data
    from edgemask import diagnostics as diagnostics
    from edgemask import engine as engine
    from edgemask import heads as heads
    from edgemask import losses as losses
    from edgemask import methods as methods
    from edgemask import models as models
    from edgemask import noise as noise
    from edgemask import report as report
    from edgemask import reproduce as reproduce
    from edgemask.engine import fit as fit
    from edgemask.heads import KANLinear as KANLinear
    from edgemask.heads import SEMLinear as SEMLinear
    from edgemask.heads import SKANLinear as SKANLinear
    from edgemask.heads import attach as attach
    from edgemask.heads import detach as detach
    from edgemask.heads import one_step as one_step
    from edgemask.heads import predicting as predicting

__version__ = "0.1.0"

_ROOMS = frozenset(
    {
        "data",
        "diagnostics",
        "engine",
        "heads",
        "losses",
        "methods",
        "models",
        "noise",
        "report",
        "reproduce",
    }
)
_NAMES = {
    "KANLinear": "heads",
    "SEMLinear": "heads",
    "SKANLinear": "heads",
    "attach": "heads",
    "detach": "heads",
    "fit": "engine",
    "one_step": "heads",
    "predicting": "heads",
}

__all__ = ["__version__", *sorted(_ROOMS), *sorted(_NAMES)]  # noqa: PLE0604

_compat.install()


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return import_module(f"edgemask.{name}")
    if name in _NAMES:
        return getattr(import_module(f"edgemask.{_NAMES[name]}"), name)
    raise AttributeError(f"module 'edgemask' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
