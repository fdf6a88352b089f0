"""Plain convolutional networks: blocks of 3x3 convolutions, each followed by a 2x2 max-pool."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import torch.nn.functional as F
from torch import Tensor, nn

from edgemask.errors import UserError
from edgemask.models.base import Backbone, check_image_shape, scaled

__all__ = ["ConvNet", "conv_block", "hidden_layer"]


def conv_block(
    in_channels: int, channels: Sequence[int], *, padding: int = 1, slope: float = 0.0
) -> nn.Sequential:
    """Return 3x3 convolutions with bias, each with batch norm and a (leaky) ReLU."""
    layers: list[nn.Module] = []
    for out_channels in channels:
        layers += [
            nn.Conv2d(in_channels, out_channels, 3, padding=padding),
            nn.BatchNorm2d(out_channels),
            nn.LeakyReLU(slope) if slope else nn.ReLU(),
        ]
        in_channels = out_channels
    return nn.Sequential(*layers)


def hidden_layer(in_features: int, out_features: int) -> nn.Sequential:
    """Return a linear layer with batch norm and ReLU."""
    return nn.Sequential(
        nn.Linear(in_features, out_features), nn.BatchNorm1d(out_features), nn.ReLU()
    )


class ConvNet(Backbone):
    """Blocks ``block1``, ``block2``, ... with a pool after each, flattened; the base of the CNNs.

    Args:
        num_classes: Number of classes.
        input_shape: Shape of one image; the flattened size follows from it.
        width: Factor on all channel counts.
        hidden: Width of a hidden layer after flattening, not scaled by ``width``; 0 for none.
    """

    pooling = "flatten"
    channels: ClassVar[Sequence[Sequence[int]]]  # of each block's convolutions, at width 1

    def __init__(
        self,
        num_classes: int,
        *,
        input_shape: Sequence[int],
        width: float,
        hidden: int = 0,
    ):
        super().__init__(num_classes, input_shape=input_shape)
        if hidden < 0:
            raise UserError(f"hidden must be a number of features, or 0 for none; got {hidden}")
        shrink = 2 ** len(self.channels)
        before = check_image_shape(type(self).__name__, input_shape, minimum=shrink)
        self._blocks = [f"block{i}" for i in range(1, len(self.channels) + 1)]
        for name, block in zip(self._blocks, self.channels, strict=True):
            channels = [scaled(count, width) for count in block]
            self.add_module(name, conv_block(before, channels))
            before = channels[-1]
        self.last_block = self._blocks[-1]
        flat = before * (self.input_shape[1] // shrink) * (self.input_shape[2] // shrink)
        self.hidden = hidden_layer(flat, hidden) if hidden else nn.Identity()
        self._add_classifier(hidden or flat)

    def _add_classifier(self, encoder_features: int) -> None:
        self._finish(encoder_features)

    def feature_maps(self, x: Tensor) -> Tensor:
        """Return the output of the last block, before its pool."""
        if x.shape[1:] != self.input_shape:
            raise UserError(
                f"{type(self).__name__} flattens its feature maps, so it was made for inputs of "
                f"shape {self.input_shape} and cannot take {tuple(x.shape[1:])}; create it with "
                "the input_shape of the data"
            )
        for name in self._blocks[:-1]:
            x = F.max_pool2d(self.get_submodule(name)(x), 2)
        maps: Tensor = self.get_submodule(self._blocks[-1])(x)
        return maps

    def features_from_maps(self, maps: Tensor) -> Tensor:
        """Pool and flatten the maps, and apply the hidden layer if there is one."""
        features: Tensor = self.hidden(F.max_pool2d(maps, 2).flatten(1))
        return features
