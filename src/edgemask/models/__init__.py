"""Backbones with `embed(x)` and a named `head`.

A new model is one file with a subclass of :class:`Backbone` and one line in ``MODELS``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import nn

from edgemask._registry import Registry
from edgemask.errors import UserError, unknown_name
from edgemask.models.base import Backbone, Neck
from edgemask.models.convnets import CNN7, CNN7MLP, CNN8, CNN8MNIST, CNN9, SmallCNN
from edgemask.models.hf_model import HFModel
from edgemask.models.mlp import MLP
from edgemask.models.projector import Projector
from edgemask.models.resnet import PreActResNet18, ResNet18, ResNet34, ResNet50
from edgemask.models.timm_model import TimmModel
from edgemask.models.weights import load_weights

__all__ = ["ADAPTERS", "MODELS", "Backbone", "Projector", "create"]

MODELS: Registry[Callable[..., Backbone]] = Registry(
    "model",
    {
        "cnn8": CNN8,
        "cnn8-mnist": CNN8MNIST,
        "resnet18": ResNet18,
        "resnet34": ResNet34,
        "resnet50": ResNet50,
        "preact-resnet18": PreActResNet18,
        "cnn7": CNN7,
        "cnn7-mlp": CNN7MLP,
        "cnn9": CNN9,
        "small-cnn": SmallCNN,
        "mlp": MLP,
    },
)

# Models of other libraries, by the prefix before the colon: "timm:resnet50".
ADAPTERS: Registry[Callable[..., Backbone]] = Registry(
    "model library", {"timm": TimmModel, "hf": HFModel}
)

# The arguments that every model gets; what else its constructor takes is an option of its own.
_COMMON = {"num_classes", "name", "input_shape", "width", "pretrained"}


def create(
    name: str,
    num_classes: int,
    *,
    input_shape: Sequence[int] = (3, 32, 32),
    width: float = 1.0,
    head: str | Callable[..., nn.Module] = "linear",
    head_options: Mapping[str, Any] | None = None,
    neck: Neck = "none",
    projector: Mapping[str, Any] | None = None,
    pretrained: bool | str | Path = False,
    **model_options: Any,
) -> Backbone:
    """Create a model by name.

    Under one seed, the plain parts start from the same weights whatever ``head`` and ``projector``
    are, so that heads can be compared on paired runs.

    Args:
        name: A name in ``MODELS``, ``"timm:NAME"`` or ``"hf:NAME_OR_PATH"``.
        num_classes: Number of classes.
        input_shape: Shape of one sample: ``(channels, height, width)``, or ``(features,)`` for the
            model ``mlp``. Text models ignore it.
        width: Factor on the channel counts, for narrower or wider versions of our own models.
        head: The last layer: ``"linear"``, a name in ``edgemask.heads.HEADS``, or a class or
            function that is called like ``nn.Linear``.
        head_options: Options of that head, such as ``{"rho": 0.5}``.
        neck: Layers between the features and the head: ``"none"``, ``"linear"`` or ``"mlp"``
            (:meth:`Backbone.add_neck`).
        projector: Options of a :class:`Projector` on the encoder's features, or none.
        pretrained: For ``timm:`` and ``hf:``, whether to fetch published weights; for any model, a
            file of weights to start from (a head for other classes in it is ignored).
        **model_options: Options of the model itself, checked by name.

    Returns:
        The model, in training mode, with ``embed(x)``, ``head`` and ``num_features``.

    Example:
        >>> import torch
        >>> model = create("cnn8", 10, width=0.25)
        >>> model.embed(torch.zeros(2, 3, 32, 32)).shape, model.head.in_features
        (torch.Size([2, 256]), 256)
    """
    weights = None if isinstance(pretrained, bool) else pretrained
    prefix, colon, rest = name.partition(":")
    if colon and prefix in ADAPTERS and rest:
        if width != 1.0:
            raise UserError(f"width={width} is for EdgeMask's own models; {name} has a fixed width")
        _check_options(name, ADAPTERS[prefix], model_options)
        model = ADAPTERS[prefix](
            num_classes,
            name=rest,
            input_shape=input_shape,
            pretrained=pretrained is True,
            **model_options,
        )
    elif name in MODELS:
        if pretrained is True:
            raise UserError(
                f"there are no published weights for {name!r}; use pretrained=False, a file of "
                "your own, or a timm:NAME model"
            )
        _check_options(name, MODELS[name], model_options)
        model = MODELS[name](num_classes, input_shape=input_shape, width=width, **model_options)
    else:
        raise unknown_name("model", name, [*MODELS, *(f"{prefix}:NAME" for prefix in ADAPTERS)])
    model.add_neck(neck)
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
