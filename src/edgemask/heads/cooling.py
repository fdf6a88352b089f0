"""A linear layer whose logits are scaled down during training, with nothing masked."""

from __future__ import annotations

from typing import Annotated

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from edgemask._options import Range, checked
from edgemask.heads.scaled import times
from edgemask.heads.steps import MaskingHead, check_features

__all__ = ["CoolingLinear"]


class CoolingLinear(MaskingHead, nn.Linear):
    """A linear layer with logits ``s (W v + b)``, where s falls with every training step.

    ``s = max(least, 1 / (1 + t / half_at))`` in step t = 0, 1, ...: a network first learns at full
    speed what the labels have in common, and then more and more slowly, so that it memorises single
    wrong labels late. A factor s on the logits slows the layer down by s^2 and the
    gradient of the network below by s (see :class:`ScaledLinear`, where it is constant and slows
    the first steps down as well). At inference the factor of the last step is used; it never
    changes which class is predicted.

    Args:
        in_features: Size of each input sample.
        out_features: Number of classes.
        bias: Whether to learn an additive bias.
        least: The smallest factor.
        half_at: The step in which the factor is a half.
        device: Device of the parameters.
        dtype: Type of the parameters.

    Reference:
        EdgeMask's own; docs/defaults.md has what was measured with it.

    Example:
        >>> head = CoolingLinear(4, 3, least=0.1, half_at=2)
        >>> for _ in range(3):
        ...     logits = head(torch.ones(1, 4))
        >>> float(head.factor)
        0.5
    """

    @checked
    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        *,
        least: Annotated[float, Range(above=0, high=1)] = 0.1,
        half_at: Annotated[float, Range(above=0)] = 30,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ):
        super().__init__(in_features, out_features, bias, device=device, dtype=dtype)
        self.least = least
        self.half_at = half_at
        self.reset_state()

    def reset_state(self, *, seed: int | None = None) -> None:
        super().reset_state(seed=0)  # nothing is drawn

    @property
    def factor(self) -> Tensor:
        """The factor of the last step; 1 before the first."""
        dtype = torch.promote_types(self.weight.dtype, torch.float32)
        before = (self.steps - 1).clamp_min(0).to(dtype)
        return (1.0 / (1.0 + before / self.half_at)).clamp_min(self.least)

    def next_mask(self, samples: Tensor) -> Tensor:
        self.steps.add_(1)
        return self.factor

    def forward(self, input: Tensor) -> Tensor:
        """Apply the layer and scale its logits."""
        check_features(self, input)
        factor = self.mask_for(input)
        logits = F.linear(input, self.weight, self.bias)
        return logits * (self.factor if factor is None else factor).to(logits.dtype)

    def to_plain(self) -> nn.Linear:
        """Return the plain layer with the same logits."""
        return times(self, self.factor)

    def extra_repr(self) -> str:
        return f"{nn.Linear.extra_repr(self)}, least={self.least}, half_at={self.half_at}"
