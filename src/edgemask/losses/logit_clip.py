"""Cross entropy with logit clipping."""

from __future__ import annotations

from dataclasses import KW_ONLY

import torch
from torch import Tensor

from edgemask.losses.base import Clip, Loss, Positive, Rows, clamp_log, expected, loss, to_float32

__all__ = ["LogitClipLoss", "clip_logits"]


def clip_logits(logits: Tensor, *, delta: float) -> Tensor:
    """Return the logits, those of a norm above 1/δ rescaled to the norm δ.

    The threshold is 1/δ and the new norm δ, as in the published code.
    """
    logits = to_float32(logits)
    norm = torch.linalg.vector_norm(logits, dim=1, keepdim=True) + 1e-8
    return torch.where(norm > 1 / delta, delta * logits / norm, logits)


@loss
class LogitClipLoss(Loss):
    """Cross entropy with logit clipping (CE+LC), which bounds the loss by bounding the logits.

    Args:
        delta: Norm δ that long logit vectors are rescaled to; vectors longer than 1/δ are long.
        min_prob: Probabilities are clipped to [min_prob, 1].
    """

    equation = "−log clip(softmax(z')_y) with z' = δ·z/‖z‖ if ‖z‖ > 1/δ, else z"
    reference = (
        "Wei et al., Mitigating Memorization of Noisy Labels by Clipping the Model Prediction, "
        "ICML 2023"
    )
    bounded = True

    delta: Positive = 2.5
    _: KW_ONLY
    min_prob: Clip = 1e-8

    def values(self, rows: Rows, index: Tensor | None) -> Tensor:
        """Return the loss of each row."""
        del index
        log_probs = torch.log_softmax(clip_logits(rows.logits, delta=self.delta), dim=1)
        return expected(lambda log_p: -clamp_log(log_p, self.min_prob), log_probs, rows.target)
