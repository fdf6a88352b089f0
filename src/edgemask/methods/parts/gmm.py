"""Selection by a mixture of two Gaussians on the losses: the lower one holds the right labels."""

from __future__ import annotations

import torch
from torch import Tensor

from edgemask.noise import fit_two_components

__all__ = ["low_loss_posterior", "min_max"]


def min_max(values: Tensor) -> Tensor:
    """Bring values to [0, 1] by their smallest and largest finite one; equal ones become 0.

    Example:
        >>> min_max(torch.tensor([2.0, 4.0, 3.0])).tolist()
        [0.0, 1.0, 0.5]
    """
    finite = values[values.isfinite()]
    if not len(finite):
        return values
    low, width = finite.min(), finite.max() - finite.min()
    return (values - low) / (width if width > 0 else 1.0)


def low_loss_posterior(losses: Tensor, *, reg_covar: float = 5e-4) -> Tensor:
    """Return the probability that each loss comes from the lower of two Gaussians.

    Args:
        losses: One a sample, in [0, 1] (:func:`min_max`), ``(N,)``.
        reg_covar: Added to both variances.

    Returns:
        ``(N,)`` where the losses are. Losses that do not differ all have 1, one that is not finite
        has 0.

    Reference:
        Li et al., DivideMix, ICLR 2020, Section 3.1: 10 iterations, tolerance 1e-2.
    """
    fit = fit_two_components(losses.double().cpu().numpy(), normalise=False, reg_covar=reg_covar)
    return torch.from_numpy(fit.posterior_low).to(losses)
