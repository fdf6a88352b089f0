"""The batched image operations against Pillow, one image at a time."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from PIL import Image, ImageEnhance, ImageOps
from torch import Tensor

from edgemask.data.augment.ops import GREY, OPERATIONS, apply, rotate
from sweeps import sweep

GREYS = (GREY, GREY, GREY)
Reference = Callable[[Image.Image, float], Image.Image]


def pictures(count: int = 6, size: int = 24) -> Tensor:
    """Smooth colour pictures with some noise, so that interpolation does not dominate."""
    rng = np.random.default_rng(0)
    small = rng.integers(0, 256, (count, 5, 5, 3)).astype(np.uint8)
    images = [np.array(Image.fromarray(s).resize((size, size), 2)) for s in small]
    noise = rng.integers(-8, 9, (count, size, size, 3))
    images = np.clip(np.stack(images) + noise, 0, 255).astype(np.uint8)
    return torch.from_numpy(images).permute(0, 3, 1, 2).contiguous()


def pillow(images: Tensor, function: Reference, magnitudes: Tensor) -> Tensor:
    out = [
        np.array(function(Image.fromarray(x.permute(1, 2, 0).numpy()), float(m)))
        for x, m in zip(images, magnitudes, strict=True)
    ]
    return torch.from_numpy(np.stack(out)).permute(0, 3, 1, 2)


def affine(image: Image.Image, data: tuple[float, ...], resample: int) -> Image.Image:
    return image.transform(image.size, Image.Transform.AFFINE, data, resample, fillcolor=GREYS)


FACTORS = [0.1, 0.5, 1, 1.3, 1.9, 0.7]
EXACT: dict[str, tuple[Reference, list[float], int]] = {
    "autocontrast": (lambda x, _: ImageOps.autocontrast(x), [0] * 6, 1),
    "equalize": (lambda x, _: ImageOps.equalize(x), [0] * 6, 0),
    "invert": (lambda x, _: ImageOps.invert(x), [0] * 6, 0),
    "posterize": (lambda x, m: ImageOps.posterize(x, int(m)), [4, 5, 6, 7, 8, 4], 0),
    "solarize": (ImageOps.solarize, [0, 28.4, 85.3, 128, 199.1, 256], 0),
    "brightness": (lambda x, m: ImageEnhance.Brightness(x).enhance(m), FACTORS, 1),
    "colour": (lambda x, m: ImageEnhance.Color(x).enhance(m), FACTORS, 2),
    "contrast": (lambda x, m: ImageEnhance.Contrast(x).enhance(m), FACTORS, 2),
    "sharpness": (lambda x, m: ImageEnhance.Sharpness(x).enhance(m), FACTORS, 2),
}  # fmt: skip


@sweep("name", EXACT)
def test_pixel_operations_follow_pillow(name: str) -> None:
    function, values, tolerance = EXACT[name]
    images, magnitudes = pictures(), torch.tensor(values, dtype=torch.float32)
    found = OPERATIONS[name](images, magnitudes)
    assert found.dtype == torch.uint8
    difference = (found.int() - pillow(images, function, magnitudes).int()).abs()
    assert int(difference.max()) <= tolerance


WARPS: dict[str, tuple[Reference, list[float]]] = {
    "rotate": (lambda x, m: x.rotate(m, fillcolor=GREYS), [-30, -13, 0, 7, 20, 30]),
    "translate_x": (lambda x, m: affine(x, (1, 0, m * x.width, 0, 1, 0), 0),
                    [-0.45, -0.25, 0, 0.125, 0.25, 0.3]),
    "translate_y": (lambda x, m: affine(x, (1, 0, 0, 0, 1, m * x.height), 0),
                    [-0.45, -0.25, 0, 0.125, 0.25, 0.3]),
    "shear_x": (lambda x, m: affine(x, (1, m, 0, 0, 1, 0), 3), [-0.3, -0.1, 0, 0.1, 0.2, 0.3]),
    "shear_y": (lambda x, m: affine(x, (1, 0, 0, m, 1, 0), 3), [-0.3, -0.1, 0, 0.1, 0.2, 0.3]),
}  # fmt: skip


@sweep("name", WARPS)
def test_warps_follow_pillow(name: str) -> None:
    """Same place, direction and fill."""
    function, values = WARPS[name]
    images, magnitudes = pictures(), torch.tensor(values, dtype=torch.float32)
    found = OPERATIONS[name](images, magnitudes)
    difference = (found.int() - pillow(images, function, magnitudes).int()).abs().float()
    # Pillow's cubic kernel is softer than torch's: shears differ by a grey level or so.
    assert float(difference.mean()) < (1.5 if name.startswith("shear") else 0.05)
    assert float((difference > 24).float().mean()) < 0.01
    assert torch.equal(found[2], images[2])  # magnitude 0
    wrong = (found.int() - pillow(images, function, -magnitudes).int()).abs().float()
    assert float(wrong.mean()) > 10  # the other direction is far off


def test_hue_turns_colours_and_keeps_grey() -> None:
    red = torch.zeros(2, 3, 4, 4, dtype=torch.uint8)
    red[0, 0] = 255
    red[1] = 90
    turned = OPERATIONS["hue"](red, torch.tensor([1 / 3, 1 / 3]))
    assert turned[0, :, 0, 0].tolist() == [0, 255, 0]
    assert turned[1].eq(90).all()


@sweep("name", OPERATIONS)
def test_one_channel_images_work(name: str) -> None:
    images = pictures()[:, :1].contiguous()
    found = OPERATIONS[name](images, torch.full((6,), 0.5 if name != "posterize" else 4.0))
    assert found.shape == images.shape
    assert found.dtype == torch.uint8


def test_a_batch_is_no_different_from_its_images() -> None:
    images = pictures()
    for name, operation in OPERATIONS.items():
        values = torch.linspace(0.2, 0.9, 6) if name != "posterize" else torch.full((6,), 5.0)
        whole = operation(images, values)
        single = torch.cat([operation(images[i : i + 1], values[i : i + 1]) for i in range(6)])
        assert torch.equal(whole, single), name


def test_apply_gives_each_image_its_own_operation() -> None:
    images = pictures()
    chosen = torch.tensor([0, -1, 1, 0, -1, 1])
    found = apply(images, ("invert", "solarize"), chosen, torch.zeros(6))
    for i, number in enumerate(chosen.tolist()):
        expected = images[i] if number < 0 else 255 - images[i]
        assert torch.equal(found[i], expected)
    assert torch.equal(images, pictures())  # the input is not touched


def test_rotation_fills_with_what_is_asked() -> None:
    white = torch.full((1, 3, 20, 20), 255, dtype=torch.uint8)
    assert int(rotate(white, torch.tensor([20.0]), fill=0)[0, 0, 0, 0]) == 0
    assert int(rotate(white, torch.tensor([20.0]))[0, 0, 0, 0]) == GREY
