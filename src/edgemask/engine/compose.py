"""Compose the config of a run from recipe, file, keywords and ``key=value`` lines."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from edgemask.engine.batch_size import choose_batch_size, names_batch_size
from edgemask.engine.config import Config, merge, to_dict, unflatten
from edgemask.engine.config_file import assign, load_yaml, parse_value
from edgemask.engine.default import choose_training, says_nothing
from edgemask.engine.recipes import RECIPES
from edgemask.engine.resolve import is_object, object_name, resolve, stored_name
from edgemask.engine.run_data import Objects, load_data
from edgemask.errors import UserError

__all__ = [
    "choose_model",
    "compose",
    "default_model",
    "join",
    "named_part",
    "override",
    "settings_of",
]

# Parts with a name and options of their own: under another name, earlier options have no meaning.
_PARTS = ("head", "loss", "method", "model")
# The other keywords and their place in a config.
_KEYS = {
    "data": "data.spec",
    "label": "data.options.label",
    "id": "data.options.id",
    "text": "data.options.text",
    "noise": "noise.spec",
    "validation": "data.validation",
    "corrections": "data.corrections",
    "epochs": "train.epochs",
    "batch_size": "train.batch_size",
    "seed": "train.seed",
    "select": "train.select",
    "lr": "optim.lr",
}
_NAMED = re.compile(r"\s*(?P<name>[^()\s]+)\s*(?:\((?P<options>.*)\))?\s*", re.DOTALL)


def compose(
    recipe: str | None = None,
    file: str | Path | None = None,
    keywords: Mapping[str, Any] | None = None,
    sets: Iterable[str] | Mapping[str, Any] = (),
    *,
    settings: Mapping[str, Any] | None = None,
    objects: Objects | None = None,
    default: bool = True,
) -> tuple[Config, Objects]:
    """Join settings in this order, later ones overriding earlier ones, and resolve them.

    Args:
        recipe: Name of a recipe.
        file: A YAML file of settings.
        keywords: Keywords of :func:`edgemask.fit`; None values are left out. ``head``, ``loss``,
            ``method`` and ``model`` are a name or ``name(option=value, ...)``, or an object.
        settings: Nested settings, as in a file.
        sets: ``a.b=value`` lines, or values by dotted key.
        objects: Data, model and others that are given as objects.
        default: Whether settings without recipe, head, loss and method mean the default of
            docs/defaults.md; otherwise they mean cross entropy on a linear layer.

    Returns:
        The resolved config, and the objects with the data if it had to be read for a choice.

    Example:
        >>> config, _ = compose("digits/ce-sem", keywords={"head": "sem(rho=0.3)"}, sets=["name=x"])
        >>> config.head.options["rho"], config.name
        (0.3, 'x')
    """
    objects = objects or Objects()
    values = join(
        recipe,
        {} if file is None else load_yaml(file),
        _keyword_settings(keywords or {}),
        settings or {},
        settings_of(sets),
    )
    config = resolve(_with_tokenizer(values), objects=objects)
    config, objects = choose_model(config, _used(objects, config))
    if not names_batch_size(recipe, values):
        config, objects = choose_batch_size(config, objects)
    if default and says_nothing(recipe, values):
        return choose_training(config, objects)
    return config, objects


def join(recipe: str | None, *layers: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a recipe, overridden by layers of settings, the later ones last.

    The L1 term of a recipe belongs to its loss: with another loss it is left out.

    Example:
        >>> join("cifar10/jal")["optim"]["l1"]
        5e-05
        >>> "l1" in join("cifar10/jal", {"loss": {"name": "gce"}})["optim"]
        False
    """
    values: dict[str, Any] = {} if recipe is None else RECIPES[recipe].layer()
    if any(_renamed("loss", values, layer) for layer in layers):
        values.get("optim", {}).pop("l1", None)
    for layer in layers:
        values = override(values, layer)
    return values


def _with_tokenizer(values: dict[str, Any]) -> dict[str, Any]:
    """Add the tokenizer of a transformers model to the options of a table of texts."""
    model, data = values.get("model") or {}, values.get("data") or {}
    name, options = model.get("name") or "", data.get("options") or {}
    if not name.startswith("hf:") or not options.get("text") or options.get("tokenizer"):
        return values
    return merge(values, {"data": {"options": {"tokenizer": name.removeprefix("hf:")}}})


