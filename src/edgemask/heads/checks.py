"""What all heads check before they look at a batch."""

from __future__ import annotations

from torch import Tensor, nn

from edgemask.errors import UserError

__all__ = ["check_features"]


def check_features(head: nn.Module, input: Tensor) -> None:
    """Refuse an input whose last dimension is not the head's, before any state is written.

    Raises:
        UserError: Names the head, its sizes and the input's shape.
    """
    if input.dim() == 0 or input.shape[-1] != head.in_features:
        raise UserError(
            f"{type(head).__name__}({head.in_features}, {head.out_features}) takes inputs of shape "
            f"(*, {head.in_features}), got {tuple(input.shape)}"
        )
