"""The bounds of Propositions 1 and 2, measured on a training step."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from edgemask.diagnostics.gradient_error import known_truth
from edgemask.heads import theory

__all__ = ["gradient_bounds", "jacobian_norms", "masking_bounds"]


def jacobian_norms(
    features: Tensor,
    parameters: Sequence[Tensor],
    samples: Tensor,
    *,
    draws: int | None = None,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Return the Frobenius norm of ``dv_i / dtheta`` for some samples of a batch.

    Exact, it takes one backward pass a sample and feature. With ``draws``, random directions u of
    unit variance give ``E |J^T u|^2 = |J|_F^2``: one pass a sample and draw. The Frobenius norm is
    never below the spectral one, so a bound that uses it still bounds.

    Args:
        features: What the head reads, with its graph, ``(B, d)``.
        parameters: Those of the backbone.
        samples: Rows of the batch.
        draws: Random directions a sample; None is exact.
        generator: Of the random directions.
    """
    width = features.shape[1]
    norms = features.new_zeros(len(samples), dtype=torch.float64)
    for place, row in enumerate(samples.tolist()):
        if draws is None:
            directions = torch.eye(width, dtype=features.dtype)
        else:
            directions = torch.randn(draws, width, generator=generator, dtype=features.dtype)
        total = 0.0
        for direction in directions.to(features.device):
            grads = torch.autograd.grad(
                features[row], parameters, direction, retain_graph=True, materialize_grads=True
            )
            total += sum(float(grad.double().square().sum()) for grad in grads)
        norms[place] = (total / (1 if draws is None else draws)) ** 0.5
    return norms


def masking_bounds(
    features: Tensor, weight: Tensor, mask: Tensor, bias: Tensor | None = None
) -> dict[str, float]:
    """Return what masking is estimated to cost, and Proposition 1's bound on it.

    Returns:
        ``obd/masked``: the OBD estimate summed over masked edges; ``obd/bound``: an eighth of their
        second moments, never smaller; ``obd/all``: the estimate summed over all edges.
    """
    estimate = theory.obd_estimate(features, weight, bias)
    bound = theory.obd_bound(features, weight)
    return {
        "obd/masked": float(theory.over_masked_edges(estimate, mask)),
        "obd/bound": float(theory.over_masked_edges(bound, mask)),
        "obd/all": float(estimate.sum()),
    }


def gradient_bounds(
    features: Tensor,
    weight: Tensor,
    mask: Tensor,
    given: Tensor,
    clean: Tensor,
    parameters: Sequence[Tensor],
    *,
    samples: int = 8,
    draws: int = 1,
    generator: torch.Generator | None = None,
) -> dict[str, float]:
    """Return Proposition 2's bounds on the gradient error, with the mask and without.

    The Jacobian norms are measured on a few wrongly labelled samples and stand for all of them.

    Args:
        features: What the head reads, with its graph, ``(B, d)``.
        weight: The head's weights, ``(C, d)``.
        mask: The mask of the step.
        given: The labels trained on, ``(B,)``.
        clean: The true labels; -1 for a sample of no class.
        parameters: Those of the backbone that the bound is about.
        samples: How many samples are measured; all wrong ones if there are fewer.
        draws: Random directions a sample.
        generator: Of the random directions.

    Returns:
        ``bound/masked`` (Eq. 9), ``bound/dense`` (Eq. 10) and ``bound/ratio`` of the two, which
        needs no Jacobian: ``|M * W|_F / |W|_F``.
    """
    truth = known_truth(given, clean)
    wrong = (truth != given).nonzero().flatten()
    classes = weight.shape[0]
    errors = F.one_hot(truth, classes).double() - F.one_hot(given, classes).double()
    some = wrong[:samples]
    measured = jacobian_norms(features, parameters, some, draws=draws, generator=generator)
    typical = measured.mean() if len(some) else measured.new_zeros(())
    norms = typical.expand(len(given))
    dense = weight.detach().double()
    masked = theory.gradient_error_bound(errors, norms, dense, mask.double())
    plain = theory.gradient_error_bound(errors, norms, dense)
    kept = torch.linalg.matrix_norm(dense * mask)
    return {
        "bound/masked": float(masked),
        "bound/dense": float(plain),
        "bound/ratio": float(kept / torch.linalg.matrix_norm(dense).clamp_min(1e-12)),
    }
