"""DropConnect: edges dropped at random, one mask per step."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from edgemask._options import Range, checked
from edgemask.heads.philox import uniform
from edgemask.heads.steps import MaskingHead, check_features, to_linear

__all__ = ["DropConnectLinear"]


class DropConnectLinear(MaskingHead, nn.Linear):
    """A linear layer that keeps each edge with probability q = 1 - p, one mask per step.

    ``z = (M * W) v / q + b`` with ``M_jk = 1`` with probability q, else 0.

    Args:
        in_features: Size of each input sample.
        out_features: Number of classes.
        bias: Whether to learn an additive bias; it is never masked.
        p: Probability that an edge is dropped.
        scaling: ``"inverted"``: kept weights are divided by q in training and the dense weights are
            used at inference; ``"none"``: the weights are used as they are in training and times q
            at inference, as in the paper.
        inference: ``"scaled"``: logits of the expected weights, one linear layer. ``"moment"``: the
            logit of a random mask is close to normal with mean m = q W v and variance
            q (1 - q) (W * W)(v * v); the output is the logarithm of the softmax averaged over
            ``samples`` draws from it. ``"probit"``: the same average in closed form,
            m / sqrt(1 + pi variance / 8). Averaging logits instead would be ``"scaled"`` again.
        samples: How many draws ``"moment"`` takes.
        seed: Seed of the masks. Default: one number of torch's generator.
        device: Device of the parameters.
        dtype: Type of the parameters.

    Reference:
        Wan et al., Regularization of Neural Networks using DropConnect, ICML 2013.
    """

    @checked
    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        *,
        p: Annotated[float, Range(0, below=1)] = 0.5,
        scaling: Literal["inverted", "none"] = "inverted",
        inference: Literal["scaled", "moment", "probit"] = "scaled",
        samples: Annotated[int, Range(1)] = 64,
        seed: int | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ):
        super().__init__(in_features, out_features, bias, device=device, dtype=dtype)
        self.p = p
        self.scaling = scaling
        self.inference = inference
        self.samples = samples
        self.reset_state(seed=seed)

    def expected_retention(self) -> float:
        return 1.0 - self.p

    def next_mask(self, samples: Tensor) -> Tensor:
        mask = self.draw_again(*self.mask_options(self.steps))
        self.steps.add_(1)
        return mask

    def mask_options(self, steps: Tensor | int) -> tuple[Any, ...]:
        return steps, self.p, self.scaling

    def draw_again(self, steps: Tensor, p: float, scaling: str) -> Tensor:
        kept = self.uniform(steps=steps) > p
        return kept / (1.0 - p) if scaling == "inverted" else kept

    def forward(self, input: Tensor) -> Tensor:
        """Apply the layer; in training, through the edges that this step keeps."""
        check_features(self, input)
        mask = self.mask_for(input) if self.p > 0.0 else None
        if mask is not None:
            return F.linear(input, self.weight * mask.to(self.weight.dtype), self.bias)
        scale = 1.0 if self.scaling == "inverted" else 1.0 - self.p
        weight = self.weight if scale == 1.0 else self.weight * scale
        mean = F.linear(input, weight, self.bias)
        if self.inference == "scaled" or self.p == 0.0:
            return mean
        spread = (1.0 - self.p) * self.p * (1.0 if self.scaling == "none" else (1.0 - self.p) ** -2)
        variance = spread * F.linear(input.square(), self.weight.square())
        if self.inference == "probit":
            return mean / torch.sqrt(1.0 + math.pi / 8.0 * variance)
        return self._log_mean_softmax(mean, variance.sqrt())

    def _log_mean_softmax(self, mean: Tensor, deviation: Tensor) -> Tensor:
        # a step that training never reaches
        step, rows = torch.full_like(self.steps, -1), self.samples * mean.shape[:-1].numel()
        numbers = uniform(self.seed, step, rows, self.out_features, self._streams["samples"])
        normal = torch.special.ndtri(numbers.to(mean.dtype)).view(self.samples, *mean.shape)
        draws = torch.log_softmax(mean + deviation * normal, dim=-1)
        return torch.logsumexp(draws, dim=0) - math.log(self.samples)

    def to_plain(self) -> nn.Linear:
        """Return the plain layer that predicts as ``"scaled"`` inference does."""
        plain = to_linear(self)
        if self.scaling == "none" and self.p > 0.0:
            plain.weight = nn.Parameter(self.weight.detach() * (1.0 - self.p))
        return plain

    def extra_repr(self) -> str:
        return (
            f"{nn.Linear.extra_repr(self)}, p={self.p}, scaling={self.scaling!r}, "
            f"inference={self.inference!r}"
        )
