"""Residual networks with the stem for small images: 3x3, stride 1, no max-pool."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import torch.nn.functional as F
from torch import Tensor, nn

from edgemask._options import checked
from edgemask.models.base import Backbone, Width, check_image_shape, scaled
from edgemask.models.init import kaiming_and_xavier

__all__ = ["PreActResNet18", "ResNet18", "ResNet34", "ResNet50"]


def _conv(in_channels: int, out_channels: int, kernel: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(
        in_channels, out_channels, kernel, stride=stride, padding=kernel // 2, bias=False
    )


class BasicBlock(nn.Module):
    """Two 3x3 convolutions; the ReLU follows the sum."""

    expansion: ClassVar[int] = 1

    def __init__(self, in_channels: int, channels: int, stride: int):
        super().__init__()
        out_channels = channels * self.expansion
        self.layers = self._layers(in_channels, channels, stride)
        self.shortcut = nn.Sequential()
        if stride != 1 or in_channels != out_channels:
            self.shortcut.append(_conv(in_channels, out_channels, 1, stride))
            self.shortcut.append(nn.BatchNorm2d(out_channels))

    def _layers(self, in_channels: int, channels: int, stride: int) -> nn.Sequential:
        return nn.Sequential(
            _conv(in_channels, channels, 3, stride),
            nn.BatchNorm2d(channels),
            nn.ReLU(),
            _conv(channels, channels, 3),
            nn.BatchNorm2d(channels),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return relu(layers(x) + shortcut(x))."""
        return F.relu(self.layers(x) + self.shortcut(x))


class Bottleneck(BasicBlock):
    """1x1, 3x3 and 1x1 convolutions, four times as wide at the end as inside."""

    expansion: ClassVar[int] = 4

    def _layers(self, in_channels: int, channels: int, stride: int) -> nn.Sequential:
        return nn.Sequential(
            _conv(in_channels, channels, 1),
            nn.BatchNorm2d(channels),
            nn.ReLU(),
            _conv(channels, channels, 3, stride),
            nn.BatchNorm2d(channels),
            nn.ReLU(),
            _conv(channels, channels * self.expansion, 1),
            nn.BatchNorm2d(channels * self.expansion),
        )


class PreActBlock(nn.Module):
    """Batch norm and ReLU come first; the shortcut starts after them, also where it is identity."""

    expansion: ClassVar[int] = 1

    def __init__(self, in_channels: int, channels: int, stride: int):
        super().__init__()
        self.before = nn.Sequential(nn.BatchNorm2d(in_channels), nn.ReLU())
        self.layers = nn.Sequential(
            _conv(in_channels, channels, 3, stride),
            nn.BatchNorm2d(channels),
            nn.ReLU(),
            _conv(channels, channels, 3),
        )
        self.shortcut = nn.Sequential()
        if stride != 1 or in_channels != channels:
            self.shortcut.append(_conv(in_channels, channels, 1, stride))

    def forward(self, x: Tensor) -> Tensor:
        """Return layers(a) + shortcut(a) with a = relu(bn(x))."""
        x = self.before(x)
        out: Tensor = self.layers(x) + self.shortcut(x)
        return out


class _ResNet(Backbone):
    """Stem, four stages at 64, 128, 256 and 512 channels, global average, head.

    Args:
        num_classes: Number of classes.
        input_shape: Shape of one image; any size, since the maps are averaged.
        width: Factor on all channel counts.
    """

    pooling = "average"
    last_block = "layer4"
    block: ClassVar[type[BasicBlock] | type[PreActBlock]] = BasicBlock
    depths: ClassVar[tuple[int, int, int, int]]
    default_init: ClassVar[bool] = False  # torch's, or else that of the robust-loss papers

    @checked
    def __init__(
        self, num_classes: int, *, input_shape: Sequence[int] = (3, 32, 32), width: Width = 1.0
    ):
        super().__init__(num_classes, input_shape=input_shape)
        in_channels = check_image_shape(type(self).__name__, input_shape)
        stages = [scaled(count, width) for count in (64, 128, 256, 512)]
        before = stages[0]
        self.stem = nn.Sequential(_conv(in_channels, before, 3), nn.BatchNorm2d(before), nn.ReLU())
        layers = []
        for channels, depth, stride in zip(stages, self.depths, (1, 2, 2, 2), strict=True):
            blocks = nn.Sequential()
            for number in range(depth):
                blocks.append(self.block(before, channels, stride if number == 0 else 1))
                before = channels * self.block.expansion
            layers.append(blocks)
        self.layer1, self.layer2, self.layer3, self.layer4 = layers
        self._finish(before)
        if not self.default_init:
            kaiming_and_xavier(self)

    def feature_maps(self, x: Tensor) -> Tensor:
        """Return the output of ``layer4``."""
        maps: Tensor = self.layer4(self.layer3(self.layer2(self.layer1(self.stem(x)))))
        return maps


class ResNet18(_ResNet):
    """ResNet-18 for small images, 512 features.

    Initialised like ``cnn8``. 11,173,962 parameters for ten classes.

    Reference:
        K. He et al., "Deep Residual Learning for Image Recognition", CVPR 2016.
    """

    depths = (2, 2, 2, 2)


class ResNet34(_ResNet):
    """ResNet-34 for small images, 512 features; CIFAR-100 in APL, ALF, ANL and JAL.

    Initialised like ``cnn8``. 21,328,292 parameters for 100 classes, 21,282,122 for ten.
    """

    depths = (3, 4, 6, 3)


class ResNet50(_ResNet):
    """ResNet-50 for small images, 2048 features; for photographs use timm:resnet50.

    Initialised like ``cnn8``. 23,705,252 parameters for 100 classes.
    """

    block = Bottleneck
    depths = (3, 4, 6, 3)


class PreActResNet18(_ResNet):
    """PreAct-ResNet-18 of DivideMix and UNICON, 512 features.

    The stem has batch norm and ReLU, there is no batch norm before pooling, and an identity
    shortcut carries the activated input, as in the published code. torch's own initialisation.
    11,171,274 parameters for ten classes, 11,217,444 for 100.

    Reference:
        J. Li, R. Socher, S. Hoi, "DivideMix: Learning with Noisy Labels as Semi-supervised
        Learning", ICLR 2020.
    """

    block = PreActBlock
    depths = (2, 2, 2, 2)
    default_init = True
