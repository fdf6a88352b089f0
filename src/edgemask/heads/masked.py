"""A linear layer through a mask, with no more trips to memory than it takes."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from edgemask.heads.functional import masked_linear
from edgemask.heads.workspace import Workspace, in_eager_mode_on_cpu

__all__ = ["masked_linear_in"]

_LARGE = 1 << 17  # edges; below, page faults cost less than a custom function does


def masked_linear_in(
    workspace: Workspace, input: Tensor, weight: Tensor, mask: Tensor, bias: Tensor | None
) -> Tensor:
    """Compute :func:`~edgemask.heads.functional.masked_linear` with memory that is used again.

    Same value and gradients. Small layers, autocast, compiled graphs, function transforms, mixed
    types and devices other than the CPU take the plain way.
    """
    plain = (
        weight.numel() < _LARGE
        or not in_eager_mode_on_cpu(weight)
        or torch._C._are_functorch_transforms_active()
        or torch.is_autocast_enabled("cpu")
        or not (input.dtype == weight.dtype == mask.dtype)
    )
    if plain:
        return masked_linear(input, weight, mask, bias)
    with torch.no_grad():
        kept = torch.mul(weight, mask, out=workspace.take(weight))
    result: Tensor = _MaskedLinear.apply(  # type: ignore[no-untyped-call]
        input, weight, bias, mask, kept
    )
    return result


class _MaskedLinear(torch.autograd.Function):
    """``input @ kept.T + bias``, where ``kept = weight * mask`` and gradients stop at the mask."""

    @staticmethod
    def forward(
        ctx: Any, input: Tensor, weight: Tensor, bias: Tensor | None, mask: Tensor, kept: Tensor
    ) -> Tensor:
        ctx.save_for_backward(input, weight, mask, kept)
        return F.linear(input, kept, bias)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        input, weight, mask, kept = ctx.saved_tensors
        need_input, need_weight, need_bias = ctx.needs_input_grad[:3]
        again = torch.is_grad_enabled()  # somebody will differentiate this gradient, too
        rows = gradient.reshape(-1, gradient.shape[-1])
        for_input = for_weight = for_bias = None
        if need_input:
            for_input = (rows @ (weight * mask if again else kept)).view_as(input)
        if need_weight:
            for_weight = rows.T @ input.reshape(-1, input.shape[-1])
            for_weight = for_weight * mask if again else for_weight.mul_(mask)
        if need_bias:
            for_bias = rows.sum(dim=0)
        return for_input, for_weight, for_bias, None, None
