"""Backbones with `embed(x)` and a named `head`.

A new model is one file with a subclass of :class:`Backbone` and one line in ``MODELS``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import nn

from edgemask._registry import Registry
from edgemask.models.base import Backbone
from edgemask.models.cnn7 import CNN7, CNN7MLP
from edgemask.models.cnn8 import CNN8, CNN8MNIST
from edgemask.models.cnn9 import CNN9
from edgemask.models.factory import build
from edgemask.models.hf_model import HFModel
from edgemask.models.projector import Projector
from edgemask.models.resnet import PreActResNet18, ResNet18, ResNet34, ResNet50
from edgemask.models.small import MLP, SmallCNN
from edgemask.models.timm_model import TimmModel

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


def create(
    name: str,
    num_classes: int,
    *,
    input_shape: Sequence[int] = (3, 32, 32),
    width: float = 1.0,
    head: str | type[nn.Module] = "linear",
    head_options: Mapping[str, Any] | None = None,
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
            model ``mlp``. Text models take no notice of it.
        width: Factor on the channel counts, for narrower or wider versions of our own models.
        head: The last layer: ``"linear"``, a name in ``edgemask.heads.HEADS``, or a class that is
            built like ``nn.Linear``.
        head_options: Options of that head, such as ``{"rho": 0.5}``.
        projector: Options of a :class:`Projector` on the encoder's features, or none.
        pretrained: For ``timm:`` and ``hf:``, whether to fetch published weights; for any model, a
            file of weights to start from (a head for other classes in it is passed over).
        **model_options: Options of the model itself, checked by name.

    Returns:
        The model, in training mode, with ``embed(x)``, ``head`` and ``num_features``.

    Example:
        >>> import torch
        >>> model = create("cnn8", 10, width=0.25)
        >>> model.embed(torch.zeros(2, 3, 32, 32)).shape, model.head.in_features
        (torch.Size([2, 256]), 256)
    """
    return build(
        MODELS,
        ADAPTERS,
        name,
        num_classes,
        input_shape=input_shape,
        width=width,
        head=head,
        head_options=head_options,
        projector=projector,
        pretrained=pretrained,
        model_options=model_options,
    )
