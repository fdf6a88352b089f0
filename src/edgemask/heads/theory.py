"""The two propositions of the paper as functions of tensors."""

from __future__ import annotations

import torch
from torch import Tensor

from edgemask.heads.sem import edge_scores

__all__ = [
    "gradient_error_bound",
    "obd_bound",
    "obd_estimate",
    "over_masked_edges",
]


@torch.no_grad()
def obd_estimate(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Estimate the loss perturbation of deleting each edge (Eq. 3), for cross-entropy.

    ``1/2 mean_i p_ij (1 - p_ij) a_ijk^2`` with ``a_ijk = w_jk v_ik``: the second-order term of
    Optimal Brain Damage. It does not depend on the labels.

    Shape:
        ``(B, d), (C, d), (C,) -> (C, d)``
    """
    return edge_scores(input, weight, bias, criterion="obd")


@torch.no_grad()
def obd_bound(input: Tensor, weight: Tensor) -> Tensor:
    """Bound that estimate by the activation's second moment: ``Omega_jk / 8`` (Proposition 1).

    Shape:
        ``(B, d), (C, d) -> (C, d)``
    """
    return edge_scores(input, weight, criterion="second_moment") / 8.0


@torch.no_grad()
def over_masked_edges(values: Tensor, mask: Tensor) -> Tensor:
    """Sum a quantity of each edge over the edges that a mask leaves out.

    With :func:`obd_estimate` it is the estimate for a realised mask (diagonal Hessian), with
    :func:`obd_bound` its bound.
    """
    return values[mask == 0].sum()


@torch.no_grad()
def gradient_error_bound(
    label_errors: Tensor, jacobian_norms: Tensor, weight: Tensor, mask: Tensor | None = None
) -> Tensor:
    """Bound the gradient error that wrong labels cause in the backbone (Eqs. 9, 10; Proposition 2).

    ``U = mean_i |y_i - y~_i|_2 * |M * W|_F * |dv_i / dtheta|_2``. With a mask of zeros and
    ones it is never larger than without, and smaller if a nonzero weight is masked and the error is
    not zero. A mask that scales kept edges up (``scaling="inverted"``) may make it larger.

    Args:
        label_errors: ``y_i - y~_i``, true minus given label as one-hot rows, ``(B, C)``.
        jacobian_norms: The norm of each sample's Jacobian of the features, ``(B,)``; with estimated
            norms the result is an estimate, too.
        weight: The classifier's weights, ``(C, d)``.
        mask: The realised mask, or None for the dense classifier.
    """
    kept = weight if mask is None else weight * mask
    size: Tensor = torch.linalg.matrix_norm(kept)
    errors: Tensor = torch.linalg.vector_norm(label_errors, dim=1)
    return (errors * jacobian_norms).mean() * size
