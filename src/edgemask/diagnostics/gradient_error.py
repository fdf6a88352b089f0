"""How far wrong labels turn the gradient of the backbone (Fig. 3c)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

__all__ = ["GradientError", "block_parameters", "gradient_error", "known_truth"]


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
