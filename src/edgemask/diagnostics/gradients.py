"""What wrong labels do to the gradient (Fig. 3c), and the bounds of Propositions 1 and 2."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from edgemask.heads import theory

__all__ = [
    "GradientError",
    "block_parameters",
    "gradient_bounds",
    "gradient_error",
    "jacobian_norms",
    "known_truth",
    "masking_bounds",
]


@dataclass(frozen=True)
class GradientError:
    """The gradient of given labels against that of true labels, at some parameters."""

    error: float
    """``D_f = |g(given) - g(true)|_2``."""

    relative: float
    """``D_f / |g(true)|_2``. A mask shrinks every gradient, so the absolute error alone says little
    about robustness."""

    cosine: float
    """Cosine of the angle between the two gradients."""


def known_truth(given: Tensor, clean: Tensor) -> Tensor:
    """Return the true labels; the given one where a sample belongs to none of the classes (-1)."""
    return torch.where(clean >= 0, clean, given)


def block_parameters(model: nn.Module) -> list[nn.Parameter]:
    """Return the parameters of a model's last convolutional block (its ``last_block``).

    Raises:
        ValueError: If the model does not say which block that is.
    """
    name = getattr(model, "last_block", None)
    if name is None:
        raise ValueError(f"{type(model).__name__} has no last convolutional block (last_block)")
    return list(model.get_submodule(name).parameters())


def gradient_error(
    logits: Tensor,
    given: Tensor,
    clean: Tensor,
    parameters: Sequence[Tensor],
    *,
    criterion: Callable[[Tensor, Tensor], Tensor] | None = None,
) -> GradientError:
    """Compare the gradients of given and of true labels, from one and the same forward pass.

    The pass is the training step's own, so both gradients go through the same mask. Nothing is
    written: no ``.grad`` changes, and the graph can still be used for ``backward``.

    For cross entropy the error is linear in the labels, ``J^T (onehot(y*) - onehot(y)) / B`` with J
    the Jacobian of the logits, whatever the prediction. Other losses take two gradients.

    Args:
        logits: Logits of a batch, with their graph, ``(B, C)``.
        given: The labels trained on, ``(B,)``.
        clean: The true labels; -1 for a sample of no class, which then causes no error.
        parameters: Where the gradients are compared: :func:`block_parameters`.
        criterion: ``(logits, labels) -> scalar``; None means cross entropy.

    Example:
        >>> layer = nn.Linear(3, 2)
        >>> z = layer(torch.ones(4, 3))
        >>> same = gradient_error(z, torch.zeros(4).long(), torch.zeros(4).long(), [layer.weight])
        >>> same.error, round(same.cosine, 4)
        (0.0, 1.0)
    """
    truth = known_truth(given, clean)
    if criterion is None:
        classes, size = logits.shape[1], len(logits)
        right = F.one_hot(truth, classes).to(logits.dtype)
        wrong = F.one_hot(given, classes).to(logits.dtype)
        error = _pull_back(logits, (right - wrong) / size, parameters)
        true = _pull_back(logits, (logits.detach().softmax(1) - right) / size, parameters)
        noisy = true + error
    else:
        noisy = _gradient(criterion(logits, given), parameters)
        true = _gradient(criterion(logits, truth), parameters)
        error = noisy - true
    size_true = torch.linalg.vector_norm(true)
    size_error = torch.linalg.vector_norm(error)
    tiny = torch.finfo(true.dtype).tiny
    return GradientError(
        error=float(size_error),
        relative=float(size_error / size_true.clamp_min(tiny)) if size_error > 0 else 0.0,
        cosine=float(F.cosine_similarity(noisy, true, dim=0, eps=tiny)),
    )


def _pull_back(outputs: Tensor, cotangent: Tensor, parameters: Sequence[Tensor]) -> Tensor:
    return _flat(
        torch.autograd.grad(
            outputs, parameters, cotangent, retain_graph=True, materialize_grads=True
        )
    )


def _gradient(loss: Tensor, parameters: Sequence[Tensor]) -> Tensor:
    return _flat(torch.autograd.grad(loss, parameters, retain_graph=True, materialize_grads=True))


def _flat(tensors: Sequence[Tensor]) -> Tensor:
    return torch.cat([tensor.flatten().double() for tensor in tensors])


def jacobian_norms(
    features: Tensor,
    parameters: Sequence[Tensor],
    samples: Tensor,
    *,
    draws: int | None = None,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Return the Frobenius norm of ``dv_i / dtheta`` for some samples of a batch.

    The exact value takes one backward pass per sample and feature. The Frobenius norm is never
    below the spectral one, so a bound that uses it still holds. With ``draws`` the norm is
    estimated, and so is what is computed from it: random directions u of unit variance give
    ``E |J^T u|^2 = |J|_F^2``, one pass per sample and draw.

    Args:
        features: What the head reads, with its graph, ``(B, d)``.
        parameters: Those of the backbone.
        samples: Rows of the batch.
        draws: Random directions per sample; None is exact.
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
    samples: int | None = None,
    draws: int | None = None,
    generator: torch.Generator | None = None,
) -> dict[str, float]:
    """Return Proposition 2's bounds on the gradient error, with the mask and without.

    The bounds take one backward pass per wrongly labelled sample and feature. With ``samples`` or
    ``draws`` they are estimated, at much less cost: an estimate is near the bound and may lie on
    either side of it.

    Args:
        features: What the head reads, with its graph, ``(B, d)``.
        weight: The head's weights, ``(C, d)``.
        mask: The mask of the step.
        given: The labels trained on, ``(B,)``.
        clean: The true labels; -1 for a sample of no class.
        parameters: Those of the backbone that the bound is about.
        samples: How many wrongly labelled samples are measured, at most; their mean stands for the
            others. None measures all.
        draws: Random directions per sample; None computes the norms exactly.
        generator: Of the random directions.

    Returns:
        ``bound/masked`` (Eq. 9) and ``bound/dense`` (Eq. 10), or ``bound_estimate/masked`` and
        ``bound_estimate/dense`` with ``samples`` or ``draws``; and ``bound/ratio`` of the two,
        exact in both cases, as it needs no Jacobian: ``|M * W|_F / |W|_F``.
    """
    truth = known_truth(given, clean)
    wrong = (truth != given).nonzero().flatten()
    classes = weight.shape[0]
    errors = F.one_hot(truth, classes).double() - F.one_hot(given, classes).double()
    measured = wrong if samples is None else wrong[:samples]
    found = jacobian_norms(features, parameters, measured, draws=draws, generator=generator)
    norms = found.new_zeros(len(given))
    if len(measured):
        norms[wrong] = found.mean()
        norms[measured] = found
    dense = weight.detach().double()
    masked = theory.gradient_error_bound(errors, norms, dense, mask.double())
    plain = theory.gradient_error_bound(errors, norms, dense)
    kept = torch.linalg.matrix_norm(dense * mask)
    name = "bound" if samples is None and draws is None else "bound_estimate"
    return {
        f"{name}/masked": float(masked),
        f"{name}/dense": float(plain),
        "bound/ratio": float(kept / torch.linalg.matrix_norm(dense).clamp_min(1e-12)),
    }
