"""FMix: two images joined along the border of a random shape."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Generator, Tensor

from edgemask.errors import UserError
from edgemask.methods.parts.mixing import Mixed, draw_pairs, draw_share

__all__ = ["fmix", "low_frequency_mask"]


def low_frequency_mask(
    share: float, size: Sequence[int], generator: Generator, *, decay: float = 3.0
) -> Tensor:
    """Draw a mask of ones in large connected shapes, that cover ``share`` of the image.

    A grey image of random frequencies, each scaled by ``1 / max(f, 1 / max(size))^decay``, has its
    largest pixels set to 1: the ceiling or the floor of ``share`` times their number, by a coin.

    Args:
        share: The share of ones.
        size: Height and width.
        generator: Random generator of the draws.
        decay: How fast higher frequencies fade.

    Returns:
        ``size`` float, of zeros and ones.

    Reference:
        Harris et al., FMix: Enhancing Mixed Sample Data Augmentation, 2020.
    """
    height, width = size
    rows, columns = torch.fft.fftfreq(height), torch.fft.rfftfreq(width)
    frequency = torch.sqrt(rows[:, None] ** 2 + columns[None, :] ** 2).clamp(min=1 / max(size))
    noise = torch.randn(*frequency.shape, 2, generator=generator)
    spectrum = torch.view_as_complex(noise) / frequency**decay
    grey = torch.fft.irfft2(spectrum, s=(height, width)).flatten()
    coin = torch.rand((), generator=generator) < 0.5
    count = (math.ceil if coin else math.floor)(share * len(grey))
    mask = torch.zeros(len(grey))
    mask[grey.topk(count).indices] = 1.0
    return mask.view(height, width)


def fmix(inputs: Tensor, targets: Tensor, *, alpha: float, generator: Generator) -> Mixed:
    """Join each image with another one of the batch: ``m x + (1 - m) x[pairs]``, one mask m.

    Args:
        inputs: Images, ``(R, channels, height, width)``.
        targets: Label distributions, ``(R, C)``, mixed by the share ``lam ~ Beta(alpha, alpha)``.
        alpha: Parameter of the Beta distribution; 0 mixes nothing.
        generator: Random generator of the draws.

    Returns:
        The rows; here the share of a row itself may be below 1/2.
    """
    if inputs.ndim != 4:
        raise UserError(
            f"FMix joins images, got inputs of shape {tuple(inputs.shape[1:])}; leave it out with "
            "--set method.options.fmix=false"
        )
    share = draw_share(alpha, generator)
    mask = low_frequency_mask(share, inputs.shape[2:], generator).to(inputs)
    pairs = draw_pairs(len(inputs), generator, inputs.device)
    mixed = mask * inputs + (1 - mask) * inputs[pairs]
    return Mixed(mixed, share * targets + (1 - share) * targets[pairs], share, pairs)
