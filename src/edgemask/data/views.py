"""Views of a sample: ``none``, ``weak`` and ``strong``, as published for each dataset."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import torch
from torch import Generator, Tensor

from edgemask._registry import Registry
from edgemask.data.augment.basic import CutOut, FeatureJitter, Flip, PadCrop
from edgemask.data.augment.policies import AutoAugment, ColourJitter, RandAugment, RandomRotation
from edgemask.data.images import Fit
from edgemask.errors import UserError, unknown_name

if TYPE_CHECKING:
    from edgemask.data.bundle import DataBundle

__all__ = ["RECIPES", "VIEWS", "Augment", "Recipe", "ViewPlan", "build"]

Step = Callable[[Tensor, Generator], Tensor]
ViewPlan = tuple[str, ...]
"""The views of one batch, by name: ``("weak", "strong")``."""

VIEWS = ("none", "weak", "strong")
IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
_CLOTHING = ((0.6959, 0.6537, 0.6371), (0.3113, 0.3192, 0.3214))
_PLAIN = ((0.0, 0.0, 0.0), (1.0, 1.0, 1.0))


@dataclass(frozen=True)
class Augment:
    """What makes a view of a whole batch: a pure function of the batch and a generator.

    Args:
        steps: Random operations on the stored samples, in order.
        mean: Per channel or feature, of values scaled to 0..1 where they are stored as uint8.
        std: Likewise.
        finish: Random operations on the normalised samples.
        fit: Brings an image file to the input size.

    Shape: uint8 ``(B, C, H, W)`` or float ``(B, ...)`` to float32 of the same shape; integers of
    other types are not normalised.
    """

    steps: tuple[Step, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    finish: tuple[Step, ...] = ()
    fit: Fit = field(default=Fit(224))

    def __call__(self, batch: Tensor, generator: Generator) -> Tensor:
        """Return the view."""
        for step in self.steps:
            batch = step(batch, generator)
        if batch.dtype != torch.uint8 and not batch.is_floating_point():
            return batch
        scale = 255.0 if batch.dtype == torch.uint8 else 1.0
        shape = (-1,) + (1,) * (batch.ndim - 2)
        mean = torch.tensor(self.mean).view(shape) * scale
        std = torch.tensor(self.std).view(shape) * scale
        batch = batch.to(torch.float32, copy=True).sub_(mean).div_(std)
        for step in self.finish:
            batch = step(batch, generator)
        return batch


@dataclass(frozen=True)
class Recipe:
    """How a code base prepares a dataset.

    Args:
        source: Where it comes from.
        weak: The steps of the weak view.
        strong: The steps that the strong view adds; None where the data has no strong view.
        mean: Per channel; None leaves it to the data.
        std: Likewise.
        strong_first: Whether the steps of the strong view come before those of the weak one.
        finish: Steps of the weak view after normalisation.
        strong_finish: Steps of the strong view after normalisation.
        resize: Image files are first scaled to this multiple of the input size.
        square: Scale both sides alike, whatever the aspect.
        resize_first: Whether training images are scaled before they are cut; test images always
            are.
        crop: How training images are then cut; test images are cut in the middle.
    """

    source: str
    weak: tuple[Step, ...] = ()
    strong: tuple[Step, ...] | None = ()
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    strong_first: bool = False
    finish: tuple[Step, ...] = ()
    strong_finish: tuple[Step, ...] = ()
    resize: float | None = None
    square: bool = False
    resize_first: bool = True
    crop: Literal["center", "random", "resized"] = "random"

    @property
    def normalisation(self) -> tuple[tuple[float, ...], tuple[float, ...]] | None:
        """Mean and std, where the recipe fixes them."""
        return None if self.mean is None or self.std is None else (self.mean, self.std)


_WEAK = (PadCrop(4), Flip())
_JAL10 = ((0.49139968, 0.48215827, 0.44653124), (0.24703233, 0.24348505, 0.26158768))
_JAL100 = ((0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762))
_DIVIDEMIX10 = ((0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010))
_DIVIDEMIX100 = ((0.507, 0.487, 0.441), (0.267, 0.256, 0.276))
_SOP100 = ((0.5071, 0.4867, 0.4408), (0.2675, 0.2565, 0.2761))
_GREY_APL = tuple(round(255 * value) for value in IMAGENET[0])


def _cifar(source: str, constants: tuple[tuple[float, ...], tuple[float, ...]]) -> Recipe:
    mean, std = constants
    return Recipe(source, _WEAK, (AutoAugment(),), mean, std)


def _large(
    source: str,
    constants: tuple[tuple[float, ...], tuple[float, ...]] = IMAGENET,
    *,
    weak: tuple[Step, ...] = (Flip(),),
    strong: tuple[Step, ...] = (RandAugment(),),
    resize: float | None = 256 / 224,
    square: bool = False,
    resize_first: bool = True,
    crop: Literal["center", "random", "resized"] = "random",
) -> Recipe:
    mean, std = constants
    return Recipe(
        source,
        weak,
        strong,
        mean,
        std,
        resize=resize,
        square=square,
        resize_first=resize_first,
        crop=crop,
    )


RECIPES: Registry[Recipe] = Registry(
    "recipe",
    {
        "digits": Recipe("ours: shift by one pixel; + rotation, cut-out", (PadCrop(1),),
                         (RandomRotation(15), CutOut(2, (0,))), (0.3053,), (0.3762,)),
        "mnist": Recipe("ours: shift by two pixels; + rotation, cut-out", (PadCrop(2),),
                        (RandomRotation(15), CutOut(8, (0,))), (0.1307,), (0.3081,)),
        "mnist/plain": Recipe("Co-teaching, JoCoR: pixels in 0..1; the rest ours", (PadCrop(2),),
                              (RandomRotation(15), CutOut(8, (0,))), (0.0,), (1.0,)),
        "fashion-mnist": Recipe("ours: shift by two pixels, flip; + AutoAugment",
                                (PadCrop(2), Flip()), (AutoAugment(),), (0.2860,), (0.3530,)),
        "cifar10": _cifar("JAL, ANL, APL, ALF", _JAL10),
        "cifar10/flip": Recipe("ours: flip, no shift; the rest as JAL", (Flip(),), (AutoAugment(),),
                               *_JAL10),
        "cifar10/dividemix": _cifar("DivideMix", _DIVIDEMIX10),
        "cifar10/josrc": _cifar("Jo-SRC", IMAGENET),
        "cifar10/ca2c": _cifar("CA2C", IMAGENET),
        "cifar10/plain": _cifar("Co-teaching, JoCoR: pixels in 0..1", _PLAIN),
        "cifar100": Recipe("JAL, ANL, APL, ALF", (*_WEAK, RandomRotation(20)), (AutoAugment(),),
                           *_JAL100),
        "cifar100/flip": Recipe("ours: flip, no shift, no rotation; the rest as JAL", (Flip(),),
                                (AutoAugment(),), *_JAL100),
        "cifar100/dividemix": _cifar("DivideMix", _DIVIDEMIX100),
        "cifar100/josrc": _cifar("Jo-SRC", IMAGENET),
        "cifar100/josnc": _cifar("Jo-SNC", (_JAL100[0], (0.2009, 0.1984, 0.2023))),
        "cifar100/ca2c": _cifar("CA2C", IMAGENET),
        "cifar100/elr": _cifar("ELR", _SOP100),
        "cifar100/sop": Recipe(
            "SOP: ELR's, its strong view with a hole of 16 pixels after normalisation", _WEAK,
            (AutoAugment(),), *_SOP100, strong_first=True,
            strong_finish=(CutOut(16, (0, 0, 0), whole=True),)),
        "cifar100/plain": _cifar("Co-teaching, JoCoR: pixels in 0..1", _PLAIN),
        "webvision-mini": _large("JAL, ANL, APL", weak=(Flip(), ColourJitter(0.4, 0.2)),
                                 resize_first=False, crop="resized"),
        "webvision-mini/dividemix": _large("DivideMix (299 pixels)", resize=320 / 299,
                                           crop="resized"),
        "webvision-mini/josnc": _large("Jo-SNC"),
        "webvision-mini/unicon": _large("UNICON, SSR: the strong view; the rest as Jo-SNC",
                                        strong=(AutoAugment("imagenet"),)),
        "clothing1m": _large("JAL", _CLOTHING, square=True),
        "clothing1m/dividemix": _large("DivideMix", _CLOTHING),
        "clothing1m/unicon": _large("UNICON, SSR: the strong view; the rest as DivideMix",
                                    _CLOTHING, strong=(AutoAugment("imagenet"),)),
        "clothing1m/apl": _large(
            "APL, ALF", resize=None, square=True, resize_first=False, crop="resized",
            weak=(Flip(), RandomRotation(20), ColourJitter(0.4, 0.2), CutOut(112, _GREY_APL))),
        "images": _large("own images: scale, crop, flip; + RandAugment"),
        "array-images": Recipe("own images in memory: shift by an eighth, flip; + AutoAugment",
                               (PadCrop(1 / 8), Flip()), (AutoAugment(),)),
        "float-images": Recipe("images given as floats: shift by an eighth, flip; no strong view",
                               (PadCrop(1 / 8), Flip()), None),
        "features": Recipe("tabular: Gaussian jitter of 5 % of a standard deviation; strong 15 %",
                           finish=(FeatureJitter(0.05),), strong_finish=(FeatureJitter(0.15),)),
        "as-given": Recipe("samples that come transformed: every view is the sample"),
    },
)  # fmt: skip


def build(bundle: DataBundle, name: str) -> Augment:
    """Return what makes the view ``name`` of the samples of ``bundle``.

    Args:
        bundle: The dataset; its recipe and normalisation decide.
        name: ``none`` (normalised only; files cut in the middle), ``weak`` or ``strong``.
    """
    if name not in VIEWS:
        raise unknown_name("view", name, VIEWS)
    recipe = RECIPES[bundle.recipe]
    size = bundle.input_shape[-1]
    resize = round(size * recipe.resize) if recipe.resize else None
    mean, std = bundle.normalisation
    if name == "none":
        return Augment((), mean, std, fit=Fit(size, resize, square=recipe.square))
    if name == "strong" and recipe.strong is None:
        raise UserError(
            f"dataset {bundle.name!r} has no strong view (recipe {bundle.recipe!r}); "
            f"give the images as uint8, or use the view 'weak'"
        )
    steps, finish = recipe.weak, recipe.finish
    if name == "strong":
        more, finish = recipe.strong or (), recipe.strong_finish
        steps = more + steps if recipe.strong_first else steps + more
    first = resize if recipe.resize_first else None
    fit = Fit(size, first, square=recipe.square, crop=recipe.crop)
    return Augment(steps, mean, std, finish, fit)
