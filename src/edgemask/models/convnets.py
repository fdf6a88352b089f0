"""Plain convolutional networks of published code: blocks of 3x3 convolutions and max-pools."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

import torch.nn.functional as F
from torch import Tensor, nn

from edgemask._options import Range, checked
from edgemask.errors import UserError
from edgemask.models.base import Backbone, Width, check_image_shape, hidden_layer, scaled
from edgemask.models.init import he_normal, kaiming_and_xavier

__all__ = ["CNN7", "CNN7MLP", "CNN8", "CNN8MNIST", "CNN9", "SmallCNN"]

Hidden = Annotated[int, Range(0)]
"""Features of the hidden layer; 0 for none."""


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

    @checked
    def __init__(
        self,
        num_classes: int,
        *,
        input_shape: Sequence[int],
        width: Width,
        hidden: Hidden = 0,
    ):
        super().__init__(num_classes, input_shape=input_shape)
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
        for name in self._blocks[:-1]:  # getattr, since torch 2.6 does not export get_submodule
            x = F.max_pool2d(getattr(self, name)(x), 2)
        maps: Tensor = getattr(self, self._blocks[-1])(x)
        return maps

    def features_from_maps(self, maps: Tensor) -> Tensor:
        """Pool and flatten the maps, and apply the hidden layer if there is one."""
        features: Tensor = self.hidden(F.max_pool2d(maps, 2).flatten(1))
        return features


class CNN8(ConvNet):
    """8-layer CNN of APL, ALF, ANL and JAL: six convolutions, a hidden layer, the head.

    Convolutions of 64, 64 (``block1``), 128, 128 (``block2``) and 196, 196 (``block3``) channels
    with batch norm and ReLU, a max-pool after each block; flattened to a hidden layer of 256 with
    batch norm and ReLU. Convolutions start Kaiming-uniform, linear layers Xavier-uniform.
    1,639,794 parameters for ten classes at 32x32.

    Args:
        num_classes: Number of classes.
        input_shape: Shape of one image.
        width: Factor on the channel counts of the convolutions.
        hidden: Features before the head; ``width`` leaves them alone.

    Reference:
        X. Ma et al., "Normalized Loss Functions for Deep Learning with Noisy Labels", ICML 2020.
    """

    channels: ClassVar[Sequence[Sequence[int]]] = ((64, 64), (128, 128), (196, 196))

    @checked
    def __init__(
        self,
        num_classes: int,
        *,
        input_shape: Sequence[int] = (3, 32, 32),
        width: Width = 1.0,
        hidden: Hidden = 256,
    ):
        super().__init__(num_classes, input_shape=input_shape, width=width, hidden=hidden)
        kaiming_and_xavier(self)


class CNN8MNIST(CNN8):
    """4-layer CNN of APL, ALF, ANL and JAL for MNIST: convolutions of 32 and 64, hidden 128.

    422,090 parameters for ten classes of 28x28 grey images. Initialised like :class:`CNN8`.

    Args:
        num_classes: Number of classes.
        input_shape: Shape of one image.
        width: Factor on the channel counts of the convolutions.
        hidden: Features before the head; ``width`` leaves them alone.
    """

    channels = ((32,), (64,))

    @checked
    def __init__(
        self,
        num_classes: int,
        *,
        input_shape: Sequence[int] = (1, 28, 28),
        width: Width = 1.0,
        hidden: Hidden = 128,
    ):
        super().__init__(num_classes, input_shape=input_shape, width=width, hidden=hidden)


class SmallCNN(CNN8):
    """Narrow CNN for digits: four convolutions and 256 features before the head.

    The 8-layer CNN in small: convolutions of 16, 16 (``block1``) and 32, 32 (``block2``) channels,
    a max-pool after each block, a hidden layer with batch norm and ReLU. It takes images from 4x4.

    Args:
        num_classes: Number of classes.
        input_shape: Shape of one image.
        width: Factor on the channel counts of the convolutions.
        hidden: Features before the head; ``width`` leaves them alone.
    """

    channels = ((16, 16), (32, 32))

    @checked
    def __init__(
        self,
        num_classes: int,
        *,
        input_shape: Sequence[int] = (1, 8, 8),
        width: Width = 1.0,
        hidden: Hidden = 256,
    ):
        super().__init__(num_classes, input_shape=input_shape, width=width, hidden=hidden)


class CNN7(ConvNet):
    """7-layer CNN of JoCoR: six convolutions, flattened straight into the head.

    Convolutions of 64, 64 (``block1``), 128, 128 (``block2``) and 196, 16 (``block3``) channels
    with batch norm and ReLU, a max-pool after each block: 16 x 4 x 4 = 256 features of a 32x32
    image. Published code takes a dropout rate and has no dropout; neither has this. torch's own
    initialisation. 541,280 parameters for 100 classes.

    Args:
        num_classes: Number of classes.
        input_shape: Shape of one image.
        width: Factor on all channel counts.

    Reference:
        H. Wei et al., "Combating Noisy Labels by Agreement: A Joint Training Method with
        Co-Regularization", CVPR 2020.
    """

    channels = ((64, 64), (128, 128), (196, 16))

    @checked
    def __init__(
        self, num_classes: int, *, input_shape: Sequence[int] = (3, 32, 32), width: Width = 1.0
    ):
        super().__init__(num_classes, input_shape=input_shape, width=width)


class CNN7MLP(CNN7):
    """7-layer CNN of Jo-SRC, Jo-SNC and CA2C: the classifier is an MLP, 256 to 512 to classes.

    The hidden part (linear, batch norm, ReLU; twice as wide as the encoder's features) is the
    ``neck``, its last layer the ``head``. Both start Kaiming-normal with zero biases. A projector
    reads the 256 features of the encoder. 699,488 parameters for 100 classes.

    Args:
        num_classes: Number of classes.
        input_shape: Shape of one image.
        width: Factor on all channel counts; the neck follows.

    Reference:
        Y. Yao et al., "Jo-SRC: A Contrastive Approach for Combating Noisy Labels", CVPR 2021.
    """

    def _add_classifier(self, encoder_features: int) -> None:
        wide = 2 * encoder_features
        self._finish(encoder_features, hidden_layer(encoder_features, wide), wide)
        he_normal(self.neck)
        he_normal(self.head)


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

    @checked
    def __init__(
        self, num_classes: int, *, input_shape: Sequence[int] = (3, 32, 32), width: Width = 1.0
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
