"""Masking a linear layer that an adapter wraps, as LoRA and its relatives in peft do.

What such a layer computes is linear in its input, with weights that are a sum: the frozen ones and
those that are trained. The edges of the layer are the entries of that sum, so it is the sum that a
head scores and masks; to mask the frozen weights alone would leave wrong labels their way through
the trained ones. The adapter stays where it is, with its parameters, methods and names.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from edgemask.errors import UserError

__all__ = ["HEAD_NAME", "inner_linear", "is_adapter", "is_masked", "mask_adapter", "unmask_adapter"]

HEAD_NAME = "edge_mask"
"""Under which name an adapter holds its head."""


def is_adapter(module: nn.Module) -> bool:
    """Whether a module adds to a linear layer inside."""
    return isinstance(module._modules.get("base_layer"), nn.Linear) and hasattr(
        module, "in_features"
    )


def inner_linear(adapter: nn.Module) -> nn.Linear:
    """Return a plain layer of zeros with an adapter's size, device and (floating-point) type."""
    base: Any = adapter.base_layer
    dtype = base.weight.dtype if base.weight.is_floating_point() else torch.float32  # quantised
    plain = nn.Linear(base.in_features, base.out_features, device="meta")
    for name, shape in (("weight", plain.weight.shape), ("bias", plain.bias.shape)):
        zeros = torch.zeros(shape, dtype=dtype, device=base.weight.device)
        setattr(plain, name, nn.Parameter(zeros))
    return plain.train(adapter.training)


def mask_adapter(adapter: nn.Module, head: nn.Module) -> None:
    """Let a head do what an adapter does, on the adapter's weights."""
    unmask_adapter(adapter)
    for name in ("weight", "bias"):  # the parameters are the adapter's; these hold their values
        value = getattr(head, name)
        delattr(head, name)
        head.register_buffer(name, value.detach(), persistent=False)
    adapter.add_module(HEAD_NAME, head)
    adapter.register_forward_hook(_apply_head, with_kwargs=True)


def unmask_adapter(adapter: nn.Module) -> None:
    """Undo :func:`mask_adapter`, if it was done."""
    head = adapter._modules.get(HEAD_NAME)
    if head is None:
        return
    if getattr(head, "inference", "dense") == "expected":
        raise UserError(
            "inference='expected' cannot be worked into the weights of an adapter: set it to "
            "'dense' before detaching, or merge the adapter into its layer"
        )
    delattr(adapter, HEAD_NAME)
    for key, hook in list(adapter._forward_hooks.items()):
        if hook is _apply_head:
            del adapter._forward_hooks[key], adapter._forward_hooks_with_kwargs[key]


def is_masked(module: nn.Module) -> bool:
    """Whether a module is an adapter that a head masks."""
    return is_adapter(module) and HEAD_NAME in module._modules


def _effective(adapter: Any, like: Tensor) -> tuple[Tensor, Tensor]:
    """Return the weights and the bias of what an adapter computes, with their gradient.

    An adapter is linear in its input: its outputs for zero and for the unit vectors say it all.
    """
    width = adapter.in_features
    probe = torch.eye(width + 1, width, dtype=like.dtype, device=like.device).roll(1, dims=0)
    outputs = adapter.forward(probe)  # without hooks
    return (outputs[1:] - outputs[0]).T.contiguous(), outputs[0]


def _apply_head(adapter: Any, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> Any:
    head = adapter._modules[HEAD_NAME]
    if getattr(head, "inference", None) == "dense" and not head.is_step():
        return output
    input = args[0] if args else next(iter(kwargs.values()))
    head.weight, head.bias = weight, bias = _effective(adapter, input)
    try:
        return head(input)
    finally:
        head.weight, head.bias = weight.detach(), bias.detach()
