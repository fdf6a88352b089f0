"""B-splines on a uniform grid."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["bspline_basis", "fit_bspline"]


def bspline_basis(
    x: Tensor, *, grid_size: int = 5, order: int = 3, low: float = -1.0, high: float = 1.0
) -> Tensor:
    """Evaluate all B-spline basis functions of a uniform grid.

    The grid has ``grid_size`` intervals on [low, high], extended by ``order`` knots on either side,
    so there are ``grid_size + order`` functions. They sum to 1 on [low, high], and outside of the
    extended grid all of them, and their derivatives, are 0. For cubics the closed form is used,

    ``B_m(x) = (relu(2 - r)^3 - 4 relu(1 - r)^3) / 6``,  ``r = |(x - low) / h - (m - 1)|``,

    for other orders the recursion over the order, which on a uniform grid needs no division by knot
    distances.

    Shape:
        ``(*) -> (*, grid_size + order)``

    Example:
        >>> float(bspline_basis(torch.tensor(0.3)).sum())
        1.0
    """
    step = (high - low) / grid_size
    # position on the grid, counted in intervals from the first knot
    t = ((x - low) / step + order).unsqueeze(-1)
    knots = torch.arange(grid_size + 2 * order + 1, dtype=x.dtype, device=x.device)
    if order == 3:
        r = (t - (knots[: grid_size + 3] + 2.0)).abs()
        wide, narrow = (2.0 - r).clamp_min(0.0), (1.0 - r).clamp_min(0.0)
        return (wide * wide * wide - 4.0 * (narrow * narrow * narrow)) / 6.0
    basis = ((t >= knots[:-1]) & (t < knots[1:])).to(x.dtype)
    for k in range(1, order + 1):
        left = (t - knots[: -k - 1]) * basis[..., :-1]
        right = (knots[k + 1 :] - t) * basis[..., 1:]
        basis = (left + right) / k
    return basis


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
