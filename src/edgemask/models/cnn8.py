"""The 8-layer CNN of the robust-loss papers, and its smaller version for MNIST."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from edgemask.models.convnet import ConvNet
from edgemask.models.init import kaiming_and_xavier

__all__ = ["CNN8", "CNN8MNIST"]


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

    def __init__(
        self,
        num_classes: int,
        *,
        input_shape: Sequence[int] = (3, 32, 32),
        width: float = 1.0,
        hidden: int = 256,
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

    def __init__(
        self,
        num_classes: int,
        *,
        input_shape: Sequence[int] = (1, 28, 28),
        width: float = 1.0,
        hidden: int = 128,
    ):
        super().__init__(num_classes, input_shape=input_shape, width=width, hidden=hidden)
