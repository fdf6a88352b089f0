"""How far apart two predictions are: Kullback-Leibler and Jensen-Shannon, in any base."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

__all__ = ["js_divergence", "kl_divergence", "symmetric_kl"]


def kl_divergence(log_p: Tensor, log_q: Tensor, *, base: float = math.e) -> Tensor:
    """Return ``KL(p || q) = sum_c p_c log(p_c / q_c)`` of each row.

    Args:
        log_p: Natural logarithms of p, such as ``log_softmax`` gives, ``(..., C)``.
        log_q: Natural logarithms of q.
        base: Base of the logarithm in the result.

    Example:
        >>> p, q = torch.tensor([[0.5, 0.5]]), torch.tensor([[0.25, 0.75]])
        >>> round(float(kl_divergence(p.log(), q.log(), base=2)), 4)
        0.2075
    """
    return (log_p.exp() * (log_p - log_q)).sum(dim=-1) / math.log(base)


def symmetric_kl(first: Tensor, second: Tensor, *, base: float = math.e) -> Tensor:
    """Return ``KL(p || q) + KL(q || p)`` of each row, from the logits of p and q.

    Nothing is detached: both sides move towards each other. JoCoR takes the natural logarithm,
    Jo-SRC and Jo-SNC take base 2.

    Args:
        first: Logits of p, ``(B, C)``.
        second: Logits of q.
        base: Base of the logarithm.
    """
    log_p = F.log_softmax(first.float(), dim=-1)
    log_q = F.log_softmax(second.float(), dim=-1)
    # The two sums in one: sum (p - q) (log p - log q).
    return ((log_p.exp() - log_q.exp()) * (log_p - log_q)).sum(dim=-1) / math.log(base)


def js_divergence(p: Tensor, q: Tensor, *, base: float = 2.0) -> Tensor:
    """Return ``JS(p, q) = H((p + q) / 2) - (H(p) + H(q)) / 2`` of each row, H being the entropy.

    It lies between 0 and ``log_base 2``: 1 in base 2 (Jo-SRC, Jo-SNC), 0.693 in base e (UNICON).
    Thresholds depend on the base, so it is an argument. Zeros are allowed.

    Args:
        p: Probabilities, ``(..., C)``.
        q: Probabilities; shapes broadcast.
        base: Base of the logarithm.

    Example:
        >>> p, q = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 1.0]])
        >>> float(js_divergence(p, q)), round(float(js_divergence(p, q, base=math.e)), 3)
        (1.0, 0.693)
    """
    gap = _entropy((p + q) / 2) - (_entropy(p) + _entropy(q)) / 2
    # Rounding must not make a distance of equal rows negative.
    return gap.clamp(min=0) / math.log(base)


def _entropy(p: Tensor) -> Tensor:
    return -(p * p.clamp(min=torch.finfo(p.dtype).tiny).log()).sum(dim=-1)
