"""Generalised cross entropy, between CE and MAE, and its truncated form."""

from __future__ import annotations

import torch
from torch import Tensor

from edgemask.losses._common import check_index, clamp_log, expected, prepare, require
from edgemask.losses.base import Loss, Reduction

__all__ = ["GCELoss", "TruncatedGCELoss", "box_cox", "gce"]

_REFERENCE = "Zhang & Sabuncu, Generalized Cross Entropy Loss, NeurIPS 2018"


def box_cox(log_probs: Tensor, q: float, min_prob: float) -> Tensor:
    """Return 1 − clip(p)^q, elementwise and exact near p = 1."""
    return -torch.expm1(q * clamp_log(log_probs, min_prob))


def gce(logits: Tensor, target: Tensor, *, q: float = 0.7, min_prob: float = 1e-7) -> Tensor:
    """Return (1 − clip(p_y)^q)/q for every sample."""
    return expected(lambda log_p: box_cox(log_p, q, min_prob) / q, *prepare(logits, target))


class GCELoss(Loss):
    """Generalised cross entropy (GCE): cross entropy for q → 0, mean absolute error for q = 1.

    Args:
        q: Exponent, in (0, 1].
        min_prob: Probabilities are clipped to [min_prob, 1].
        reduction: ``"mean"`` or ``"none"``.
    """

    equation = "(1 − clip(p_y)^q)/q"
    reference = _REFERENCE
    bounded = True

    def __init__(self, q: float = 0.7, *, min_prob: float = 1e-7, reduction: Reduction = "mean"):
        super().__init__(reduction=reduction)
        require(0.0 < q <= 1.0, "q", q, "a number in (0, 1]")
        require(0.0 <= min_prob < 1.0, "min_prob", min_prob, "a probability below 1")
        self.q = q
        self.min_prob = min_prob

    def _per_sample(self, logits: Tensor, target: Tensor) -> Tensor:
        return gce(logits, target, q=self.q, min_prob=self.min_prob)


class TruncatedGCELoss(Loss):
    """Truncated GCE: samples whose label is given a probability below k do not teach.

    Each batch decides for itself: below k the loss is the constant GCE(k) and has no gradient.
    With ``pruned`` the decision is kept for every sample instead (the alternating scheme of the
    paper): all samples count until :meth:`prune` is called, with the predictions of the best model
    so far, every few epochs after a warm-up.

    Args:
        q: Exponent, in (0, 1].
        k: Probability below which a sample is left out.
        pruned: Whether decisions are kept; then ``num_samples`` and ``index`` are needed.
        num_samples: Size of the training set, for decisions that are kept.
        reduction: ``"mean"`` or ``"none"``.
    """

    equation = "(1 − max(p_y, k)^q)/q; pruned: (1 − p_y^q)/q if sample kept, else (1 − k^q)/q"
    reference = _REFERENCE
    bounded = True
    kept: Tensor

    def __init__(
        self,
        q: float = 0.7,
        k: float = 0.5,
        *,
        pruned: bool = False,
        num_samples: int | None = None,
        reduction: Reduction = "mean",
    ):
        super().__init__(reduction=reduction)
        require(0.0 < q <= 1.0, "q", q, "a number in (0, 1]")
        require(0.0 < k < 1.0, "k", k, "a probability between 0 and 1")
        self.q = q
        self.k = k
        self.pruned = pruned
        self.num_samples = num_samples
        self.needs_index = pruned
        if pruned:
            size = num_samples or 0
            require(size > 0, "num_samples", num_samples, "the size of the training set")
            self.register_buffer("kept", torch.ones(size, dtype=torch.bool))

    def forward(self, logits: Tensor, target: Tensor, index: Tensor | None = None) -> Tensor:
        """Compute the loss of a batch; ``index`` is needed when decisions are kept."""
        if not self.pruned:
            return self._reduce(gce(logits, target, q=self.q, min_prob=self.k))
        full = gce(logits, target, q=self.q, min_prob=0.0)
        kept = self.kept[self._rows(index, logits)].to(full.device)
        return self._reduce(torch.where(kept, full, torch.full_like(full, self._worst)))

    @torch.no_grad()
    def prune(self, logits: Tensor, target: Tensor, index: Tensor) -> None:
        """Decide anew which of these samples count: those with p_y > k."""
        if not self.pruned:
            raise ValueError("prune() keeps decisions: make the loss with pruned=True")
        full = gce(logits, target, q=self.q, min_prob=0.0)
        self.kept[self._rows(index, logits)] = (full < self._worst).to(self.kept.device)

    @property
    def _worst(self) -> float:
        return float(1 - self.k**self.q) / self.q

    def _rows(self, index: Tensor | None, logits: Tensor) -> Tensor:
        index = check_index(index, len(logits), len(self.kept), "pruned GCE")
        return index.to(self.kept.device)
