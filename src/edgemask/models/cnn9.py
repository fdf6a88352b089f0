"""The 9-layer CNN of Co-teaching."""

from __future__ import annotations

from collections.abc import Sequence

import torch.nn.functional as F
from torch import Tensor

from edgemask.models.base import Backbone, check_image_shape, scaled
from edgemask.models.convnet import conv_block

__all__ = ["CNN9"]


class CNN9(Backbone):
    """9-layer CNN of Co-teaching: nine convolutions with LeakyReLU, global average, 128 features.

    Three convolutions of 128 (``block1``), a max-pool, three of 256 (``block2``), a max-pool, then
    unpadded ones of 512, 256 and 128 (``block3``), each with batch norm and LeakyReLU(0.01). The
    dropout that the published code names was never active in the torch version that it ran on, so
    there is none here. torch's own initialisation. Images from 28x28.

    Args:
        num_classes: Number of classes.
        input_shape: Shape of one image.
        width: Factor on all channel counts.

    Reference:
        B. Han et al., "Co-teaching: Robust Training of Deep Neural Networks with Extremely Noisy
        Labels", NeurIPS 2018.
    """

    pooling = "average"
    last_block = "block3"

    def __init__(
        self, num_classes: int, *, input_shape: Sequence[int] = (3, 32, 32), width: float = 1.0
    ):
        super().__init__(num_classes, input_shape=input_shape)
        # Three unpadded convolutions take six pixels off a quarter of the image.
        channels = check_image_shape("CNN9", input_shape, minimum=28)
        first, second = scaled(128, width), scaled(256, width)
        third = (scaled(512, width), second, first)
        self.block1 = conv_block(channels, (first,) * 3, slope=0.01)
        self.block2 = conv_block(first, (second,) * 3, slope=0.01)
        self.block3 = conv_block(second, third, padding=0, slope=0.01)
        self._finish(first)

    def feature_maps(self, x: Tensor) -> Tensor:
        """Return the output of ``block3``."""
        x = F.max_pool2d(self.block1(x), 2)
        x = F.max_pool2d(self.block2(x), 2)
        maps: Tensor = self.block3(x)
        return maps
