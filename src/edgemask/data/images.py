"""Image files: read them, resize them, find the broken ones."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor

from edgemask.errors import DataError, EdgeMaskWarning, MissingExtraError, one_line

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["EXTENSIONS", "Fit", "OnBroken", "load_images", "read_image", "sound_images"]

EXTENSIONS = frozenset(
    {".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp"}
)
OnBroken = Literal["error", "skip"]


def _pillow() -> Any:
    try:
        from PIL import Image, ImageOps
    except ImportError as error:
        raise MissingExtraError("pillow", "app", "to read image files", error) from error
    return Image, ImageOps


def read_image(path: str | Path) -> Image:
    """Decode an image file to RGB, the right way up (its EXIF orientation applied).

    Raises:
        DataError: The file is missing, truncated, too large to be an honest image, or no image.
    """
    image_module, ops = _pillow()
    try:
        with image_module.open(path) as file:
            image: Image = ops.exif_transpose(file).convert("RGB")
    # Pillow's decoders raise all sorts on a broken file: OSError, SyntaxError, struct.error ...
    except Exception as error:
        raise DataError(
            f"{path}: cannot be read as an image ({one_line(error)}); "
            f"repair or remove the file, or load the data with on_broken='skip'"
        ) from error
    return image


@dataclass(frozen=True)
class Fit:
    """Resizes an image of any size to ``size`` x ``size`` pixels.

    Args:
        size: Height and width of the result.
        resize: Before cropping, scale the shorter side to this many pixels. None scales to
            ``size`` (with ``crop="resized"``: not at all).
        square: Scale both sides to ``resize`` instead, whatever the aspect.
        crop: ``center``; ``random``, a window drawn uniformly; ``resized``, a window of 8 to
            100 % of the area and an aspect of 3:4 to 4:3, scaled (the Inception crop).
    """

    size: int
    resize: int | None = None
    square: bool = False
    crop: Literal["center", "random", "resized"] = "center"

    def __call__(self, image: Image, generator: Generator) -> Tensor:
        """Return the image as uint8 ``(3, size, size)``."""
        image = self._resized(image)
        box = self._box(image.width, image.height, generator)
        if self.crop == "resized":
            image = image.resize((self.size, self.size), _pillow()[0].Resampling.BILINEAR, box)
        else:
            image = image.crop(box)
        return torch.from_numpy(np.array(image)).permute(2, 0, 1).contiguous()

    def _resized(self, image: Image) -> Image:
        if self.crop == "resized" and self.resize is None:
            return image
        target = self.resize or self.size
        if self.square:
            width = height = target
        else:
            scale = target / min(image.size)
            width, height = (max(target, round(side * scale)) for side in image.size)
        if (width, height) == image.size:
            return image
        return image.resize((width, height), _pillow()[0].Resampling.BILINEAR)

    def _box(self, width: int, height: int, generator: Generator) -> tuple[int, int, int, int]:
        crop_width, crop_height = self.size, self.size
        if self.crop == "resized":
            crop_width, crop_height = _inception_window(width, height, generator)
        left, top = (width - crop_width) / 2, (height - crop_height) / 2
        if self.crop != "center":
            left, top = (
                torch.rand(2, generator=generator) * torch.tensor([left, top]) * 2
            ).tolist()
        x, y = round(left), round(top)
        return x, y, x + crop_width, y + crop_height


def _inception_window(width: int, height: int, generator: Generator) -> tuple[int, int]:
    """Return the width and height of a window that fits; at worst the largest of a legal aspect."""
    draws = torch.rand(10, 2, generator=generator).tolist()
    for area, aspect in draws:
        pixels = (0.08 + 0.92 * area) * width * height
        ratio = math.exp((2 * aspect - 1) * math.log(4 / 3))
        w, h = round(math.sqrt(pixels * ratio)), round(math.sqrt(pixels / ratio))
        if 0 < w <= width and 0 < h <= height:
            return w, h
    return min(width, round(height * 4 / 3)), min(height, round(width * 4 / 3))


def sound_images(paths: Sequence[Path], *, on_broken: OnBroken) -> NDArray[np.int64]:
    """Return the positions of the files to use, under a policy for those that cannot be read.

    ``error`` trusts all files here and fails when a broken one is read. ``skip`` decodes every
    file once, leaves the broken ones out, and warns with their count and the first names.
    """
    if on_broken == "error":
        return np.arange(len(paths))
    if on_broken != "skip":
        raise DataError(f"on_broken must be 'error' or 'skip', got {on_broken!r}")
    with ThreadPoolExecutor() as pool:
        broken = [i for i, bad in enumerate(pool.map(_is_broken, paths)) if bad]
    if len(broken) == len(paths):
        raise DataError(f"none of the {len(paths)} images can be read; the first: {paths[0]}")
    if broken:
        first = ", ".join(str(paths[i]) for i in broken[:3])
        more = ", ..." if len(broken) > 3 else ""
        warnings.warn(
            f"{len(broken)} of {len(paths)} images cannot be read and are left out: {first}{more}",
            EdgeMaskWarning,
            stacklevel=2,
        )
    return np.setdiff1d(np.arange(len(paths)), np.array(broken, dtype=np.int64))


def _is_broken(path: Path) -> bool:
    try:
        read_image(path)
    except DataError:
        return True
    return False


def load_images(paths: Sequence[Path], size: int) -> Tensor:
    """Read files into one uint8 tensor ``(N, 3, size, size)``, scaled and cropped in the centre."""
    fit, unused = Fit(size), torch.Generator()
    result = torch.empty(len(paths), 3, size, size, dtype=torch.uint8)

    def read(position: int) -> None:
        result[position] = fit(read_image(paths[position]), unused)

    with ThreadPoolExecutor() as pool:
        list(pool.map(read, range(len(paths))))
    return result
