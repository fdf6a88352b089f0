"""Views of a sample: ``none``, ``weak`` and ``strong``, as published for each dataset."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Generator, Tensor

from edgemask._registry import Registry
from edgemask.data.augment.basic import CutOut, FeatureJitter, Flip, PadCrop
from edgemask.data.augment.policies import (
    AutoAugment,
    ColourJitter,
    RandAugment,
    RandomOperations,
    RandomRotation,
)
from edgemask.data.images import Fit
from edgemask.errors import UserError, unknown_name

if TYPE_CHECKING:
    from edgemask.data.bundle import DataBundle

__all__ = ["RECIPES", "VIEWS", "Augment", "ViewPlan", "ViewRecipe", "build", "find_recipe"]

Step = Callable[[Tensor, Generator], Tensor]
Constants = tuple[tuple[float, ...], tuple[float, ...]]
ViewPlan = tuple[str, ...]
"""The views of one batch, by name: ``("weak", "strong")``."""

VIEWS = ("none", "weak", "strong")
IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))


@dataclass(frozen=True)
class Augment:
    """What makes a view of a whole batch: a pure function of the batch and a generator.

    Args:
        steps: Random operations on the stored samples, in order.
        mean: Per channel or feature, of values scaled to 0..1 where they are stored as uint8.
        std: Likewise.
        finish: Random operations on the normalised samples.
        fit: Resizes an image file to the input size.

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
class ViewRecipe:
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
        resize_first: Whether training images are scaled before they are cropped; test images
            always are.
        crop: How training images are then cropped; test images are cropped in the centre.
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
    def normalisation(self) -> Constants | None:
        """Mean and std, where the recipe fixes them."""
        return None if self.mean is None or self.std is None else (self.mean, self.std)


_FILE = Path(__file__).with_name("views.toml")
_STEPS: dict[str, Callable[..., Step]] = {
    step.__name__: step
    for step in (
        AutoAugment, ColourJitter, CutOut, FeatureJitter, Flip, PadCrop, RandAugment,
        RandomOperations, RandomRotation,
    )
}  # fmt: skip


def _read_recipes() -> dict[str, ViewRecipe]:
    content = tomllib.loads(_FILE.read_text(encoding="utf-8"))
    return {
        name: _read_recipe(table, content["normalisations"])
        for name, table in content["recipes"].items()
    }


def _read_recipe(
    table: dict[str, Any], normalisations: dict[str, dict[str, list[float]]]
) -> ViewRecipe:
    fields = dict(table)
    for key in ("weak", "strong", "finish", "strong_finish"):
        if key in fields:
            fields[key] = tuple(_read_step(step) for step in fields[key])
    if not fields.pop("has_strong", True):
        fields["strong"] = None
    if "resize" in fields:
        scaled, size = fields["resize"]
        fields["resize"] = scaled / size
    constants = fields.pop("normalisation", None)
    if isinstance(constants, str):
        constants = normalisations[constants]
    if constants is not None:
        fields["mean"], fields["std"] = tuple(constants["mean"]), tuple(constants["std"])
    return ViewRecipe(**fields)


def _read_step(table: dict[str, Any]) -> Step:
    options = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in table.items()
        if name != "step"
    }
    return _STEPS[table["step"]](**options)


RECIPES: Registry[ViewRecipe] = Registry("recipe", _read_recipes)
"""How the views of a dataset are made, by name; ``views.toml`` holds them with their sources."""


def find_recipe(dataset: str, recipe: str | None) -> tuple[str, Constants]:
    """Return the full name and the mean and std of a dataset's recipe, by its short name.

    Args:
        dataset: The dataset, whose own recipe is meant when ``recipe`` is None.
        recipe: The name of a code base, such as ``dividemix``.
    """
    name = dataset if recipe is None else f"{dataset}/{recipe}"
    if name not in RECIPES:
        known = [n.partition("/")[2] for n in RECIPES if n.startswith(f"{dataset}/")]
        raise unknown_name(f"recipe for {dataset}", recipe, known)
    constants = RECIPES[name].normalisation
    assert constants is not None
    return RECIPES.name_of(name), constants


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
