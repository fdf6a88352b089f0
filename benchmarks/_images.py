"""What the benchmarks of whole epochs share: their options, and CIFAR-10 or random images."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import torch
from torch import Tensor

from _measure import arguments
from edgemask.data import from_arrays, load
from edgemask.engine import Objects

CLASSES = 10


def epoch_options(
    description: str, *, samples: int, rounds: int, width: float
) -> argparse.Namespace:
    """Read the command line of a benchmark of epochs, with these defaults."""
    parser = arguments(description)
    parser.add_argument("--samples", type=int, default=samples, help="images of an epoch")
    parser.add_argument("--rounds", type=int, default=rounds, help="times that all take turns")
    parser.add_argument("--width", type=float, default=width, help="of the 8-layer CNN")
    return parser.parse_args()


def _cifar_root() -> Path | None:
    root = os.environ.get("EDGEMASK_DATA")
    return Path(root) if root is not None and any(Path(root).glob("cifar-10*")) else None


def cifar_images(samples: int) -> tuple[tuple[Tensor, ...], str]:
    """Return training images and labels, a fifth as many for the test, and what to call them."""
    tests = samples // 5
    if _cifar_root() is None:
        images = torch.randint(256, (samples + tests, 3, 32, 32), dtype=torch.uint8)
        labels = torch.arange(samples + tests) % CLASSES
        parts = images[:samples], labels[:samples], images[samples:], labels[samples:]
        return parts, "random images"
    bundle = load("cifar10", root=_cifar_root())
    found = []
    for split, count in ((bundle.train, samples), (bundle.test, tests)):
        found += [split.raw(torch.arange(count)), torch.from_numpy(split.labels[:count].copy())]
    return tuple(found), "CIFAR-10"


def cifar_or_random(samples: int) -> tuple[str, Objects, str]:
    """Return the dataset's name in a config, objects that go with it, and what to call it.

    EDGEMASK_DATA names the folder of CIFAR-10.
    """
    if _cifar_root() is not None:
        return "cifar10", Objects(), "CIFAR-10"
    images = torch.randint(256, (samples, 3, 32, 32), dtype=torch.uint8)
    bundle = from_arrays(images, torch.arange(samples) % CLASSES)
    return "object:images", Objects(bundle=bundle), "random images"
