"""Published augmentation policies: AutoAugment, RandAugment, colour jitter, random rotation.

Each image draws for itself, as in the published code; a draw for a whole batch would correlate the
images of a step. ``draw`` makes all random choices and ``__call__`` carries them out.
"""

from __future__ import annotations

import functools
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import torch
from torch import Generator, Tensor

from edgemask.data.augment.basic import erase_squares
from edgemask.data.augment.ops import GREY, OPERATIONS, apply, rotate

__all__ = [
    "AutoAugment",
    "ColourJitter",
    "Draw",
    "RandAugment",
    "RandomOperations",
    "RandomRotation",
    "sub_policies",
]


class Draw(NamedTuple):
    """One round of choices: the operation of each image (-1: none) and its magnitude."""

    operation: Tensor
    magnitude: Tensor


_NAMES = tuple(name for name in OPERATIONS if name != "hue")  # the 14 of AutoAugment
_NUMBER = {name: number for number, name in enumerate(_NAMES)}
_ENHANCE = ("brightness", "colour", "contrast", "sharpness")
# The magnitude at level 0 and at the last level.
_RANGES = dict.fromkeys(_NAMES, (0.0, 0.0)) | {
    **dict.fromkeys(_ENHANCE, (0.0, 0.9)),
    "posterize": (8.0, 4.0),
    "rotate": (0.0, 30.0),
    "shear_x": (0.0, 0.3),
    "shear_y": (0.0, 0.3),
    "solarize": (256.0, 0.0),
    "translate_x": (0.0, 150 / 331),
    "translate_y": (0.0, 150 / 331),
}

# The same for RandomOperations, which goes from one end to the other.
_STRENGTHS = {
    "identity": (0.0, 0.0),
    "autocontrast": (0.0, 0.0),
    "equalize": (0.0, 0.0),
    **dict.fromkeys(_ENHANCE, (0.05, 0.95)),
    "posterize": (4.0, 8.0),
    "rotate": (-30.0, 30.0),
    "shear_x": (-0.3, 0.3),
    "shear_y": (-0.3, 0.3),
    "solarize": (0.0, 256.0),
    "translate_x": (-0.3, 0.3),
    "translate_y": (-0.3, 0.3),
}

SubPolicy = list[tuple[str, float, int]]


@functools.cache
def sub_policies(policy: str) -> list[SubPolicy]:
    """Return the sub-policies of AutoAugment: pairs of (operation, probability, level of ten)."""
    path = Path(__file__).with_name("autoaugment.toml")
    table: list[SubPolicy] = tomllib.loads(path.read_text(encoding="utf-8"))[policy]
    return table


def _magnitudes(operation: Tensor, part: Tensor, sign: Tensor) -> Tensor:
    """Turn a part of the range (0..1) and a sign into what each operation takes."""
    ends = torch.tensor([_RANGES[name] for name in _NAMES])[operation]
    value = ends[:, 0] + part * (ends[:, 1] - ends[:, 0])
    enhances = torch.isin(operation, torch.tensor([_NUMBER[name] for name in _ENHANCE]))
    moves = torch.isin(
        operation,
        torch.tensor([_NUMBER[n] for n in ("shear_x", "shear_y", "translate_x", "translate_y")]),
    )
    value = torch.where(operation == _NUMBER["posterize"], value.round(), value)
    value = torch.where(enhances, 1 + sign * value, value)
    return torch.where(moves, sign * value, value)


def _signs(count: int, generator: Generator) -> Tensor:
    return torch.randint(0, 2, (count,), generator=generator) * 2.0 - 1.0


@dataclass(frozen=True)
class AutoAugment:
    """AutoAugment: one of 25 sub-policies per image, two operations each.

    Each operation is applied with its own probability, at its own level of ten. Blends, shears and
    translations go either way with equal probability, rotations counter-clockwise as in the
    published code; pixels from outside are grey (128).

    Args:
        policy: The table, ``cifar10`` or ``imagenet``.

    Shape: uint8 ``(B, C, H, W)`` to the same.

    Reference: Cubuk et al., AutoAugment, CVPR 2019.
    """

    policy: Literal["cifar10", "imagenet"] = "cifar10"

    def draw(self, count: int, generator: Generator) -> tuple[Draw, Draw]:
        """Draw the choices for ``count`` images: two rounds."""
        table = sub_policies(self.policy)
        policy = torch.randint(0, len(table), (count,), generator=generator)
        rounds = []
        for place in range(2):
            column = [pair[place] for pair in table]
            operation = torch.tensor([_NUMBER[name] for name, _, _ in column])[policy]
            probability = torch.tensor([p for _, p, _ in column])[policy]
            level = torch.tensor([level for _, _, level in column])[policy]
            magnitude = _magnitudes(operation, level / 9, _signs(count, generator))
            skipped = torch.rand(count, generator=generator) >= probability
            rounds.append(Draw(operation.masked_fill(skipped, -1), magnitude))
        return rounds[0], rounds[1]

    def __call__(self, images: Tensor, generator: Generator) -> Tensor:
        """Draw for each image and return the changed images."""
        for operation, magnitude in self.draw(len(images), generator):
            images = apply(images, _NAMES, operation, magnitude)
        return images


