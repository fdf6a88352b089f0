"""The losses as functions: logits and targets in, one value per sample out.

They take the options of the loss's class as keywords.

>>> import torch
>>> from edgemask.losses import functional
>>> functional.gce(torch.zeros(2, 4), torch.tensor([0, 3]), q=1.0)
tensor([0.7500, 0.7500])
"""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor

from edgemask.losses import pairs
from edgemask.losses import sop as sop_module
from edgemask.losses.asymmetric import AELLoss, AGCELoss, AMSELoss, ANormLoss, AULLoss
from edgemask.losses.base import Loss, read_rows
from edgemask.losses.bounded import MAELoss, MSELoss, RCELoss
from edgemask.losses.cross_entropy import CELoss, FocalLoss, LabelSmoothingLoss
from edgemask.losses.elr import elr_probabilities, elr_regulariser
from edgemask.losses.gce import GCELoss
from edgemask.losses.ldr import LDRLoss
from edgemask.losses.logit_clip import LogitClipLoss, clip_logits
from edgemask.losses.negative import NNCELoss, NNFLLoss
from edgemask.losses.normalized import NCELoss, NFLLoss, NGCELoss

__all__ = [
    "ael",
    "agce",
    "amse",
    "anorm",
    "aul",
    "clip_logits",
    "cross_entropy",
    "elr_probabilities",
    "elr_regulariser",
    "entropy_gap",
    "focal",
    "gce",
    "label_smoothing",
    "ldr",
    "logit_clip",
    "mae",
    "mse",
    "nce",
    "nfl",
    "ngce",
    "nnce",
    "nnfl",
    "rce",
    "sce",
    "sop",
]


class _Function(Protocol):
    def __call__(self, logits: Tensor, target: Tensor, **options: Any) -> Tensor: ...


def _function(loss: type[Loss]) -> _Function:
    def function(logits: Tensor, target: Tensor, **options: Any) -> Tensor:
        value: Tensor = loss(**options, reduction="none")(logits, target)
        return value

    function.__doc__ = f"Return the loss of each sample, with the options of {loss.__name__}."
    return function


ael = _function(AELLoss)
agce = _function(AGCELoss)
amse = _function(AMSELoss)
anorm = _function(ANormLoss)
aul = _function(AULLoss)
cross_entropy = _function(CELoss)
focal = _function(FocalLoss)
gce = _function(GCELoss)
label_smoothing = _function(LabelSmoothingLoss)
ldr = _function(LDRLoss)
logit_clip = _function(LogitClipLoss)
mae = _function(MAELoss)
mse = _function(MSELoss)
nce = _function(NCELoss)
nfl = _function(NFLLoss)
ngce = _function(NGCELoss)
nnce = _function(NNCELoss)
nnfl = _function(NNFLLoss)
rce = _function(RCELoss)
sce = _function(pairs.SCELoss)


def entropy_gap(logits: Tensor, target: Tensor, *, min_prob: float = 1e-7) -> Tensor:
    """Return log K minus the entropy of the batch's mean prediction, a scalar."""
    rows = read_rows(logits, target)
    return pairs.entropy_gap(torch.log_softmax(rows.logits, dim=1), min_prob, rows.valid)


def sop(
    logits: Tensor, target: Tensor, u: Tensor, v: Tensor, *, min_prob: float = 1e-4
) -> tuple[Tensor, Tensor]:
    """Return the loss of each sample, (B,), and the corrected predictions, (B, C), of SOP.

    Args:
        logits: Scores, (B, C).
        target: Labels (B,), or label distributions (B, C).
        u: The samples' noise on the label, (B, 1).
        v: The samples' noise on the other classes, (B, C).
        min_prob: Lower clip of the corrected prediction.
    """
    rows = read_rows(logits, target)
    log_probs = torch.log_softmax(rows.logits, dim=1)
    values, corrected = sop_module.sop(log_probs, rows.target, u, v, min_prob)
    return values.squeeze(1), corrected
