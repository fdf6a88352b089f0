"""Losses by name."""

from __future__ import annotations

import inspect
from typing import Any

from edgemask.errors import UserError
from edgemask.losses.base import Loss

__all__ = ["build"]


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
        num_classes: Number of classes; passed on to the losses that take it.
        num_samples: Size of the training set; passed on to the losses with a memory.
        **options: Options of the loss; unknown ones are an error.

    Example:
        >>> build("gce", q=0.6)
        GCELoss(q=0.6, min_prob=1e-07, reduction='mean')
    """
    from edgemask.losses import LOSSES

    factory = LOSSES[name]
    accepted = inspect.signature(factory).parameters
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
    return factory(**options)
