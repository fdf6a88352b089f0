"""Heads that only serve as controls: what else makes a network fit its labels less?"""

from __future__ import annotations

from typing import Annotated, Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

import edgemask as em
from edgemask._options import Range
from edgemask.heads.sem import SEMLinear, normalise_scores, smooth_scores
from edgemask.heads.steps import MaskingHead

Device = torch.device | str | None


class AddDecay(torch.autograd.Function):
    """A parameter as it is, with ``decay`` times itself added to its gradient."""

    @staticmethod
    def forward(ctx: Any, parameter: Tensor, decay: float) -> Tensor:
        ctx.save_for_backward(parameter)
        ctx.decay = decay
        return parameter.view_as(parameter)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (parameter,) = ctx.saved_tensors
        return grad + ctx.decay * parameter, None


class DecayedLinear(nn.Linear):
    """A linear layer with an L2 term of its own: its gradient gets ``decay`` times the weights."""

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        *,
        decay: Annotated[float, Range(0)] = 0.1,
        device: Device = None,
        dtype: torch.dtype | None = None,
    ):
        super().__init__(in_features, out_features, bias, device, dtype)
        self.decay = decay

    def forward(self, input: Tensor) -> Tensor:
        """Apply the layer; the backward pass adds the L2 term."""
        weight, bias = (
            None if parameter is None else AddDecay.apply(parameter, self.decay)
            for parameter in (self.weight, self.bias)
        )
        return linear(input, weight, bias)


class BoundedLinear(nn.Linear):
    """A linear layer whose weights of a class have a norm of at most ``bound``."""

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        *,
        bound: Annotated[float, Range(above=0)] = 0.3,
        device: Device = None,
        dtype: torch.dtype | None = None,
    ):
        super().__init__(in_features, out_features, bias, device, dtype)
        self.bound = bound

    def forward(self, input: Tensor) -> Tensor:
        """Apply the layer with its weights inside the bound."""
        with torch.no_grad():
            norm = self.weight.norm(dim=1, keepdim=True)
            self.weight.mul_((self.bound / norm).clamp_max(1.0))
        return linear(input, self.weight, self.bias)


class MatchedLinear(SEMLinear):
    """Edges dropped by chance at the rate at which ``capped(cap)`` would keep them on this batch.

    Args:
        in_features: Size of each input sample.
        out_features: Number of classes.
        bias: Whether to learn an additive bias.
        cap: The cap of the policy that it is the control of.
        weighted: Whether the rate is that of squared activations instead of edges.
        seed: Seed of the masks.
        device: Device of the parameters.
        dtype: Type of the parameters.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        *,
        cap: Annotated[float, Range(0, 1)] = 0.3,
        weighted: bool = True,
        seed: int | None = None,
        device: Device = None,
        dtype: torch.dtype | None = None,
    ):
        super().__init__(in_features, out_features, bias, seed=seed, device=device, dtype=dtype)
        self.cap = cap
        self.weighted = weighted

    def next_mask(self, samples: Tensor) -> Tensor:
        """Update the scores as SEM does, and keep every edge with the same chance."""
        raw = self.raw_scores(samples)
        scores = smooth_scores(self.scores, normalise_scores(raw), self.beta, first=self.steps == 0)
        weights = raw.square() if self.weighted else torch.ones_like(raw)
        rate = (scores.clamp_max(self.cap) * weights).sum() / weights.sum()
        mask = self.uniform() < rate
        self.scores.copy_(scores)
        self.steps.add_(1)
        return mask

    def mask_options(self, steps: Tensor | int) -> None:
        """Keep the mask: it is not drawn by a policy."""

    def _new_mask(self, input: Tensor) -> Any:
        return MaskingHead._new_mask(self, input)


em.register("head", "decayed", DecayedLinear)
em.register("head", "bounded", BoundedLinear)
em.register("head", "matched", MatchedLinear)
