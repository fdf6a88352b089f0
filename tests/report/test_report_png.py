"""PNG files against Pillow's reader."""

from __future__ import annotations

import io

import numpy as np
import pytest

from edgemask.report.png import data_uri, encode_png

Image = pytest.importorskip("PIL.Image", reason="Pillow reads the pictures back")


@pytest.mark.parametrize("shape", [(1, 1), (5, 7), (96, 96, 1), (8, 3, 2), (32, 32, 3), (4, 9, 4)])
def test_pillow_reads_back_every_pixel(shape: tuple[int, ...]) -> None:
    image = np.random.default_rng(0).integers(0, 256, shape).astype(np.uint8)
    read = np.asarray(Image.open(io.BytesIO(encode_png(image))))
    assert read.reshape(shape).tolist() == image.tolist()


def test_a_smooth_picture_is_small() -> None:
    fade = np.repeat(np.arange(96, dtype=np.uint8)[:, None], 96, axis=1)
    assert len(encode_png(fade)) < 400


@pytest.mark.parametrize(
    "image",
    [np.zeros((2, 2, 5), np.uint8), np.zeros((2, 2), np.float32), np.zeros((0, 2), np.uint8)],
)
def test_what_is_no_picture_is_refused(image: np.ndarray) -> None:
    with pytest.raises(ValueError):
        encode_png(image)


def test_the_address_holds_the_file() -> None:
    assert data_uri(np.zeros((2, 2), np.uint8)).startswith("data:image/png;base64,iVBORw0KGgo")
