"""Generalised cross entropy, between CE and MAE, and its truncated form."""

from __future__ import annotations

from dataclasses import KW_ONLY, field
from typing import Annotated

import torch
from torch import Tensor

from edgemask._options import Range
from edgemask.errors import UserError
from edgemask.losses.base import (
    Clip,
    Exponent,
    Loss,
    OpenUnit,
    Rows,
    check_index,
    clamp_log,
    expected,
    loss,
    read_rows,
)

__all__ = ["GCELoss", "TruncatedGCELoss", "gce"]

_REFERENCE = "Zhang & Sabuncu, Generalized Cross Entropy Loss, NeurIPS 2018"


def gce(log_probs: Tensor, target: Tensor, q: float, min_prob: float) -> Tensor:
    """Return (1 − clip(p_y)^q)/q, exact near p_y = 1."""

    def box_cox(log_p: Tensor) -> Tensor:
        return torch.expm1(q * clamp_log(log_p, min_prob)) / -q

    return expected(box_cox, log_probs, target)


@loss
class GCELoss(Loss):
    """Generalised cross entropy (GCE): cross entropy for q → 0, mean absolute error for q = 1.

    Args:
        q: Exponent, in (0, 1].
        min_prob: Probabilities are clipped to [min_prob, 1].
    """

    equation = "(1 − clip(p_y)^q)/q"
    reference = _REFERENCE
    bounded = True

    q: Exponent = 0.7
    _: KW_ONLY
    min_prob: Clip = 1e-7

    def formula(self, log_probs: Tensor, target: Tensor) -> Tensor:
        """Return (1 − clip(p_y)^q)/q."""
        return gce(log_probs, target, self.q, self.min_prob)


@loss
class TruncatedGCELoss(Loss):
    """Truncated GCE: samples whose label has a probability below k get no gradient.

    Each batch decides for itself: below k the loss is the constant GCE(k). With ``pruned`` the
    decision is stored per sample instead (the alternating scheme of the paper): all samples count
    until :meth:`prune` is called, with the predictions of the best model so far, every few epochs
    after a warm-up.

    Args:
        q: Exponent, in (0, 1].
        k: Probability below which a sample is left out.
        pruned: Whether decisions are stored; then ``num_samples`` and ``index`` are needed.
        num_samples: Size of the training set, for stored decisions.
    """

    equation = "(1 − max(p_y, k)^q)/q; pruned: (1 − p_y^q)/q if sample kept, else (1 − k^q)/q"
    reference = _REFERENCE
    bounded = True

    q: Exponent = 0.7
    k: OpenUnit = 0.5
    _: KW_ONLY
    pruned: bool = False
    num_samples: Annotated[int, Range(1)] | None = None
    kept: Tensor = field(init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.needs_index = self.pruned
        if self.pruned:
            if self.num_samples is None:
                raise UserError("num_samples=None: expected the size of the training set")
            self.register_buffer("kept", torch.ones(self.num_samples, dtype=torch.bool))

    def values(self, rows: Rows, index: Tensor | None) -> Tensor:
        """Return the loss of each row; ``index`` is needed when decisions are stored."""
        log_probs = torch.log_softmax(rows.logits, dim=1)
        if not self.pruned:
            return gce(log_probs, rows.target, self.q, self.k)
        full = gce(log_probs, rows.target, self.q, 0.0)
        kept = self.kept[self._positions(index, rows)].to(full.device)
        return torch.where(kept[:, None], full, torch.full_like(full, self._left_out))

    @torch.no_grad()
    def prune(self, logits: Tensor, target: Tensor, index: Tensor) -> None:
        """Decide again which of these samples count: those with p_y > k."""
        if not self.pruned:
            raise ValueError("prune() stores decisions: make the loss with pruned=True")
        rows = read_rows(logits, target, self.ignore_index)
        full = gce(torch.log_softmax(rows.logits, dim=1), rows.target, self.q, 0.0)
        kept = (full < self._left_out).squeeze(1).to(self.kept.device)
        self.kept[self._positions(index, rows)] = kept

    @property
    def _left_out(self) -> float:
        return float(1 - self.k**self.q) / self.q

    def _positions(self, index: Tensor | None, rows: Rows) -> Tensor:
        return check_index(index, rows.shape, len(self.kept), "pruned GCE").to(self.kept.device)
