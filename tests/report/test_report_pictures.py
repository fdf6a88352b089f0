"""Pictures on the page hold the pixels that they were given."""

from __future__ import annotations

import base64
import io

import numpy as np
from PIL import Image

from edgemask.report.heatmaps import png_address
from sweeps import sweep


@sweep("shape", [(1, 1), (5, 7), (96, 96, 1), (32, 32, 3), (4, 9, 4)])
def test_every_pixel_is_kept(shape: tuple[int, ...]) -> None:
    image = np.random.default_rng(0).integers(0, 256, shape).astype(np.uint8)
    kind, _, data = png_address(image).partition(",")
    assert kind == "data:image/png;base64"
    read = np.asarray(Image.open(io.BytesIO(base64.b64decode(data))))
    assert read.reshape(shape).tolist() == image.tolist()


def test_a_smooth_picture_is_small() -> None:
    fade = np.repeat(np.arange(96, dtype=np.uint8)[:, None], 96, axis=1)
    assert len(png_address(fade)) < 600