@dataclass(frozen=True)
class RandAugment:
    """Two operations per image out of 15, at levels of one to ten, each applied half the time.

    The 14 operations of AutoAugment and a grey cut-out of up to a fifth of the shorter side.
    Rotations, too, go either way. These are the draws of the ``randaugment`` package (version
    1.0.2) that Jo-SNC and CA2C use on large images.

    Args:
        levels: Levels are drawn from 1 to this one.

    Shape: uint8 ``(B, C, H, W)`` to the same.
    """

    levels: int = 9

    def draw(self, count: int, generator: Generator) -> tuple[Draw, Draw]:
        """Draw the choices for ``count`` images; operation 14 is the cut-out."""
        rounds = []
        for _ in range(2):
            operation = torch.randint(0, len(_NAMES) + 1, (count,), generator=generator)
            part = torch.randint(1, self.levels + 1, (count,), generator=generator) / 10
            sign = _signs(count, generator)
            magnitude = _magnitudes(operation.clamp(max=len(_NAMES) - 1), part, sign)
            turns = operation == _NUMBER["rotate"]
            magnitude = torch.where(turns, sign * magnitude, magnitude)
            magnitude = torch.where(operation == len(_NAMES), 0.2 * part, magnitude)
            skipped = torch.rand(count, generator=generator) >= 0.5
            rounds.append(Draw(operation.masked_fill(skipped, -1), magnitude))
        return rounds[0], rounds[1]

    def __call__(self, images: Tensor, generator: Generator) -> Tensor:
        """Draw for each image and return the changed images."""
        shorter = min(images.shape[-2:])
        grey = (GREY,) * images.shape[1]
        for operation, magnitude in self.draw(len(images), generator):
            covered = operation == len(_NAMES)
            images = apply(images, _NAMES, operation.masked_fill(covered, -1), magnitude)
            places = torch.rand(2, len(images), generator=generator)
            images = erase_squares(images, places, covered * magnitude * shorter, grey)
        return images


@dataclass(frozen=True)
class RandomOperations:
    """Different operations per image, each at a random strength, and a hole of random size.

    Drawn from 14: the identity, autocontrast, equalize; brightness, colour, contrast and sharpness
    times 0.05 to 0.95; posterize to 4 to 8 bits; solarize above 0 to 256; rotations by up to 30
    degrees, shears by up to 0.3 and translations by up to 0.3 of the side, either way. The hole has
    a side of up to half the shorter one. This is the strong view of ProMix.

    Args:
        count: Operations per image.
        fill: The value of each channel in the hole.

    Shape: uint8 ``(B, C, H, W)`` to the same.
    """

    count: int = 3
    fill: tuple[int, ...] = (125, 123, 114)

    def draw(self, count: int, generator: Generator) -> list[Draw]:
        """Draw the choices for ``count`` images: a round for each operation; -1 is the identity."""
        order = torch.rand(count, len(_STRENGTHS), generator=generator).argsort(dim=1)
        names = [_NUMBER.get(name, -1) for name in _STRENGTHS]
        ends = torch.tensor(list(_STRENGTHS.values()))
        rounds = []
        for chosen in order[:, : self.count].unbind(dim=1):
            low, high = ends[chosen].unbind(dim=1)
            part = torch.rand(count, generator=generator)
            operation = torch.tensor(names)[chosen]
            magnitude = low + part * (high - low)
            bits = (4 + 5 * part).floor().clamp(max=8)
            magnitude = torch.where(operation == _NUMBER["posterize"], bits, magnitude)
            rounds.append(Draw(operation, magnitude))
        return rounds

    def __call__(self, images: Tensor, generator: Generator) -> Tensor:
        """Draw for each image and return the changed images."""
        for operation, magnitude in self.draw(len(images), generator):
            images = apply(images, _NAMES, operation, magnitude)
        places = torch.rand(2, len(images), generator=generator)
        sides = torch.rand(len(images), generator=generator) * min(images.shape[-2:]) / 2
        return erase_squares(images, places, sides, self.fill)


@dataclass(frozen=True)
class ColourJitter:
    """Change brightness, contrast, saturation and hue, in an order drawn per image.

    Args:
        strength: The first three are multiplied by a factor from ``1 - strength`` to ``1 +
            strength``.
        hue: The hue is turned by at most this part of the circle, either way.
    """

    strength: float = 0.4
    hue: float = 0.2

    def __call__(self, images: Tensor, generator: Generator) -> Tensor:
        """Draw for each image and return the changed images."""
        names = ("brightness", "contrast", "colour", "hue")
        order = torch.rand(len(images), 4, generator=generator).argsort(1)
        factors = torch.rand(len(images), 4, generator=generator) * 2 - 1
        factors = torch.cat([1 + self.strength * factors[:, :3], self.hue * factors[:, 3:]], dim=1)
        for chosen in order.unbind(1):
            magnitude = factors.gather(1, chosen[:, None]).squeeze(1)
            images = apply(images, names, chosen, magnitude)
        return images


@dataclass(frozen=True)
class RandomRotation:
    """Rotate each image by an angle drawn uniformly, nearest neighbour, black outside.

    Args:
        degrees: The largest angle, either way.
    """

    degrees: float = 20.0

    def __call__(self, images: Tensor, generator: Generator) -> Tensor:
        """Draw for each image and return the changed images."""
        angles = (torch.rand(len(images), generator=generator) * 2 - 1) * self.degrees
        return rotate(images, angles, fill=0)
