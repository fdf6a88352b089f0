"""EdgeMask trains classifiers on data whose labels are partly wrong.

Subpackages are imported when they are first used, so that ``import edgemask`` is fast and needs
torch and numpy only:

>>> import edgemask as em
>>> layer = em.SEMLinear(512, 10)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from edgemask import _compat
from edgemask.errors import UserError, unknown_name

if TYPE_CHECKING:
    from edgemask import audit as audit
    from edgemask import data as data
    from edgemask import diagnostics as diagnostics
    from edgemask import engine as engine
    from edgemask import heads as heads
    from edgemask import integrations as integrations
    from edgemask import losses as losses
    from edgemask import methods as methods
    from edgemask import models as models
    from edgemask import noise as noise
    from edgemask import report as report
    from edgemask import reproduce as reproduce
    from edgemask.engine import audit_labels as audit_labels
    from edgemask.engine.fit import fit as fit
    from edgemask.heads import KANLinear as KANLinear
    from edgemask.heads import SEMLinear as SEMLinear
    from edgemask.heads import SKANLinear as SKANLinear
    from edgemask.heads import attach as attach
    from edgemask.heads import detach as detach
    from edgemask.heads import observe as observe
    from edgemask.heads import one_step as one_step
    from edgemask.heads import plain_state_dict as plain_state_dict
    from edgemask.heads import predicting as predicting
    from edgemask.report import load_runs as load_runs

__version__ = "0.2.0"

_SUBPACKAGES = frozenset(
    {
        "audit",
        "data",
        "diagnostics",
        "engine",
        "heads",
        "integrations",
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
    "audit_labels": "engine",
    "detach": "heads",
    "fit": "engine",
    "load_runs": "report",
    "observe": "heads",
    "one_step": "heads",
    "plain_state_dict": "heads",
    "predicting": "heads",
}

# What can be registered: the subpackage and the variable that holds the registry.
_REGISTRIES = {
    "dataset": ("data", "DATASETS"),
    "head": ("heads", "HEADS"),
    "loss": ("losses", "LOSSES"),
    "method": ("methods", "METHODS"),
    "model": ("models", "MODELS"),
    "noise": ("noise", "NOISE"),
}

__all__ = ["__version__", "register", *sorted(_SUBPACKAGES), *sorted(_NAMES)]  # noqa: PLE0604

_compat.install()


def register(kind: str, name: str, thing: Any) -> None:
    """Give a loss, head, method, model, dataset or noise of your own a name.

    Afterwards the name works wherever a built-in one does: in :func:`fit`, in configs, and on the
    command line with ``--import MODULE``, where the module makes this call. An installed package
    can name its things in entry points instead (group ``edgemask.loss``, ``edgemask.head`` ...).

    Args:
        kind: ``"loss"``, ``"head"``, ``"method"``, ``"model"``, ``"dataset"`` or ``"noise"``.
        name: The name; words are joined by hyphens.
        thing: The class or function; the same signature as the built-in ones of its kind.

    Example:
        In a module ``my_losses`` that you import, or name in ``--import my_losses``::

            class HalfCE(em.losses.CELoss):
                "Half the cross entropy."

            em.register("loss", "half-ce", HalfCE)
    """
    if kind not in _REGISTRIES:
        raise unknown_name("kind of entry", kind, _REGISTRIES)
    subpackage, variable = _REGISTRIES[kind]
    if not callable(thing):
        raise UserError(f"register: a {kind} must be a class or a function, got {thing!r}")
    getattr(import_module(f"edgemask.{subpackage}"), variable).register(name, thing)


def __getattr__(name: str) -> Any:
    if name in _SUBPACKAGES:
        return import_module(f"edgemask.{name}")
    if name in _NAMES:
        return getattr(import_module(f"edgemask.{_NAMES[name]}"), name)
    raise AttributeError(f"module 'edgemask' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
