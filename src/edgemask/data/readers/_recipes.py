"""The recipe of a dataset by the short name of a code base."""

from __future__ import annotations

from edgemask.data.bundle import Normalisation
from edgemask.data.views import RECIPES
from edgemask.errors import unknown_name

__all__ = ["normalisation_of", "recipe_name"]


def recipe_name(dataset: str, recipe: str | None) -> str:
    """Return the full name of a recipe, that of the dataset itself without one."""
    if recipe is None:
        return dataset
    name = f"{dataset}/{recipe}"
    if name not in RECIPES:
        known = [n.partition("/")[2] for n in RECIPES if n.startswith(f"{dataset}/")]
        raise unknown_name(f"recipe for {dataset}", recipe, known)
    return name


def normalisation_of(recipe: str) -> Normalisation:
    """Return the constants of a recipe that has them."""
    found = RECIPES[recipe].normalisation
    assert found is not None
    return found
