"""Models by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import nn

from edgemask._registry import Registry
from edgemask.errors import UserError, unknown_name
from edgemask.models.base import Backbone
from edgemask.models.projector import Projector
from edgemask.models.weights import load_weights

__all__ = ["build"]

# The arguments that every model gets; what else its constructor takes is an option of its own.
_COMMON = {"num_classes", "name", "input_shape", "width", "pretrained"}


def build(
    models: Registry[Callable[..., Backbone]],
    adapters: Registry[Callable[..., Backbone]],
    name: str,
    num_classes: int,
    *,
    input_shape: Sequence[int],
    width: float,
    head: str | type[nn.Module],
    head_options: Mapping[str, Any] | None,
    projector: Mapping[str, Any] | None,
    pretrained: bool | str | Path,
    model_options: Mapping[str, Any],
) -> Backbone:
    """Build a model; see :func:`edgemask.models.create`, which knows the registries."""
    weights = None if isinstance(pretrained, bool) else pretrained
    prefix, colon, rest = name.partition(":")
    if colon and prefix in adapters and rest:
        if width != 1.0:
            raise UserError(f"width={width} is for EdgeMask's own models; {name} has a fixed width")
        _check_options(name, adapters[prefix], model_options)
        model = adapters[prefix](
            num_classes,
            name=rest,
            input_shape=input_shape,
            pretrained=pretrained is True,
            **model_options,
        )
    elif name in models:
        if pretrained is True:
            raise UserError(
                f"there are no published weights for {name!r}; use pretrained=False, a file of "
                "your own, or a timm:NAME model"
            )
        _check_options(name, models[name], model_options)
        model = models[name](num_classes, input_shape=input_shape, width=width, **model_options)
    else:
        raise unknown_name("model", name, [*models, *(f"{prefix}:NAME" for prefix in adapters)])
    # What is drawn at random beyond the plain model comes last, so that under one seed a model
    # starts from the same weights whatever its head and projector are.
    if projector is not None:
        model.projector = _projector(model.encoder_features, projector)
    if weights is not None:
        load_weights(model, weights)
    if head != "linear":
        from edgemask.heads import attach

        attach(model, head, at="head", **(head_options or {}))
    elif head_options:
        raise UserError(f"head='linear' has no options, got {dict(head_options)}")
    return model


def _check_options(name: str, model: Callable[..., Backbone], options: Mapping[str, Any]) -> None:
    parameters = inspect.signature(model).parameters
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return  # another library checks them
    known = parameters.keys() - _COMMON
    for option in options:
        if option not in known:
            takes = f"it takes {', '.join(sorted(known))}" if known else "it takes none"
            raise UserError(f"the model {name!r} has no option {option!r}; {takes}")


def _projector(in_features: int, options: Mapping[str, Any]) -> Projector:
    try:
        return Projector(in_features, **options)
    except TypeError as error:
        raise UserError(
            f"projector={dict(options)} is not understood: {error}. It takes kind, hidden, out, "
            "normalise and bias"
        ) from error
