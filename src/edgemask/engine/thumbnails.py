"""Small copies of images, for the pages."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["small_images"]

_MAX_PIXELS = 96


def small_images(raw: Tensor) -> NDArray[np.uint8]:
    """Return uint8 images ``(B, C, H, W)`` as ``(B, H, W, C)`` with sides of at most 96 pixels."""
    if max(raw.shape[-2:]) > _MAX_PIXELS:
        scale = _MAX_PIXELS / max(raw.shape[-2:])
        size = [max(1, round(side * scale)) for side in raw.shape[-2:]]
        small = torch.nn.functional.interpolate(
            raw.float(), size=size, mode="bilinear", antialias=True, align_corners=False
        )
        raw = small.round().clamp(0, 255).to(torch.uint8)
    images: NDArray[np.uint8] = raw.permute(0, 2, 3, 1).contiguous().numpy()
    return images
