"""Recipes: published settings by name, each value with its source.

The recipes are the TOML files beside this one; :mod:`edgemask.engine.recipes.read` describes their
format. They are read when the first recipe is used.
"""

from __future__ import annotations

from typing import Any

from edgemask._registry import Registry
from edgemask.engine.config import flatten
from edgemask.engine.recipes.read import read_recipes
from edgemask.engine.recipes.recipe import DEFAULT, Recipe, Setting, explain_config

__all__ = ["DEFAULT", "RECIPES", "Recipe", "Setting", "explain", "explain_config", "flatten"]

RECIPES: Registry[Recipe] = Registry("recipe", read_recipes)


def explain(name: str) -> list[tuple[str, Any, str]]:
    """Return every resolved value of a recipe with the place it comes from.

    Example:
        >>> rows = {key: source for key, _, source in explain("cifar10/jal-sem")}
        >>> rows["optim.lr"]
        'the paper, Table S6'
    """
    return RECIPES[name].explain()
