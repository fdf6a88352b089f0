"""A Kolmogorov-Arnold layer as a classifier: an edge is a learnable function of one feature."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from edgemask._options import Range, checked
from edgemask.errors import UserError
from edgemask.heads.splines import bspline_basis, fit_bspline
from edgemask.heads.steps import check_features

__all__ = ["KANLinear"]


class KANLinear(nn.Module):
    """A layer whose logits are sums of learnable functions of the features.

    ``z_j = sum_k phi_jk(v_k)``,  ``phi(v) = w_base silu(v) + w_spline sum_m c_m B_m(v)``, with
    B-splines on a fixed uniform grid. Outside of the (extended) grid the spline and its gradient
    are 0 and an edge is ``w_base silu(v)`` alone: normalise the input, or choose the range to hold
    it, and watch :attr:`outside`.

    Args:
        in_features: Size of each input sample.
        out_features: Number of classes.
        bias: Accepted so that the signature is that of a linear layer; a KAN layer has no bias.
        grid_size: Number of intervals of the grid.
        spline_order: Order of the splines; 3 is cubic.
        grid_range: The interval that the grid covers.
        normalise: What is done to the input: ``"none"``, ``"batch"`` (affine-free batch norm) or
            ``"layer"`` (affine-free layer norm).
        noise: Size of the random functions that the splines start as.
        device: Device of the parameters.
        dtype: Type of the parameters.

    Shape:
        ``(*, in_features) -> (*, out_features)``

    Reference:
        Liu et al., KAN: Kolmogorov-Arnold Networks, 2024.
    """

    @checked
    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        *,
        grid_size: Annotated[int, Range(1)] = 5,
        spline_order: Annotated[int, Range(1)] = 3,
        grid_range: tuple[float, float] = (-1.0, 1.0),
        normalise: Literal["none", "batch", "layer"] = "none",
        noise: float = 0.1,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ):
        super().__init__()
        low, high = grid_range
        if not low < high:
            raise UserError(f"grid_range must be (low, high) with low < high, got {grid_range!r}")
        self.in_features = in_features
        self.out_features = out_features
        self.grid_size = grid_size
        self.spline_order = spline_order
        self.grid_range = (float(low), float(high))
        self.noise = noise
        self.normalise = normalise
        norms: dict[str, nn.Module] = {
            "none": nn.Identity(),
            "batch": nn.BatchNorm1d(in_features, affine=False, device=device, dtype=dtype),
            "layer": nn.LayerNorm(in_features, elementwise_affine=False),
        }
        if normalise not in norms:
            raise UserError(f"normalise must be 'none', 'batch' or 'layer', got {normalise!r}")
        self.norm = norms[normalise]
        edges = (out_features, in_features)
        self.base_weight = nn.Parameter(torch.empty(edges, device=device, dtype=dtype))
        self.spline_scaler = nn.Parameter(torch.empty(edges, device=device, dtype=dtype))
        self.spline_weight = nn.Parameter(
            torch.empty(*edges, grid_size + spline_order, device=device, dtype=dtype)
        )
        self._outside: Tensor | None = None
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Draw new parameters: base and scaler as a linear layer's, splines as small noise."""
        nn.init.kaiming_uniform_(self.base_weight, a=math.sqrt(5))
        nn.init.kaiming_uniform_(self.spline_scaler, a=math.sqrt(5))
        values = torch.rand(
            *self.spline_weight.shape[:2],
            self.grid_size + 1,
            device=self.spline_weight.device,
            dtype=self.spline_weight.dtype,
        )
        low, high = self.grid_range
        self.spline_weight.copy_(
            fit_bspline(
                (values - 0.5) * self.noise / self.grid_size,
                grid_size=self.grid_size,
                order=self.spline_order,
                low=low,
                high=high,
            )
        )

    @property
    def outside(self) -> float:
        """The share of the last batch's (normalised) inputs that lay outside of the grid."""
        return math.nan if self._outside is None else float(self._outside)

    def basis(self, input: Tensor) -> tuple[Tensor, Tensor]:
        """Normalise samples and return ``silu(v)`` and the splines' basis at them.

        Features come first: neither the sums over edges nor the products that SKAN scores them by
        need anything laid out anew.

        Shape:
            ``(N, d) -> (d, N), (d, grid_size + spline_order, N)``
        """
        x = self.norm(input).T.contiguous()
        low, high = self.grid_range
        if not _is_exporting():
            with torch.no_grad():
                self._outside = ((x < low) | (x > high)).float().mean()
        splines = bspline_basis(
            x, grid_size=self.grid_size, order=self.spline_order, low=low, high=high, dim=1
        )
        return F.silu(x), splines

    def combine(self, base: Tensor, splines: Tensor, mask: Tensor | None = None) -> Tensor:
        """Sum the edge functions, those that a mask keeps, into logits."""
        base_weight: Tensor = self.base_weight
        scaler: Tensor = self.spline_scaler
        if mask is not None:
            mask = mask.to(scaler.dtype)
            base_weight, scaler = base_weight * mask, scaler * mask
        coefficients = (self.spline_weight * scaler.unsqueeze(-1)).flatten(1)
        sums = torch.addmm(base_weight @ base, coefficients, splines.flatten(0, 1))
        return sums.T.contiguous()

    def forward(self, input: Tensor) -> Tensor:
        """Apply the layer."""
        check_features(self, input)
        samples = input.reshape(-1, self.in_features)
        logits = self.combine(*self.basis(samples))
        return logits.view(*input.shape[:-1], self.out_features)

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"grid_size={self.grid_size}, spline_order={self.spline_order}, "
            f"grid_range={self.grid_range}, normalise={self.normalise!r}"
        )


def _is_exporting() -> bool:
    # torch before 2.7 cannot tell export from compilation
    asked: Callable[[], bool] = getattr(torch.compiler, "is_exporting", torch.compiler.is_compiling)
    return asked()
