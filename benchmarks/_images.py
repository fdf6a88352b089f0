"""What the benchmarks of training learn from: CIFAR-10 where it is, else random images."""

from __future__ import annotations

import os
from pathlib import Path

import torch

from edgemask.data import from_arrays
from edgemask.engine import Objects

CLASSES = 10


def cifar_or_random(samples: int) -> tuple[str, Objects, str]:
    """Return the dataset's name in a config, objects that go with it, and what to call it.

    EDGEMASK_DATA names the folder of CIFAR-10.
    """
    root = os.environ.get("EDGEMASK_DATA")
    if root is not None and any(Path(root).glob("cifar-10*")):
        return "cifar10", Objects(), "CIFAR-10"
    images = torch.randint(256, (samples, 3, 32, 32), dtype=torch.uint8)
    bundle = from_arrays(images, torch.arange(samples) % CLASSES)
    return "object:images", Objects(bundle=bundle), "random images"
