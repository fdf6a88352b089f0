"""Losses by name."""

from __future__ import annotations

import inspect
from typing import Any

from edgemask.errors import UserError
from edgemask.losses.base import Loss

__all__ = ["build", "canonical", "loss_class"]


def loss_class(name: str) -> type[Loss]:
    """Return the class behind a name."""
    from edgemask.losses import LOSSES

    return LOSSES[name]


def canonical(name: str) -> str:
    """Return the full name behind a short one: ``jal`` is ``jal-ce``."""
    from edgemask.losses import LOSSES

    wanted = LOSSES[name]
    return next(full for full, entry in LOSSES.items() if entry is wanted)


def build(
    name: str,
    *,
    num_classes: int | None = None,
    num_samples: int | None = None,
    **options: Any,
) -> Loss:
    """Build a loss by name.

    Args:
        name: A name of ``LOSSES``.
        num_classes: Number of classes; handed on to the losses that ask for it.
        num_samples: Size of the training set; handed on to the losses with a memory that need one.
        **options: Arguments of the loss; unknown ones are an error.

    Example:
        >>> build("gce", q=0.6)
        GCELoss(q=0.6, min_prob=1e-07, reduction='mean')
    """
    entry = loss_class(name)
    accepted = inspect.signature(entry).parameters
    unknown = sorted(set(options) - set(accepted))
    if unknown:
        raise UserError(
            f"the loss {name!r} has no option {unknown[0]!r}; it has: {', '.join(accepted)}"
        )
    for key, value in (("num_classes", num_classes), ("num_samples", num_samples)):
        if key not in accepted:
            continue
        if value is not None:
            options[key] = value
        elif accepted[key].default is inspect.Parameter.empty:
            raise UserError(f"the loss {name!r} needs {key}=")
    for key, value in options.items():
        if isinstance(accepted[key].default, float):
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise UserError(f"{key}={value!r} of the loss {name!r}: expected a number")
            options[key] = float(value)
    return entry(**options)
