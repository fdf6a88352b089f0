"""The names in the registries, read without importing torch."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path

from edgemask._registry import Registry

__all__ = ["KINDS", "complete", "name_registry", "registered"]

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
    if kind == "recipes":
        from edgemask.engine import RECIPES

        return list(RECIPES)
    return list(_constants(_declaration(kind).args[1]))


def name_registry(kind: str) -> Registry[None]:
    """Return a registry of the names and aliases of a kind, with nothing behind the names.

    It knows what is declared in the source and what installed packages offer, and refuses other
    names with the same words as the registry itself.

    Example:
        >>> name_registry("heads").name_of("ddc")
        'dynamic-dropconnect'
    """
    call = _declaration(kind)
    singular = call.args[0]
    assert isinstance(singular, ast.Constant)
    further = {word.arg: word.value for word in call.keywords}.get("aliases")
    aliases = {} if further is None else _constants(further)
    return Registry(
        str(singular.value),
        dict.fromkeys(registered(kind)),
        aliases={alias: str(name) for alias, name in aliases.items()},
    )


def _declaration(kind: str) -> ast.Call:
    """Return the call ``Registry(...)`` that declares the names of a kind."""
    subpackage, variable = KINDS[kind]
    source = Path(__file__).parents[1] / subpackage / "__init__.py"
    for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.AnnAssign | ast.Assign) or not isinstance(node.value, ast.Call):
            continue
        targets = [node.target] if isinstance(node, ast.AnnAssign) else node.targets
        if variable in (getattr(target, "id", None) for target in targets):
            return node.value
    raise LookupError(f"no registry {variable} in {source}")


def _constants(mapping: ast.expr) -> dict[str, object]:
    """Return the keys of a written-out dict, with the values that are constants."""
    assert isinstance(mapping, ast.Dict)
    return {
        str(key.value): getattr(value, "value", None)
        for key, value in zip(mapping.keys, mapping.values, strict=True)
        if isinstance(key, ast.Constant)
    }


def complete(kind: str) -> Callable[[str], list[str]]:
    """Return the function that offers names of a kind to the shell."""

    def offer(incomplete: str) -> list[str]:
        return [name for name in registered(kind) if name.startswith(incomplete)]

    return offer
