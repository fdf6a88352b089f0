"""What the tests of the losses share."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from edgemask import losses

CLASSES = 5
SAMPLES = 64
NAMES = list(losses.LOSSES)
# The focal factor of these carries no gradient, so that numerical differences do not apply.
FOCAL = [name for name in NAMES if "fl" in name or name == "focal"]


def make(name: str, **options: Any) -> losses.Loss:
    return losses.build(name, num_classes=CLASSES, num_samples=SAMPLES, **options)


def batch(
    size: int = 8, *, scale: float = 3.0, dtype: torch.dtype = torch.float64, seed: int = 0
) -> tuple[Tensor, Tensor, Tensor]:
    """Logits with gradient, labels, and positions in the training set."""
    draw = torch.Generator().manual_seed(seed)
    logits = scale * torch.randn(size, CLASSES, generator=draw, dtype=dtype)
    target = torch.randint(CLASSES, (size,), generator=draw)
    return logits.requires_grad_(), target, torch.randperm(SAMPLES, generator=draw)[:size]
