"""B-splines on a uniform grid."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

__all__ = ["bspline_basis", "fit_bspline"]


def bspline_basis(
    x: Tensor,
    *,
    grid_size: int = 5,
    order: int = 3,
    low: float = -1.0,
    high: float = 1.0,
    dim: int = -1,
) -> Tensor:
    """Evaluate all B-spline basis functions of a uniform grid.

    The grid has ``grid_size`` intervals on [low, high], extended by ``order`` knots on either side,
    so there are ``grid_size + order`` functions. They sum to 1 on [low, high], and outside of the
    extended grid all of them, and their derivatives, are 0. For cubics the closed form is used,

    ``B_m(x) = (relu(2 - r)^3 - 4 relu(1 - r)^3) / 6``,  ``r = |(x - low) / h - (m - 1)|``,

    for other orders the recursion over the order, which on a uniform grid needs no division by knot
    distances.

    Args:
        x: Where to evaluate.
        grid_size: Number of intervals.
        order: Order of the splines.
        low: Where the grid begins.
        high: Where it ends.
        dim: Where the dimension of the functions is put.

    Shape:
        ``(*) -> (*, grid_size + order)``, or with that dimension at ``dim``.

    Example:
        >>> float(bspline_basis(torch.tensor(0.3)).sum())
        1.0
    """
    # position on the grid, counted in intervals from the first knot
    t = ((x - low) * (grid_size / (high - low)) + order).unsqueeze(dim)
    dim = dim % t.dim()
    shape = [-1 if i == dim else 1 for i in range(t.dim())]
    knots = torch.arange(grid_size + 2 * order + 1, dtype=x.dtype, device=x.device).view(shape)
    if order != 3:
        return _recursion(t, knots, order, dim)
    centres = knots.narrow(dim, 2, grid_size + 3)
    if torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active():
        return _cubic(t - centres)
    basis: Tensor = _CubicBasis.apply(t, centres)  # type: ignore[no-untyped-call]
    return basis


def _recursion(t: Tensor, knots: Tensor, order: int, dim: int) -> Tensor:
    count = knots.shape[dim]
    basis = (t >= knots.narrow(dim, 0, count - 1)) & (t < knots.narrow(dim, 1, count - 1))
    basis = basis.to(t.dtype)
    for k in range(1, order + 1):
        size = count - 1 - k
        left = (t - knots.narrow(dim, 0, size)) * basis.narrow(dim, 0, size)
        right = (knots.narrow(dim, k + 1, size) - t) * basis.narrow(dim, 1, size)
        basis = (left + right) / k
    return basis


def _cubic(distance: Tensor) -> Tensor:
    r = distance.abs()
    wide, narrow = (2.0 - r).clamp_min(0.0), (1.0 - r).clamp_min(0.0)
    return (wide * wide * wide - 4.0 * (narrow * narrow * narrow)) / 6.0


class _CubicBasis(torch.autograd.Function):
    """The closed form and its derivative, in place: nothing of its size is kept for backward."""

    @staticmethod
    def forward(ctx: Any, t: Tensor, centres: Tensor) -> Tensor:
        ctx.save_for_backward(t, centres)
        wide = (t - centres).abs_().neg_().add_(2.0)
        narrow = (wide - 1.0).clamp_min_(0.0)
        wide.clamp_min_(0.0)
        narrow.mul_(narrow * narrow)
        return wide.mul_(wide * wide).sub_(narrow, alpha=4.0).mul_(1.0 / 6.0)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, None]:
        t, centres = ctx.saved_tensors
        if torch.is_grad_enabled():  # somebody will differentiate this gradient, too
            distance = t - centres
            r = distance.abs()
            wide, narrow = (2.0 - r).clamp_min(0.0), (1.0 - r).clamp_min(0.0)
            slope = distance.sign() * (2.0 * narrow * narrow - 0.5 * wide * wide)
            return (gradient * slope).sum_to_size(t.shape), None
        distance = t - centres
        wide = distance.abs().neg_().add_(2.0)
        narrow = (wide - 1.0).clamp_min_(0.0)
        wide.clamp_min_(0.0)
        slope = wide.mul_(wide).mul_(-0.5).addcmul_(narrow, narrow, value=2.0)
        slope.mul_(distance.sign_()).mul_(gradient)
        return slope.sum_to_size(t.shape), None


def fit_bspline(
    values: Tensor, *, grid_size: int = 5, order: int = 3, low: float = -1.0, high: float = 1.0
) -> Tensor:
    """Find the coefficients, smallest first, that pass through values at the grid points.

    Shape:
        ``(*, grid_size + 1) -> (*, grid_size + order)``
    """
    points = torch.linspace(low, high, grid_size + 1, dtype=torch.float64, device=values.device)
    # the last point belongs to no half-open interval of the recursion
    points[-1] -= 1e-9 * (high - low)
    basis = bspline_basis(points, grid_size=grid_size, order=order, low=low, high=high)
    inverse: Tensor = torch.linalg.pinv(basis)
    return values @ inverse.T.to(values.dtype)
