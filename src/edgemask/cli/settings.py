"""From flags, files and recipes to the layers of a config."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from edgemask.errors import UserError

__all__ = ["compact", "default_model", "lay", "named"]

# Parts with a name and options of their own: under another name, old options have no meaning.
_NAMED = ("head", "loss", "method", "model")
_SHORT = re.compile(r"\s*(?P<name>[^()\s]+)\s*(?:\((?P<options>.*)\))?\s*", re.DOTALL)


def named(text: str, flag: str) -> dict[str, Any]:
    """Read ``name`` or ``name(option=value, ...)``.

    Example:
        >>> named("sem(rho=0.3, policy=topk(0.1))", "--head")
        {'name': 'sem', 'options': {'rho': 0.3, 'policy': 'topk(0.1)'}}
        >>> named("ce", "--loss")
        {'name': 'ce'}
    """
    from edgemask.engine.schema import parse_value

    match = _SHORT.fullmatch(text)
    if match is None:
        raise UserError(f"{flag} takes a name, or name(option=value, ...), got {text!r}")
    if match["options"] is None:
        return {"name": match["name"]}
    options = {}
    for part in _parts(match["options"]):
        key, equals, value = part.partition("=")
        if not equals or not key.strip() or not value.strip():
            raise UserError(f"{flag} {text!r}: expected option=value, got {part.strip()!r}")
        options[key.strip()] = parse_value(value)
    return {"name": match["name"], "options": options}


def _parts(text: str) -> Iterable[str]:
    """Cut at the commas that stand outside brackets."""
    part, depth = "", 0
    for character in text:
        depth += (character in "([{") - (character in ")]}")
        if character == "," and not depth:
            yield part
            part = ""
        else:
            part += character
    if part.strip():
        yield part


def compact(groups: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Leave out what was not given.

    Example:
        >>> compact({"train": {"epochs": 3, "seed": None}, "optim": {"lr": None}})
        {'train': {'epochs': 3}}
    """
    kept = {
        group: {key: value for key, value in values.items() if value is not None}
        for group, values in groups.items()
    }
    return {group: values for group, values in kept.items() if values}


def lay(base: Mapping[str, Any], layer: Mapping[str, Any]) -> dict[str, Any]:
    """Lay settings upon others; a part under a new name starts from its own defaults.

    Example:
        >>> lay({"head": {"name": "sem", "options": {"rho": 0.3}}}, {"head": {"name": "linear"}})
        {'head': {'name': 'linear'}}
    """
    from edgemask.engine import merge

    below = dict(base)
    for group in _NAMED:
        if _renamed(base.get(group), layer.get(group), "name"):
            del below[group]
    if _renamed(base.get("data"), layer.get("data"), "spec"):
        kept = {k: v for k, v in base["data"].items() if k not in ("options", "views")}
        below["data"] = kept
    return merge(below, layer)


def _renamed(old: Any, new: Any, key: str) -> bool:
    if not isinstance(old, Mapping) or not isinstance(new, Mapping):
        return False
    return key in new and new[key] != old.get(key)


def default_model(input_shape: tuple[int, ...]) -> str:
    """Return the model for samples of a shape, where none was asked for.

    Example:
        >>> default_model((30,)), default_model((1, 8, 8)), default_model((3, 32, 32))
        ('mlp', 'small-cnn', 'cnn8')
    """
    if len(input_shape) != 3:
        return "mlp"
    side = min(input_shape[1:])
    if side < 24:
        return "small-cnn"
    return "cnn8" if side <= 96 else "timm:resnet18"
