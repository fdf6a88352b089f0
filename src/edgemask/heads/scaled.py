"""A linear layer whose logits are multiplied by a constant, with nothing masked."""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor, nn

from edgemask._options import Range, checked
from edgemask.heads.steps import check_features, to_linear

__all__ = ["ScaledLinear", "times"]


def times(head: nn.Linear, factor: Tensor | float) -> nn.Linear:
    """Return the plain layer whose logits are a head's times a factor."""
    plain = to_linear(head)
    plain.weight = nn.Parameter(head.weight.detach() * factor)
    if head.bias is not None:
        plain.bias = nn.Parameter(head.bias.detach() * factor)
    return plain


class ScaledLinear(nn.Linear):
    """A linear layer with logits ``s (W v + b)``, in training and at inference.

    Dropping edges without rescaling makes logits smaller, so this is the control that tells what
    the smaller scale does from what the dropping does. Under plain SGD without weight decay it is
    the same as a linear layer whose weights and bias start at s times their value and learn at s^2
    times the learning rate.

    Args:
        in_features: Size of each input sample.
        out_features: Number of classes.
        bias: Whether to learn an additive bias.
        scale: The factor s.
        device: Device of the parameters.
        dtype: Type of the parameters.

    Reference:
        EdgeMask's own; a control for the heads that drop edges.

    Example:
        >>> head = ScaledLinear(4, 3, scale=0.5)
        >>> v = torch.ones(1, 4)
        >>> torch.equal(head(v), 0.5 * nn.functional.linear(v, head.weight, head.bias))
        True
    """

    @checked
    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        *,
        scale: Annotated[float, Range(above=0)] = 0.1,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ):
        super().__init__(in_features, out_features, bias, device=device, dtype=dtype)
        self.scale = scale

    def forward(self, input: Tensor) -> Tensor:
        """Apply the layer and scale its logits."""
        check_features(self, input)
        return self.scale * super().forward(input)

    def to_plain(self) -> nn.Linear:
        """Return the plain layer with the same logits."""
        return times(self, self.scale)

    def extra_repr(self) -> str:
        """Show the scale beside the sizes."""
        return f"{super().extra_repr()}, scale={self.scale}"
