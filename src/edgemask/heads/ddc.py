"""Dynamic DropConnect: edges dropped by the size of their last gradient."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

from edgemask._options import Range, checked
from edgemask.errors import UserError
from edgemask.heads.steps import MaskingHead, check_features, is_distributed, to_linear

__all__ = ["DynamicDropConnectLinear"]


class DynamicDropConnectLinear(MaskingHead, nn.Linear):
    """A linear layer that drops edges with small gradients more often, one mask per step.

    With g the gradient that the last step left at the effective weights, over the whole matrix:

    ``z = (|g| - mean|g|) / (std|g| + 1e-9)``, ``c = 1 - sigmoid(z)``, 0 where c <= threshold,
    ``p_drop = p0 + pg c``, ``W_eff = W * keep / (mean(keep) + 1e-9)``.

    The mask is kept until the next step: the gradient that it came from is not.
    Before the first gradient, after one that is not finite, and at inference, the layer is dense.

    Args:
        in_features: Size of each input sample.
        out_features: Number of classes.
        bias: Whether to learn an additive bias; it is never masked.
        p0: Drop probability of an edge with a large gradient.
        pg: What is added to it in proportion to how small the gradient is.
        threshold: Candidates up to here get p0 only.
        drop: ``"small"`` drops small gradients, ``"large"`` large ones, as the released code can.
        mode: ``"ste"``, as the released code: dropped edges receive the gradient, too, and no
            factor multiplies it; ``"autograd"``: the gradient of ``W * keep / mean(keep)``.
        seed: Seed of the masks. Default: one number of torch's generator.
        device: Device of the parameters.
        dtype: Type of the parameters.

    Reference:
        Yang and Chen, Dynamic DropConnect, arXiv 2502.19948, and its released code.
    """

    gradient: Tensor

    _state_names = ("steps", "seed", "gradient")

    @checked
    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        *,
        p0: Annotated[float, Range(0, below=1)] = 0.3,
        pg: Annotated[float, Range(0, below=1)] = 0.5,
        threshold: float = 0.5,
        drop: Literal["small", "large"] = "small",
        mode: Literal["ste", "autograd"] = "ste",
        seed: int | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ):
        super().__init__(in_features, out_features, bias, device=device, dtype=dtype)
        if p0 + pg >= 1.0:
            raise UserError(f"the sum of p0 and pg must be below 1, got {p0!r} and {pg!r}")
        self.p0, self.pg, self.threshold = p0, pg, threshold
        self.drop = drop
        self.mode = mode
        self.reset_state(seed=seed)

    def reset_state(self, *, seed: int | None = None) -> None:
        """Forget the last gradient and start afresh, with a new seed unless one is given."""
        super().reset_state(seed=seed)
        self._arrived: Tensor | None = None
        self.register_buffer("gradient", torch.zeros_like(self.weight, requires_grad=False))

    def drop_probability(self, gradient: Tensor) -> Tensor:
        """Return the probability that each edge is dropped, given its last gradient."""
        size = gradient.abs()
        z = (size - size.mean()) / (size.std() + 1e-9)
        candidate = torch.sigmoid(z) if self.drop == "large" else 1.0 - torch.sigmoid(z)
        return self.p0 + self.pg * candidate.where(candidate > self.threshold, 0.0)

    def next_mask(self, samples: Tensor) -> Tensor:
        numbers = self.uniform()
        self.steps.add_(1)
        gradient = self.gradient if self._arrived is None else self._arrived
        self._arrived = None
        if is_distributed():
            gradient = gradient.clone()
            dist.all_reduce(gradient)
        chance = self.drop_probability(gradient)
        kept = (numbers > chance).to(gradient.dtype)
        usable = gradient.any() & gradient.std().isfinite()
        return (kept / (kept.mean() + 1e-9)).where(usable, 1.0)

    def forward(self, input: Tensor) -> Tensor:
        """Apply the layer; in training, through the edges that this step keeps."""
        check_features(self, input)
        mask = self.mask_for(input)
        if mask is None:
            return F.linear(input, self.weight, self.bias)
        if self.mode == "autograd":
            effective = self.weight * mask
        else:
            effective = self.weight + (self.weight * mask - self.weight).detach()
        if effective.requires_grad:
            effective.register_hook(self._remember)
        return F.linear(input, effective, self.bias)

    @torch.no_grad()
    def _remember(self, gradient: Tensor) -> None:
        """Keep what backward brings to the effective weights; several passes of a step add up.

        The buffer is for checkpoints. Distributed wrappers overwrite buffers with those of the
        first rank, so that a rank's own share is kept beside it until the next step.
        """
        self._arrived = gradient.clone() if self._arrived is None else self._arrived + gradient
        self.gradient.copy_(self._arrived)

    def _apply(self, fn: Any, recurse: bool = True) -> Self:
        self._arrived = None  # the buffer holds it, too, and moves
        result: Self = super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        return result

    def _load_from_state_dict(self, *args: Any) -> None:
        self._arrived = None
        super()._load_from_state_dict(*args)

    def to_plain(self) -> nn.Linear:
        """Return the plain layer with the same parameters."""
        return to_linear(self)

    def extra_repr(self) -> str:
        return (
            f"{nn.Linear.extra_repr(self)}, p0={self.p0}, pg={self.pg}, drop={self.drop!r}, "
            f"mode={self.mode!r}"
        )
