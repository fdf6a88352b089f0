"""A person's own data, end to end: nobody knows how noisy it is, or what would be right."""

from __future__ import annotations

import json

import numpy as np
import pytest
from PIL import Image

RNG = np.random.default_rng(0)


def blobs(count, features=6, classes=3):
    """Clouds of points, a fifth of them under a wrong name."""
    labels = RNG.integers(classes, size=count)
    x = (
        RNG.normal(size=(count, features)).astype(np.float32)
        + 3 * np.eye(classes, features)[labels]
    )
    wrong = RNG.random(count) < 0.2
    given = np.where(wrong, (labels + 1) % classes, labels)
    return x.astype(np.float32), given


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("own") / "my.npz"
    x, y = blobs(600)
    np.savez(path, x=x, y=np.array(["ant", "bee", "<cat>"])[y])
    return path, x


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """Squares of three colours with grain, some in the wrong folder."""
    root = tmp_path_factory.mktemp("own") / "photos"
    for number in range(90):
        true = number % 3
        given = (true + 1) % 3 if number % 5 == 0 else true
        pixels = RNG.integers(0, 90, size=(20, 20, 3), dtype=np.uint8)
        pixels[..., true] += 150
        folder = root / ("red", "green", "blue")[given]
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(folder / f"{number:03}.png")
    return root


def test_a_table_of_unknown_noise(call, table, tmp_path):
    path, x = table
    out = tmp_path / "run"
    text = call(
        "train", "--data", f"npz:{path}", "--loss", "jal", "--head", "sem", "--epochs", 12,
        "--batch-size", 32, "--out", out,
    ).stdout  # fmt: skip
    assert "mlp, sem head" in text
    assert "share of wrong labels" not in text
    assert "labels are as noisy" in text
    assert "memorised" not in text
    summary = json.loads((out / "summary.json").read_text())
    assert summary["noise"]["realised_rate"] is None
    assert summary["class_names"] == ["<cat>", "ant", "bee"]
    # Labels that are wrong for a fifth allow no more than 80 %; a guess gets a third.
    assert summary["test/accuracy"]["last"] > 0.6
    call("report", out)
    page = (out / "report.html").read_text()
    assert "<cat>" not in page
    new = tmp_path / "new.npy"
    np.save(new, x[:5])
    rows = json.loads(call("predict", out, "--npz", new).stdout)
    assert {row["class"] for row in rows} <= {"<cat>", "ant", "bee"}


def test_a_folder_of_photos(call, photos, tmp_path):
    out = tmp_path / "run"
    text = call(
        "train", "--data", f"imagefolder:{photos}", "--loss", "jal", "--head", "sem", "--epochs", 3,
        "--batch-size", 16, "--out", out,
    ).stdout  # fmt: skip
    assert "small-cnn, sem head" in text
    assert "3 classes; labels as given" in text
    summary = json.loads((out / "summary.json").read_text())
    assert summary["class_names"] == ["blue", "green", "red"]
    assert summary["noise"]["realised_rate"] is None
    assert (out / "thumbnails.npz").is_file()
    rows = json.loads(call("predict", out, photos / "red").stdout)
    assert len(rows) == len(list((photos / "red").iterdir()))
    assert rows[0]["input"].endswith(".png")
    call("report", out)
    call("eval", out)
    call("export", out, "--format", "torch")


def test_reading_with_options(read, photos):
    found = read(
        "train", "--data", f"imagefolder:{photos}", "--set", "data.options.size=32", "--dry-run"
    )
    assert found["plan"]["input"] == "3x32x32"
    assert found["config"]["model"]["name"] == "cnn8"


def test_an_unknown_option_of_the_reader(call, photos):
    message = call(
        "train", "--data", f"imagefolder:{photos}", "--set", "data.options.sise=32", code=2
    ).stderr
    assert "did you mean 'size'" in message
