"""Stand-ins for CLIP: no weights of CLIP are needed, and none of its knowledge is there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch.nn import functional as F

from edgemask.data import load


def digits_features(folder: Path, *, noise: float = 0.6) -> dict[str, str]:
    """Write stand-in features for the training samples of digits; return the options naming them.

    An image's features are a random projection of its pixels plus Gaussian noise; a class's text
    features are the mean of a few such projections, as if CLIP had seen some digits before.
    """
    folder.mkdir(parents=True, exist_ok=True)
    train = load("digits").train
    draw = torch.Generator().manual_seed(0)
    pixels = train.raw(torch.arange(len(train))).float().flatten(1) / 255
    pixels = pixels - pixels.mean(dim=0)
    projection = torch.randn(pixels.shape[1], 32, generator=draw)
    images = F.normalize(pixels @ projection, dim=1)
    images = images + noise * torch.randn(images.shape, generator=draw) / images.shape[1] ** 0.5
    labels = torch.as_tensor(train.labels)
    texts = torch.stack([images[labels == c][:20].mean(dim=0) for c in range(10)])
    paths = {"features": folder / "images.npy", "text": folder / "texts.npy"}
    np.save(paths["features"], images.numpy())
    np.save(paths["text"], texts.numpy())
    return {name: str(path) for name, path in paths.items()}
