"""Cross entropy with logit clipping (CE+LC)."""

from __future__ import annotations

import torch
from torch import Tensor

from edgemask.losses._common import clamp_log, expected, prepare, require, widen
from edgemask.losses.base import Loss, Reduction

__all__ = ["LogitClipLoss", "clip_logits", "logit_clip"]


def clip_logits(logits: Tensor, *, delta: float) -> Tensor:
    """Return the logits, those of a norm above 1/δ rescaled to the norm δ.

    The threshold is 1/δ and the new norm δ: not a slip here, but what the published code does.
    """
    wide = widen(logits)
    norm = torch.linalg.vector_norm(wide, dim=1, keepdim=True) + 1e-8
    return torch.where(norm > 1 / delta, delta * wide / norm, wide)


def logit_clip(
    logits: Tensor, target: Tensor, *, delta: float = 2.5, min_prob: float = 1e-8
) -> Tensor:
    """Return the cross entropy on clipped logits for every sample."""
    log_probs, target = prepare(clip_logits(logits, delta=delta), target)
    return expected(lambda log_p: -clamp_log(log_p, min_prob), log_probs, target)


class LogitClipLoss(Loss):
    """Cross entropy with logit clipping (CE+LC), which bounds the loss by bounding the logits.

    Args:
        delta: Norm δ that long logit vectors are rescaled to; vectors longer than 1/δ are long.
        min_prob: Probabilities are clipped to [min_prob, 1].
        reduction: ``"mean"`` or ``"none"``.
    """

    equation = "−log clip(softmax(z')_y) with z' = δ·z/‖z‖ if ‖z‖ > 1/δ, else z"
    reference = (
        "Wei et al., Mitigating Memorization of Noisy Labels by Clipping the Model Prediction, "
        "ICML 2023"
    )
    bounded = True

    def __init__(
        self, delta: float = 2.5, *, min_prob: float = 1e-8, reduction: Reduction = "mean"
    ):
        super().__init__(reduction=reduction)
        require(delta > 0.0, "delta", delta, "a positive number")
        require(0.0 <= min_prob < 1.0, "min_prob", min_prob, "a probability below 1")
        self.delta = delta
        self.min_prob = min_prob

    def _per_sample(self, logits: Tensor, target: Tensor) -> Tensor:
        return logit_clip(logits, target, delta=self.delta, min_prob=self.min_prob)
