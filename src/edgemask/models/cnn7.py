"""The 7-layer CNN of JoCoR, and of Jo-SRC, Jo-SNC and CA2C with their MLP head."""

from __future__ import annotations

from collections.abc import Sequence

from edgemask.models.convnet import ConvNet, hidden_layer
from edgemask.models.init import he_normal

__all__ = ["CNN7", "CNN7MLP"]


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

    def __init__(
        self, num_classes: int, *, input_shape: Sequence[int] = (3, 32, 32), width: float = 1.0
    ):
        super().__init__(num_classes, input_shape=input_shape, width=width)


class CNN7MLP(CNN7):
    """7-layer CNN of Jo-SRC, Jo-SNC and CA2C: the classifier is an MLP, 256 to 512 to classes.

    The hidden part (linear, batch norm, ReLU; twice as wide as the encoder's features) is the
    ``neck``, its last layer the ``head``. Both start Kaiming-normal with zero biases. A projector
    stands on the 256 features of the encoder. 699,488 parameters for 100 classes.

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
