"""The image operations of AutoAugment and RandAugment, batched over the images that drew them.

Every operation maps uint8 ``(B, C, H, W)`` and one magnitude per image to uint8 of the same shape,
and follows Pillow's definition, which the published policies use. Warping and the blends with grey
and blurred images come from kornia; what is a table lookup is written out, because kornia
loops over the images.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from edgemask.errors import MissingExtraError

__all__ = ["GREY", "OPERATIONS", "apply", "rotate"]

GREY = 128
Operation = Callable[[Tensor, Tensor], Tensor]


def _kornia() -> Any:
    try:
        import kornia
    except Exception as error:
        raise MissingExtraError("kornia", "app", "for rotations and strong views", error) from error
    return kornia


def _per_image(values: Tensor) -> Tensor:
    return values.view(-1, 1, 1, 1)


def _enhance(function: str, images: Tensor, factors: Tensor) -> Tensor:
    """Apply a function of ``kornia.enhance`` to images in 0..1, and round back to 0..255."""
    changed: Tensor = getattr(_kornia().enhance, function)(images.float() / 255, factors)
    return changed.mul(255).round_().clamp_(0, 255).to(torch.uint8)


def brightness(images: Tensor, factors: Tensor) -> Tensor:
    """Blend with black: 0 is black, 1 the image."""
    return (images * _per_image(factors)).round_().clamp_(0, 255).to(torch.uint8)


def contrast(images: Tensor, factors: Tensor) -> Tensor:
    """Blend with the mean grey of the image."""
    if images.shape[1] == 1:
        grey = images.float().mean(dim=(1, 2, 3), keepdim=True)
        blend = grey + _per_image(factors) * (images - grey)
        return blend.round_().clamp_(0, 255).to(torch.uint8)
    return _enhance("adjust_contrast_with_mean_subtraction", images, factors)


def colour(images: Tensor, factors: Tensor) -> Tensor:
    """Blend with the grey version; a grey image stays as it is."""
    if images.shape[1] == 1:
        return images
    return _enhance("adjust_saturation_with_gray_subtraction", images, factors)


def hue(images: Tensor, turns: Tensor) -> Tensor:
    """Turn the hue by a part of the full circle."""
    if images.shape[1] == 1:
        return images
    return _enhance("adjust_hue", images, turns * (2 * torch.pi))


def sharpness(images: Tensor, factors: Tensor) -> Tensor:
    """Blend with the blurred image; above 1 sharpens."""
    return _enhance("sharpness", images, factors)


def invert(images: Tensor, _: Tensor) -> Tensor:
    """Return the negative."""
    return 255 - images


def solarize(images: Tensor, thresholds: Tensor) -> Tensor:
    """Invert the values from the threshold on."""
    return torch.where(images < _per_image(thresholds), images, 255 - images)


def posterize(images: Tensor, bits: Tensor) -> Tensor:
    """Keep the given number of leading bits."""
    dropped = 2 ** (8 - _per_image(bits).long())
    return (images // dropped * dropped).to(torch.uint8)


def autocontrast(images: Tensor, _: Tensor) -> Tensor:
    """Stretch each channel to 0..255; a channel of one value stays."""
    values = images.float()
    low, high = values.amin((2, 3), keepdim=True), values.amax((2, 3), keepdim=True)
    stretched = ((values - low) * (255 / (high - low).clamp(min=1))).clamp(0, 255)
    return torch.where(high > low, stretched, values).to(torch.uint8)


def equalize(images: Tensor, _: Tensor) -> Tensor:
    """Equalize the histogram of each channel with Pillow's integer rule."""
    flat = images.flatten(2).flatten(0, 1).long()
    histogram = torch.zeros(len(flat), 256, dtype=torch.long)
    histogram.scatter_add_(1, flat, torch.ones_like(flat))
    last = histogram.gather(1, flat.amax(1, keepdim=True))
    step = (flat.shape[1] - last) // 255
    before = histogram.cumsum(1) - histogram
    table = ((step // 2 + before) // step.clamp(min=1)).clamp(max=255)
    table = torch.where(step > 0, table, torch.arange(256))
    return table.gather(1, flat).to(torch.uint8).view_as(images)


def _warp(images: Tensor, matrix: Tensor, *, mode: str, fill: int) -> Tensor:
    """Warp by ``(B, 2, 3)`` matrices from source to target pixels; outside is ``fill``."""
    size = images.shape[-2:]
    warp = _kornia().geometry.transform.warp_affine
    # kornia fills with zeros: shift the values so that zero is the fill colour.
    moved: Tensor = warp(images.float() - fill, matrix, tuple(size), mode=mode)
    return (moved + fill).round_().clamp_(0, 255).to(torch.uint8)


def _matrix(images: Tensor, place: tuple[int, int], values: Tensor) -> Tensor:
    matrix = torch.eye(2, 3).repeat(len(images), 1, 1)
    matrix[:, place[0], place[1]] = values
    return matrix


def rotate(images: Tensor, degrees: Tensor, *, fill: int = GREY) -> Tensor:
    """Rotate counter-clockwise about the centre, nearest neighbour."""
    height, width = images.shape[-2:]
    centre = torch.tensor([[(width - 1) / 2, (height - 1) / 2]]).expand(len(images), 2)
    matrix = _kornia().geometry.transform.get_rotation_matrix2d(
        centre, degrees, torch.ones(len(images), 2)
    )
    return _warp(images, matrix, mode="nearest", fill=fill)


def shear_x(images: Tensor, amounts: Tensor) -> Tensor:
    """Move each row to the side, in proportion to its height from the top."""
    matrix = _matrix(images, (0, 1), -amounts)
    matrix[:, 0, 2] = -amounts / 2  # Pillow shears about the corner of the first pixel
    return _warp(images, matrix, mode="bicubic", fill=GREY)


def shear_y(images: Tensor, amounts: Tensor) -> Tensor:
    """Move each column up or down, in proportion to its distance from the left."""
    matrix = _matrix(images, (1, 0), -amounts)
    matrix[:, 1, 2] = -amounts / 2
    return _warp(images, matrix, mode="bicubic", fill=GREY)


def translate_x(images: Tensor, parts: Tensor) -> Tensor:
    """Move left by a part of the width."""
    return _warp(
        images, _matrix(images, (0, 2), -parts * images.shape[-1]), mode="nearest", fill=GREY
    )


def translate_y(images: Tensor, parts: Tensor) -> Tensor:
    """Move up by a part of the height."""
    return _warp(
        images, _matrix(images, (1, 2), -parts * images.shape[-2]), mode="nearest", fill=GREY
    )


OPERATIONS: dict[str, Operation] = {
    "autocontrast": autocontrast,
    "brightness": brightness,
    "colour": colour,
    "contrast": contrast,
    "equalize": equalize,
    "hue": hue,
    "invert": invert,
    "posterize": posterize,
    "rotate": rotate,
    "sharpness": sharpness,
    "shear_x": shear_x,
    "shear_y": shear_y,
    "solarize": solarize,
    "translate_x": translate_x,
    "translate_y": translate_y,
}


def apply(images: Tensor, names: tuple[str, ...], chosen: Tensor, magnitudes: Tensor) -> Tensor:
    """Apply one operation to each image, all images of an operation at once.

    Args:
        images: uint8 ``(B, C, H, W)``.
        names: The operations that ``chosen`` counts through.
        chosen: ``(B,)``, which operation each image drew; -1 for none.
        magnitudes: ``(B,)``, what it is given.
    """
    result = images.clone()
    for number in sorted(set(chosen.tolist())):
        if number >= 0:
            members = (chosen == number).nonzero().squeeze(1)
            result[members] = OPERATIONS[names[number]](images[members], magnitudes[members])
    return result
