"""Dropout before the classifier: the neuron-wise rival of edge masking."""

from __future__ import annotations

from typing import Annotated

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from edgemask._options import Range, checked
from edgemask.heads.steps import StepState, StepwiseHead, check_features, to_linear

__all__ = ["DropoutLinear"]


class DropoutLinear(StepwiseHead, nn.Linear):
    """Dropout on the input of a linear layer (inverted scaling; at inference a plain layer).

    ``z = W (m * v) / (1 - p) + b`` with ``m_k = 1`` with probability 1 - p, else 0.

    Numbers are drawn for each sample from torch's own generator; predictions, as
    :func:`~edgemask.heads.predicting` and ``no_grad`` passes declare them, are dense.

    Args:
        in_features: Size of each input sample.
        out_features: Number of classes.
        bias: Whether to learn an additive bias.
        p: Probability that an input feature is dropped.
        device: Device of the parameters.
        dtype: Type of the parameters.

    Reference:
        Srivastava et al., Dropout: A Simple Way to Prevent Neural Networks from Overfitting, JMLR
        2014.
    """

    @checked
    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        *,
        p: Annotated[float, Range(0, below=1)] = 0.5,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ):
        super().__init__(in_features, out_features, bias, device=device, dtype=dtype)
        self.p = p
        self.step_state = StepState()

    @property
    def retention(self) -> float:
        """The share of edges that a step keeps, on average."""
        return 1.0 - self.p

    def forward(self, input: Tensor) -> Tensor:
        """Apply the layer; in training, to what dropout leaves of the input."""
        check_features(self, input)
        if self.is_step():
            input = F.dropout(input, self.p, training=True)
        return F.linear(input, self.weight, self.bias)

    def to_plain(self) -> nn.Linear:
        """Return the plain layer with the same parameters."""
        return to_linear(self)

    def extra_repr(self) -> str:
        return f"{nn.Linear.extra_repr(self)}, p={self.p}"