def _used(objects: Objects, config: Config) -> Objects:
    """Leave out the objects that a later setting has replaced by something with a name."""
    names = {
        "bundle": config.data.spec,
        "labels": config.noise.spec,
        "corrections": config.data.corrections,
        "model": config.model.name,
        "head": config.head.name,
        "criterion": config.loss.name,
        "method": config.method.name,
    }
    for key, name in names.items():
        if is_object(name) and getattr(objects, key) is None:
            raise UserError(f"{name!r} is an object that was passed to fit: pass it again")
    unused = {key: None for key, name in names.items() if not is_object(name)}
    return dataclasses.replace(objects, **unused)


def settings_of(sets: Iterable[str] | Mapping[str, Any]) -> dict[str, Any]:
    """Return ``a.b=value`` lines, or values by dotted key, as nested settings.

    Example:
        >>> settings_of({"optim.lr": 0.1}) == settings_of(["optim.lr=0.1"])
        True
    """
    if not isinstance(sets, Mapping):
        return assign({}, sets)
    return unflatten(sets)


def _keyword_settings(keywords: Mapping[str, Any]) -> dict[str, Any]:
    given = {key: value for key, value in keywords.items() if value is not None}
    settings = settings_of({_KEYS[key]: given[key] for key in _KEYS if key in given})
    for part in _PARTS:
        if part in given:
            settings[part] = named_part(part, given[part])
    return settings


def named_part(part: str, value: Any) -> dict[str, Any]:
    """Read ``name`` or ``name(option=value, ...)``, or name an object.

    Example:
        >>> named_part("head", "sem(rho=0.3, policy=topk(0.1))")
        {'name': 'sem', 'options': {'rho': 0.3, 'policy': 'topk(0.1)'}}
        >>> named_part("loss", "ce")
        {'name': 'ce'}
    """
    if not isinstance(value, str):
        return {"name": object_name(value)}
    match = _NAMED.fullmatch(value)
    if match is None:
        raise UserError(f"{part}={value!r}: expected a name, or name(option=value, ...)")
    if match["options"] is None:
        return {"name": match["name"]}
    options = {}
    for item in _split_at_commas(match["options"]):
        key, equals, text = item.partition("=")
        if not equals or not key.strip() or not text.strip():
            raise UserError(f"{part}={value!r}: expected option=value, got {item.strip()!r}")
        options[key.strip()] = parse_value(text)
    return {"name": match["name"], "options": options}


def _split_at_commas(text: str) -> Iterable[str]:
    """Split at the commas that are outside brackets."""
    item, depth = "", 0
    for character in text:
        depth += (character in "([{") - (character in ")]}")
        if character == "," and not depth:
            yield item
            item = ""
        else:
            item += character
    if item.strip():
        yield item


def override(base: Mapping[str, Any], layer: Mapping[str, Any]) -> dict[str, Any]:
    """Override settings by others; a part under a new name starts from its own defaults.

    Example:
        >>> base = {"head": {"name": "sem", "options": {"rho": 0.3}}}
        >>> override(base, {"head": {"name": "linear"}})
        {'head': {'name': 'linear'}}
    """
    kept = dict(base)
    for part in _PARTS:
        if _renamed(part, base, layer):
            del kept[part]
    if _renamed("data", base, layer):
        kept["data"] = {k: v for k, v in base["data"].items() if k not in ("options", "views")}
    return merge(kept, layer)


def _renamed(part: str, base: Mapping[str, Any], layer: Mapping[str, Any]) -> bool:
    """Whether a layer names another thing for a part; spellings of one name are the same."""
    key = "spec" if part == "data" else "name"
    old, new = base.get(part), layer.get(part)
    if not isinstance(old, Mapping) or not isinstance(new, Mapping) or old.get(key) is None:
        return False
    return key in new and stored_name(part, new[key]) != stored_name(part, old[key])


def choose_model(config: Config, objects: Objects) -> tuple[Config, Objects]:
    """Fill in the model where a config names none, which needs the data.

    Tables are read here in any case: all that follows needs their rows, and reading takes time.
    """
    table = config.data.spec.partition(":")[0] in ("csv", "parquet")
    if config.model.name is not None and not table:
        return config, objects
    bundle = objects.bundle or load_data(config.data)
    if config.model.name is not None:
        return config, dataclasses.replace(objects, bundle=bundle)
    chosen = {"model": {"name": default_model(bundle.input_shape)}}
    objects = dataclasses.replace(objects, bundle=bundle)
    return resolve(merge(to_dict(config), chosen), objects=objects), objects


def default_model(input_shape: tuple[int, ...]) -> str:
    """Return the name of the model for samples of a shape, where none is named.

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
