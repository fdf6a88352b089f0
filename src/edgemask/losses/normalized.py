"""Normalised losses: any loss divided by its sum over all labels is symmetric."""

from __future__ import annotations

from dataclasses import KW_ONLY

import torch
from torch import Tensor

from edgemask.losses.base import Clip, Exponent, Loss, NonNegative, at_label, clamp_log, loss
from edgemask.losses.cross_entropy import focal_terms

__all__ = ["NCELoss", "NFLLoss", "NGCELoss", "nce", "nfl", "ngce", "share"]

_REFERENCE = "Ma et al., Normalized Loss Functions for Deep Learning with Noisy Labels, ICML 2020"


def share(terms: Tensor, target: Tensor) -> Tensor:
    """Return the share that the label's term has in the sum over all labels."""
    return at_label(terms, target) / terms.sum(dim=1, keepdim=True)


def nce(log_probs: Tensor, target: Tensor) -> Tensor:
    """Return log p_y / Σ_k log p_k."""
    return share(log_probs, target)


def nfl(log_probs: Tensor, target: Tensor, gamma: float) -> Tensor:
    """Return the focal loss of the label over the sum of those of all labels."""
    return share(focal_terms(log_probs, gamma), target)


def ngce(log_probs: Tensor, target: Tensor, q: float, min_prob: float) -> Tensor:
    """Return the GCE of the label over the sum of those of all labels."""
    return share(torch.expm1(q * clamp_log(log_probs, min_prob)), target)


@loss
class NCELoss(Loss):
    """Normalised cross entropy (NCE)."""

    equation = "log p_y / Σ_k log p_k"
    reference = _REFERENCE
    symmetric = True
    bounded = True

    def formula(self, log_probs: Tensor, target: Tensor) -> Tensor:
        """Return log p_y / Σ_k log p_k."""
        return nce(log_probs, target)


@loss
class NFLLoss(Loss):
    """Normalised focal loss (NFL).

    Args:
        gamma: Strength γ of the focal factor.
    """

    equation = "ℓ_y / Σ_k ℓ_k with ℓ_k = −sg[(1−p_k)^γ]·log p_k"
    reference = _REFERENCE
    symmetric = True
    bounded = True

    gamma: NonNegative = 0.5

    def formula(self, log_probs: Tensor, target: Tensor) -> Tensor:
        """Return ℓ_y / Σ_k ℓ_k of the focal loss ℓ."""
        return nfl(log_probs, target, self.gamma)


@loss
class NGCELoss(Loss):
    """Normalised generalised cross entropy (NGCE).

    Args:
        q: Exponent, in (0, 1].
        min_prob: Probabilities are clipped to [min_prob, 1].
    """

    equation = "(1 − clip(p_y)^q) / (K − Σ_k clip(p_k)^q)"
    reference = _REFERENCE
    symmetric = True
    bounded = True

    q: Exponent = 0.7
    _: KW_ONLY
    min_prob: Clip = 1e-7

    def formula(self, log_probs: Tensor, target: Tensor) -> Tensor:
        """Return (1 − clip(p_y)^q) / (K − Σ_k clip(p_k)^q)."""
        return ngce(log_probs, target, self.q, self.min_prob)
