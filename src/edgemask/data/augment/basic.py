"""Crop, flip, shift, cut-out and jitter of a whole batch at once."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

__all__ = ["CutOut", "FeatureJitter", "Flip", "PadCrop", "erase_squares"]


@dataclass(frozen=True)
class PadCrop:
    """Pad every side and cut a window of the old size at a place drawn per image.

    With ``padding=4`` the usual CIFAR crop; with ``padding=1`` a shift by at most one pixel.

    Args:
        padding: Pixels on each side; below 1 it is a part of the height.
        reflect: Whether the image is mirrored at its edges instead of padded with black.

    Shape: ``(B, C, H, W)`` to ``(B, C, H, W)``.
    """

    padding: float = 4
    reflect: bool = False

    def __call__(self, images: Tensor, generator: Generator) -> Tensor:
        """Return the changed images."""
        if not len(images):
            return images
        count, channels, height, width = images.shape
        padding = round(self.padding * height) if self.padding < 1 else int(self.padding)
        top, left = torch.randint(0, 2 * padding + 1, (2, count, 1, 1), generator=generator)
        if self.reflect:
            rows, columns = (_mirrored(side, padding) for side in (height, width))
            padded = images.index_select(2, rows).index_select(3, columns)
        else:
            padded = F.pad(images, (padding,) * 4)
        # Every row of the result is a run of `width` pixels somewhere in the padded batch.
        planes = torch.arange(count * channels).view(count, channels, 1) * padded[0, 0].numel()
        starts = planes + (top + torch.arange(height)) * padded.shape[-1] + left
        runs = padded.flatten().unfold(0, width, 1)
        return runs.index_select(0, starts.flatten()).view_as(images)


def _mirrored(side: int, padding: int) -> Tensor:
    """Return positions from ``-padding`` to ``side + padding - 1``, mirrored at the edge pixels."""
    positions = torch.arange(-padding, side + padding).abs()
    return torch.where(positions < side, positions, 2 * (side - 1) - positions)


@dataclass(frozen=True)
class Flip:
    """Mirror each image left to right with the given probability.

    Shape: ``(B, C, H, W)`` to ``(B, C, H, W)``.
    """

    probability: float = 0.5

    def __call__(self, images: Tensor, generator: Generator) -> Tensor:
        """Return the changed images."""
        count = len(images)
        chosen = torch.rand(count, generator=generator) < self.probability
        # Picking whole images out of both versions is several times faster than torch.where.
        return torch.cat([images, images.flip(-1)]).index_select(
            0, torch.arange(count) + count * chosen
        )


@dataclass(frozen=True)
class CutOut:
    """Cover one square per image, its centre drawn anywhere in the image.

    Args:
        side: The side of the square in pixels; parts outside the image are lost.
        fill: The value of each channel, 0..255 in stored images.
        whole: Whether the centre is the upper left corner of a pixel, so that a square of even
            side covers rows ``y - side / 2`` to ``y + side / 2 - 1``, y uniform over the rows.
    """

    side: int
    fill: tuple[int, ...]
    whole: bool = False

    def __call__(self, images: Tensor, generator: Generator) -> Tensor:
        """Return the changed images."""
        places = torch.rand(2, len(images), generator=generator)
        if self.whole:
            size = torch.tensor(images.shape[-2:])[:, None]
            places = (places * size).floor() / size
        sides = torch.full((len(images),), float(self.side))
        return erase_squares(images, places, sides, self.fill)


def erase_squares(images: Tensor, places: Tensor, sides: Tensor, fill: tuple[int, ...]) -> Tensor:
    """Fill one square in each image.

    Args:
        images: ``(B, C, H, W)``.
        places: ``(2, B)``, the centres (row, column) as fractions of height and width.
        sides: ``(B,)``, in pixels.
        fill: One value per channel.
    """
    height, width = images.shape[-2:]
    rows = (torch.arange(height) + 0.5 - (places[0] * height)[:, None]).abs()
    columns = (torch.arange(width) + 0.5 - (places[1] * width)[:, None]).abs()
    half = sides[:, None] / 2
    inside = (rows < half)[:, None, :, None] & (columns < half)[:, None, None, :]
    return torch.where(inside, torch.tensor(fill, dtype=images.dtype)[:, None, None], images)


@dataclass(frozen=True)
class FeatureJitter:
    """Add Gaussian noise to normalised features (tabular data).

    Args:
        std: Its standard deviation, in standard deviations of the feature.
    """

    std: float = 0.05

    def __call__(self, features: Tensor, generator: Generator) -> Tensor:
        """Return the features with noise."""
        return features + self.std * torch.randn(features.shape, generator=generator)
