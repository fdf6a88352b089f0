"""What every model of EdgeMask has: `embed`, `neck`, `head` and, optionally, a `projector`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, get_args

import torch.nn.functional as F
from torch import Tensor, nn

from edgemask._options import Range, checked
from edgemask.errors import UserError, unknown_name
from edgemask.models.init import he_normal

__all__ = [
    "NECKS",
    "Backbone",
    "Count",
    "Neck",
    "Width",
    "check_image_shape",
    "hidden_layer",
    "scaled",
]

Count = Annotated[int, Range(1)]
Neck = Literal["none", "linear", "mlp"]
NECKS: tuple[Neck, ...] = get_args(Neck)
Width = Annotated[float, Range(above=0)]
"""Factor on the number of channels."""


class Backbone(nn.Module):
    """A classifier in named parts.

    The parts are called in this order::

        maps     = model.feature_maps(x)             # output of the module named `last_block`
        features = model.features_from_maps(maps)    # pooled or flattened
        features = model.encode(x)                   # both of the above
        z        = model.embed(x)                    # neck(encode(x)), (B, num_features)
        logits   = model(x)                          # head(embed(x))
        p        = model.project(x)                  # projector(encode(x)), if there is one

    For most models ``neck`` is the identity and ``embed`` equals ``encode``. Where the classifier
    is an MLP, its hidden part is the neck and its last layer the head; the projector stands beside
    the neck, on the features of the encoder. Any model can be given a neck (:meth:`add_neck`).

    Attributes:
        num_classes: Outputs of the head.
        num_features: Inputs of the head; the width of ``embed(x)``.
        encoder_features: The width of ``encode(x)``.
        input_shape: The shape of one sample that the model was made for.
        last_block: The name of the last convolutional block, for ``get_submodule`` and hooks.
        pooling: How the maps of the last block become features: ``"average"`` (global average,
            so that a class activation map is the head's weights times the maps), ``"flatten"``,
            or ``"other"``.
    """

    pooling: ClassVar[Literal["average", "flatten", "other"]] = "other"
    last_block: str | None = None
    num_features: int
    encoder_features: int
    neck: nn.Module
    head: nn.Module
    projector: nn.Module | None

    @checked
    def __init__(self, num_classes: Count, *, input_shape: Sequence[int]):
        super().__init__()
        self.num_classes = num_classes
        self.input_shape = tuple(input_shape)

    def _finish(
        self, encoder_features: int, neck: nn.Module | None = None, width: int | None = None
    ) -> None:
        """Add the neck (of output ``width``) and a linear head; the last call of a constructor."""
        self.encoder_features = encoder_features
        self.num_features = encoder_features if width is None else width
        self.neck = nn.Identity() if neck is None else neck
        self.head = nn.Linear(self.num_features, self.num_classes)
        self.register_module("projector", None)

    def add_neck(self, kind: Neck) -> None:
        """Put layers between the features and a new linear head; ``"none"`` changes nothing.

        Args:
            kind: ``"linear"``: a linear layer as wide as the features, without an activation (the
                networks of Neighborhood Collective Estimation); ``"mlp"``: linear, batch norm and
                ReLU, twice as wide, Kaiming-normal with zero biases (those of Jo-SRC and Jo-SNC).
        """
        if kind not in NECKS:
            raise unknown_name("neck", kind, NECKS)
        if kind == "none":
            return
        width = self.num_features * (2 if kind == "mlp" else 1)
        layers = hidden_layer if kind == "mlp" else nn.Linear
        neck: nn.Module = layers(self.num_features, width)
        self.head = nn.Linear(width, self.num_classes)
        if kind == "mlp":
            he_normal(neck)
            he_normal(self.head)
        self.neck = neck if isinstance(self.neck, nn.Identity) else nn.Sequential(self.neck, neck)
        self.num_features = width

    def feature_maps(self, x: Any) -> Tensor:
        """Return the output of the last convolutional block, ``(B, channels, height, width)``."""
        raise UserError(f"{type(self).__name__} has no convolutional feature maps")

    def features_from_maps(self, maps: Tensor) -> Tensor:
        """Return the features of ``encode`` from the maps; here their global average."""
        return F.adaptive_avg_pool2d(maps, 1).flatten(1)

    def encode(self, x: Any) -> Tensor:
        """Return the features of the encoder, ``(B, encoder_features)``."""
        return self.features_from_maps(self.feature_maps(x))

    def embed(self, x: Any) -> Tensor:
        """Return what the head reads, ``(B, num_features)``."""
        features: Tensor = self.neck(self.encode(x))
        return features

    def forward(self, x: Any) -> Tensor:
        """Return the logits, ``(B, num_classes)``."""
        logits: Tensor = self.head(self.embed(x))
        return logits

    def from_native(self, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Rename the entries of a state dict in another layout to ours; here there is none."""
        return dict(state)

    def project(self, x: Any = None, *, features: Tensor | None = None) -> Tensor:
        """Return the projection of inputs, or of features that ``encode`` gave before.

        A method that needs logits and projection encodes once:

        >>> import torch
        >>> from edgemask.models import create
        >>> net = create("cnn7-mlp", 10, projector={"kind": "mlp"}).eval()
        >>> features = net.encode(torch.zeros(2, 3, 32, 32))
        >>> logits = net.head(net.neck(features))
        >>> net.project(features=features).shape
        torch.Size([2, 256])
        """
        if self.projector is None:
            raise UserError(
                f"this {type(self).__name__} has no projector; request one with "
                'create(..., projector={"kind": "mlp"})'
            )
        if (x is None) == (features is None):
            raise UserError("project takes inputs, or features=, and not both")
        projection: Tensor = self.projector(self.encode(x) if features is None else features)
        return projection


def scaled(channels: int, width: float) -> int:
    """Return ``channels`` times ``width``, rounded, and at least 8 (or as few as at width 1).

    Example:
        >>> scaled(64, 0.25), scaled(196, 0.5), scaled(16, 0.25)
        (16, 98, 8)
    """
    return max(min(channels, 8), int(channels * width + 0.5))


def check_image_shape(name: str, input_shape: Sequence[int], minimum: int = 1) -> int:
    """Return the channel count of an image shape, or say what is wrong with it."""
    if len(input_shape) != 3 or min(input_shape) < 1:
        raise UserError(
            f"{name} takes images, input_shape=(channels, height, width); got "
            f"{tuple(input_shape)}. For features in a table use the model 'mlp'"
        )
    channels, height, width = input_shape
    if min(height, width) < minimum:
        raise UserError(
            f"images of {height}x{width} pixels are too small for {name}, which halves them until "
            f"nothing is left: it needs at least {minimum}x{minimum}. "
            "Use 'small-cnn' or 'mlp', or resize the images"
        )
    return channels


def hidden_layer(in_features: int, out_features: int) -> nn.Sequential:
    """Return a linear layer with batch norm and ReLU."""
    return nn.Sequential(
        nn.Linear(in_features, out_features), nn.BatchNorm1d(out_features), nn.ReLU()
    )
