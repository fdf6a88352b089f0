"""Image files: read them, resize them, find the broken ones."""

from __future__ import annotations

import math
import stat
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

__all__ = [
    "EXTENSIONS",
    "Fit",
    "OnBroken",
    "as_rgb",
    "is_picture",
    "load_images",
    "read_image",
    "sound_images",
    "to_8_bit",
]

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
        if not stat.S_ISREG(Path(path).stat().st_mode):  # a named pipe would be waited for
            raise ValueError("it is no regular file")  # noqa: TRY301
        with image_module.open(path) as file:
            image = as_rgb(ops.exif_transpose(file), str(path))
    except DataError:
        raise
    # Pillow's decoders raise all sorts on a broken file: OSError, SyntaxError, struct.error ...
    except Exception as error:
        raise DataError(
            f"{path}: cannot be read as an image ({one_line(error)}); "
            f"repair or remove the file, or load the data with on_broken='skip'"
        ) from error
    return image


def is_picture(value: Any) -> bool:
    """Whether an object is a Pillow image."""
    return hasattr(value, "convert") and hasattr(value, "getbands")


def as_rgb(picture: Any, where: str) -> Image:
    """Return a Pillow image, or an array of pixels, as 8-bit RGB; 16-bit grey is scaled to 8 bits.

    Args:
        picture: A Pillow image of any mode, or an array ``(H, W)`` or ``(H, W, C)``.
        where: What to call it in messages.
    """
    image_module, _ = _pillow()
    if not is_picture(picture):
        pixels = to_8_bit(np.asarray(picture), where)
        if pixels.ndim == 3 and pixels.shape[2] not in (1, 3, 4) and pixels.shape[0] in (1, 3):
            pixels = pixels.transpose(1, 2, 0)
        if pixels.ndim == 3 and pixels.shape[2] == 1:
            pixels = pixels[..., 0]
        try:
            picture = image_module.fromarray(np.ascontiguousarray(pixels))
        except (TypeError, ValueError) as error:
            raise DataError(f"{where}: an array of shape {pixels.shape} is no picture") from error
    elif picture.mode.startswith(("I", "F")):  # Pillow itself would cut off all above 255
        pixels = np.asarray(picture)
        if pixels.dtype.kind in "iu" and pixels.size and 0 <= pixels.min() <= pixels.max() <= 65535:
            pixels = pixels.astype(np.uint16)
        picture = image_module.fromarray(to_8_bit(pixels, where))
    image: Image = picture.convert("RGB")
    return image


def to_8_bit(pixels: NDArray[Any], where: str) -> NDArray[np.uint8]:
    """Return pixels as uint8: uint16 (and floats up to 1) are scaled, others in 0..255 are kept."""
    if pixels.dtype == np.uint8:
        return pixels
    if pixels.dtype == bool:
        return pixels.astype(np.uint8) * 255
    low, high = (float(pixels.min()), float(pixels.max())) if pixels.size else (0.0, 0.0)
    whole = pixels.dtype.kind in "iu"
    if whole and low >= 0 and high <= 65535 and (pixels.dtype == np.uint16 or high > 255):
        return np.round(pixels / 257.0).astype(np.uint8)
    if pixels.dtype.kind in "iuf" and low >= 0 and high <= 255:
        return np.round(pixels * (255.0 if high <= 1 and not whole else 1.0)).astype(np.uint8)
    raise DataError(
        f"{where}: pixels from {low:g} to {high:g} ({pixels.dtype}) are not those of an 8-bit or "
        "16-bit picture; save it with 8 or 16 bits per pixel"
    )


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
