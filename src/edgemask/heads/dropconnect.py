"""DropConnect: edges dropped at random, one mask for a step."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from edgemask.errors import UserError
from edgemask.heads.checks import check_features
from edgemask.heads.functional import masked_linear
from edgemask.heads.random import counter_uniform, step_key
from edgemask.heads.state import SeededHead, to_linear

__all__ = ["DropConnectLinear"]


class DropConnectLinear(SeededHead, nn.Linear):
    """A linear layer that keeps each edge with probability q = 1 - p, one mask a step.

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
        seed: Seed of the masks. Default: chosen from torch's random state, which does not move.
        device: Device of the parameters.
        dtype: Type of the parameters.

    Reference:
        Wan et al., Regularization of Neural Networks using DropConnect, ICML 2013.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        *,
        p: float = 0.5,
        scaling: str = "inverted",
        inference: str = "scaled",
        samples: int = 64,
        seed: int | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ):
        super().__init__(in_features, out_features, bias, device=device, dtype=dtype)
        if not 0.0 <= p < 1.0:
            raise UserError(f"p must lie in [0, 1), got {p!r}")
        if scaling not in ("inverted", "none"):
            raise UserError(f"scaling must be 'inverted' or 'none', got {scaling!r}")
        if inference not in ("scaled", "moment", "probit"):
            raise UserError(f"inference must be 'scaled', 'moment' or 'probit', got {inference!r}")
        if samples < 1:
            raise UserError(f"samples must be at least 1, got {samples!r}")
        self.p = float(p)
        self.scaling = scaling
        self.inference = inference
        self.samples = samples
        self.reset_state(seed=seed)

    @property
    def retention(self) -> float:
        """The share of edges kept by the last mask; the expected one before the first."""
        if self.last_mask is None:
            return 1.0 - self.p
        return float((self.last_mask != 0).float().mean())

    def draw_mask(self, samples: Tensor, squares: Tensor) -> Tensor:
        key = self.next_key()
        self.steps.add_(1)
        uniform = counter_uniform(key, *self.weight.shape, device=self.weight.device)
        kept = (uniform > self.p).to(self.weight.dtype)
        return kept / (1.0 - self.p) if self.scaling == "inverted" else kept

    def forward(self, input: Tensor) -> Tensor:
        """Apply the layer; in training, through the edges that this step keeps."""
        check_features(self, input)
        mask = self.mask_for(input) if self.p > 0.0 else None
        if mask is not None:
            return masked_linear(input, self.weight, mask, self.bias)
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
        key = step_key(self.seed, torch.full_like(self.steps, -1))
        rows = self.samples * mean.shape[:-1].numel()
        uniform = counter_uniform(key, rows, self.out_features, device=mean.device)
        normal = torch.special.ndtri(uniform.to(mean.dtype)).view(self.samples, *mean.shape)
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
