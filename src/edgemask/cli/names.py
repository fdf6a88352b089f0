"""The names in the registries, read without importing torch, for shell completion."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path

__all__ = ["KINDS", "complete", "registered"]

# What can be listed: the subpackage and the variable that holds the registry.
KINDS: dict[str, tuple[str, str]] = {
    "heads": ("heads", "HEADS"),
    "losses": ("losses", "LOSSES"),
    "noise": ("noise", "NOISE"),
    "data": ("data", "DATASETS"),
    "models": ("models", "MODELS"),
    "methods": ("methods", "METHODS"),
    "recipes": ("engine", "RECIPES"),
}


def registered(kind: str) -> list[str]:
    """Return the names of a kind from the source of its subpackage; recipes are computed there.

    Example:
        >>> registered("heads")[:2]
        ['linear', 'sem']
    """
    subpackage, variable = KINDS[kind]
    if kind == "recipes":
        from edgemask.engine import RECIPES

        return list(RECIPES)
    source = Path(__file__).parents[1] / subpackage / "__init__.py"
    for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.AnnAssign | ast.Assign) or not isinstance(node.value, ast.Call):
            continue
        targets = [node.target] if isinstance(node, ast.AnnAssign) else node.targets
        if variable in (getattr(target, "id", None) for target in targets):
            entries = node.value.args[1]
            assert isinstance(entries, ast.Dict)
            return [str(key.value) for key in entries.keys if isinstance(key, ast.Constant)]
    raise LookupError(f"no registry {variable} in {source}")


def complete(kind: str) -> Callable[[str], list[str]]:
    """Return the function that offers names of a kind to the shell."""

    def offer(incomplete: str) -> list[str]:
        return [name for name in registered(kind) if name.startswith(incomplete)]

    return offer
