"""What all losses share: checks of a batch, log-probabilities, targets and argument checks."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from edgemask.errors import UserError

__all__ = [
    "as_distribution",
    "check_index",
    "clamp_log",
    "expected",
    "prepare",
    "require",
    "widen",
]


def require(condition: bool, name: str, value: object, expected: str) -> None:
    """Raise a :class:`UserError` about an argument unless ``condition`` holds."""
    if not condition:
        raise UserError(f"{name}={value!r}: expected {expected}")


def prepare(logits: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Check a batch and return its log-probabilities and targets in a safe precision.

    Half precision is raised to float32; float32 and float64 stay. Hard targets come back as int64
    of shape (B,), soft ones as (B, C) in the precision of the log-probabilities.
    """
    logits = widen(logits)
    return F.log_softmax(logits, dim=1), _check_target(target, logits)


def widen(logits: Tensor) -> Tensor:
    """Check logits and return them in float32 at least."""
    if logits.ndim != 2 or logits.shape[1] < 2:
        raise ValueError(
            f"logits of shape {tuple(logits.shape)}: expected (batch, classes), at least 2 classes"
        )
    if not logits.is_floating_point():
        raise TypeError(f"logits of dtype {logits.dtype}: expected a floating type")
    return logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits


def _check_target(target: Tensor, logits: Tensor) -> Tensor:
    batch, classes = logits.shape
    if target.dtype == torch.bool or target.is_complex():
        raise TypeError(f"target of dtype {target.dtype}: expected integer labels or soft targets")
    if target.shape == logits.shape:
        return target.to(logits.dtype)
    if target.is_floating_point() or target.shape != (batch,):
        raise ValueError(
            f"target of dtype {target.dtype} and shape {tuple(target.shape)}: expected integer "
            f"labels of shape {(batch,)}, or soft targets of shape {(batch, classes)}"
        )
    target = target.long()
    # On an accelerator this look at the values would make every step wait for the device.
    if target.device.type == "cpu" and batch and not torch.compiler.is_compiling():
        low, high = int(target.min()), int(target.max())
        if low < 0 or high >= classes:
            wrong = low if low < 0 else high
            raise ValueError(f"label {wrong} in target: expected 0 to {classes - 1}")
    return target


def check_index(index: Tensor | None, batch: int, num_samples: int, loss: str) -> Tensor:
    """Return the sample index of a batch as int64, or say what is wrong with it."""
    if index is None:
        raise ValueError(
            f"{loss} remembers every sample: pass index=, the positions of the batch's samples in "
            "the training set"
        )
    if index.is_floating_point() or index.is_complex() or index.dtype == torch.bool:
        raise TypeError(f"index of dtype {index.dtype}: expected integers")
    if index.shape != (batch,):
        raise ValueError(f"index of shape {tuple(index.shape)}: expected {(batch,)}")
    if batch and not torch.compiler.is_compiling():
        low, high = int(index.min()), int(index.max())
        if low < 0 or high >= num_samples:
            wrong = low if low < 0 else high
            raise ValueError(
                f"index {wrong} is out of range: {loss} was made for num_samples={num_samples}"
            )
    return index.long()


def expected(value: Callable[[Tensor], Tensor], log_probs: Tensor, target: Tensor) -> Tensor:
    """Evaluate a function of log p at the label, or its mean under a soft target.

    Args:
        value: An elementwise function of log-probabilities.
        log_probs: Log-probabilities, (B, C).
        target: Labels (B,), or label distributions (B, C).

    Returns:
        One value a sample: ``value(log p_y)``, or ``Σ_k t_k value(log p_k)``.
    """
    if target.ndim == 1:
        return value(log_probs.gather(1, target[:, None]).squeeze(1))
    return (target * value(log_probs)).sum(dim=1)


def as_distribution(target: Tensor, log_probs: Tensor) -> Tensor:
    """Return the target as (B, C): soft ones as they are, hard ones as one-hot rows."""
    if target.ndim == 2:
        return target
    return F.one_hot(target, log_probs.shape[1]).to(log_probs.dtype)


def clamp_log(log_probs: Tensor, low: float, high: float = 1.0) -> Tensor:
    """Clip probabilities to [low, high] by their logarithms; clipped entries get no gradient."""
    if high < 1.0:
        log_probs = log_probs.clamp(max=math.log(high))
    return log_probs.clamp(min=math.log(low)) if low > 0.0 else log_probs
