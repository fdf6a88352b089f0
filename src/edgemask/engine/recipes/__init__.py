"""Recipes: published settings by name, each value with its source.

A family of recipes is one file with a function ``recipes()`` and one line here.
"""

from __future__ import annotations

from typing import Any

from edgemask._registry import Registry
from edgemask.engine.config import flatten
from edgemask.engine.recipes import digits, regularisers, robust_losses, selection, semi_supervised
from edgemask.engine.recipes.base import DEFAULT, Recipe, Setting, explain_config

__all__ = ["DEFAULT", "RECIPES", "Recipe", "Setting", "explain", "explain_config", "flatten"]

_FAMILIES = (
    digits.recipes,
    robust_losses.recipes,
    selection.recipes,
    semi_supervised.recipes,
    regularisers.recipes,
)

RECIPES: Registry[Recipe] = Registry(
    "recipe", {recipe.name: recipe for family in _FAMILIES for recipe in family()}
)


def explain(name: str) -> list[tuple[str, Any, str]]:
    """Return every resolved value of a recipe with the place it comes from.

    Example:
        >>> rows = {key: source for key, _, source in explain("cifar10/jal-sem")}
        >>> rows["optim.lr"]
        'the paper, Table S6'
    """
    return RECIPES[name].explain()
