"""A multi-layer perceptron for tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from torch import Tensor, nn

from edgemask._options import checked
from edgemask.errors import UserError
from edgemask.models.base import Backbone, Count, Width, hidden_layer, scaled
from edgemask.models.init import kaiming_and_xavier

__all__ = ["MLP"]


class MLP(Backbone):
    """Multi-layer perceptron for tables and small images: hidden layers with batch norm and ReLU.

    Inputs of any shape are flattened.

    Args:
        num_classes: Number of classes.
        input_shape: Shape of one sample, ``(features,)`` for a table.
        width: Factor on the hidden widths.
        hidden: Widths of the hidden layers; the last one is read by the head.
    """

    @checked
    def __init__(
        self,
        num_classes: int,
        *,
        input_shape: Sequence[Count] = (64,),
        width: Width = 1.0,
        hidden: Sequence[Count] = (256, 256),
    ):
        super().__init__(num_classes, input_shape=input_shape)
        if not input_shape or not hidden:
            raise UserError(f"input_shape={input_shape}, hidden={hidden}: neither may be empty")
        sizes = [math.prod(input_shape), *(scaled(size, width) for size in hidden)]
        self.layers = nn.Sequential(*(hidden_layer(a, b) for a, b in pairwise(sizes)))
        self._finish(sizes[-1])
        kaiming_and_xavier(self)

    def encode(self, x: Tensor) -> Tensor:
        """Return the output of the last hidden layer."""
        features: Tensor = self.layers(x.flatten(1))
        return features
