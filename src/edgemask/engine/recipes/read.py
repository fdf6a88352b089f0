"""Read recipes from TOML files.

A file holds ``[[recipe]]`` tables and what they are made of::

    variants = ["sem"]                   # each recipe below also exists with these changes

    [sources]
    code = "the released code of X (commit 1234567)"

    [part.sgd]                           # settings that several recipes share
    optim.name = "sgd"
    optim.momentum = 0.9

    [[recipe]]
    name = "{dataset}/x"
    each.dataset = ["cifar10", "cifar100"]
    base = ["sgd"]
    source = "{code}"
    optim.lr = 0.1

    [variant.sem]
    suffix = "-sem"
    summary = ", with the SEM head"
    source = "the paper"
    head.name = "sem"

A table's settings are those of its ``base`` (parts or other recipes, the later ones override the
earlier), then those of ``loss_settings``, then its own. ``source`` says where its own settings come
from; a part without one takes the source of the table that uses it. ``null`` lists keys that are
set to nothing, which TOML cannot write. ``loss_settings`` adds the published parameters of the loss
for a dataset and, with ``regulariser = true``, its L1 term and weight decay.

In texts, ``{name}`` stands for a source or for a variable: one of ``each`` (``{NAME}`` gives it in
capitals), or else ``{dataset}`` and ``{method}``, the two halves of the recipe's name. Sources,
parts and variants may be used in all files.
"""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgemask.engine.config import Config, flatten, to_dict
from edgemask.engine.recipes.recipe import Recipe, Setting
from edgemask.errors import UserError, nearest
from edgemask.losses import preset_settings

__all__ = ["read_recipes"]

_PART = {"base", "source", "null", "loss_settings"}
_KEYS = {
    "file": {"variants", "sources", "part", "variant", "recipe"},
    "part": _PART,
    "variant": _PART | {"suffix", "summary"},
    "recipe": _PART | {"name", "summary", "each", "variants"},
}


def read_recipes(folder: Path | None = None) -> dict[str, Recipe]:
    """Read all TOML files of a folder (this package's own if None) into recipes by name.

    Raises:
        UserError: Names the file, the table and the key that is wrong.
    """
    reader = _Reader(folder or Path(__file__).parent)
    return {recipe.name: recipe for name in reader.recipes for recipe in reader.with_variants(name)}


@dataclass(frozen=True)
class _Table:
    """One table of a file."""

    where: str
    """The file and the name of the table, for messages."""
    content: Mapping[str, Any]
    settings: Mapping[str, Any]
    """Its own settings by dotted key."""
    variables: Mapping[str, str]
    """Values of the variables of a recipe."""

    def error(self, message: str) -> UserError:
        return UserError(f"{self.where}: {message}")


class _Reader:
    """All tables of all files, by name."""

    def __init__(self, folder: Path):
        self.sources: dict[str, str] = {}
        self.parts: dict[str, _Table] = {}
        self.variants: dict[str, _Table] = {}
        self.recipes: dict[str, _Table] = {}
        self.known_settings = set(flatten(to_dict(Config())))
        for path in sorted(folder.glob("*.toml")):
            self._read(path)

    def _read(self, path: Path) -> None:
        try:
            content = tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise UserError(f"cannot read {path}: {error}") from error
        if wrong := content.keys() - _KEYS["file"]:
            raise UserError(f"{path.name}: {min(wrong)}: no such key")
        self.sources |= content.get("sources", {})
        for name, table in content.get("part", {}).items():
            self.parts[name] = self._table(f"{path.name}: part {name}", "part", table)
        for name, table in content.get("variant", {}).items():
            self.variants[name] = self._table(f"{path.name}: variant {name}", "variant", table)
        for table in content.get("recipe", []):
            if "name" not in table:
                raise UserError(f"{path.name}: a recipe has no name: {table}")
            each = table.get("each", {})
            for values in itertools.product(*each.values()):
                variables = dict(zip(each, values, strict=True))
                name = _fill(table["name"], variables)
                dataset, _, method = name.partition("/")
                variables = {"dataset": dataset, "method": method} | variables
                where = f"{path.name}: recipe {name}"
                if name in self.recipes:
                    raise UserError(f"{where}: the name exists twice")
                with_default = {"variants": content.get("variants", []), **table}
                self.recipes[name] = self._table(where, "recipe", with_default, variables)

    def _table(
        self, where: str, kind: str, content: Mapping[str, Any], variables: Mapping[str, str] = {}
    ) -> _Table:
        own = {key: value for key, value in content.items() if key not in _KEYS[kind]}
        settings = flatten(own) | dict.fromkeys(content.get("null", ()))
        for key in settings:
            section, options, _ = key.partition(".options.")
            known = f"{section}.name" if options else key
            if known not in self.known_settings and f"{section}.spec" not in self.known_settings:
                expected = nearest(key, self.known_settings | _KEYS[kind])
                raise UserError(f"{where}: {key}: no such key{expected}")
        return _Table(where, content, settings, variables)

    def with_variants(self, name: str) -> Iterator[Recipe]:
        """Make a recipe and its variants, each alone and together."""
        table = self.recipes[name]
        summary = _fill(table.content.get("summary", "{method} on {dataset}"), table.variables)
        settings = self._settings(table, table.variables)
        variants = [self._find(word, self.variants, table) for word in table.content["variants"]]
        for chosen in itertools.product((False, True), repeat=len(variants)):
            recipe = Recipe(name=name, summary=summary, settings=settings)
            for variant in itertools.compress(variants, chosen):
                recipe = Recipe(
                    name=recipe.name + variant.content["suffix"],
                    summary=recipe.summary + variant.content["summary"],
                    settings=recipe.settings | self._settings(variant, table.variables),
                )
            yield recipe

    def _settings(
        self, table: _Table, variables: Mapping[str, str], source: str | None = None
    ) -> dict[str, Setting]:
        """Return the settings of a table and its bases; ``source`` serves where it has none."""
        source = table.content.get("source", source)
        settings: dict[str, Setting] = {}
        for word in table.content.get("base", ()):
            base = self._find(_fill(word, variables), {**self.parts, **self.recipes}, table)
            settings |= self._settings(base, base.variables or variables, source)
        if "loss_settings" in table.content:
            settings |= _loss_settings(table, variables)
        for key, value in table.settings.items():
            if source is None:
                raise table.error(f"{key}: it has no source")
            text = _fill(_fill(source, self.sources), variables)
            value = _fill(value, variables) if isinstance(value, str) else value
            settings[key] = Setting(value, text)
        return settings

    def _find(self, name: str, tables: Mapping[str, _Table], user: _Table) -> _Table:
        if name not in tables:
            raise user.error(f"there is no {name!r}{nearest(name, tables)}")
        return tables[name]


def _loss_settings(table: _Table, variables: Mapping[str, str]) -> dict[str, Setting]:
    """Return the published settings of the loss ``{loss}``."""
    asked = dict(table.content["loss_settings"])
    regulariser = asked.pop("regulariser", False)
    dataset = _fill(asked.pop("dataset"), variables)
    noise = asked.pop("noise", "symmetric")
    if asked:
        raise table.error(f"loss_settings.{min(asked)}: no such key")
    published = preset_settings(variables["loss"], dataset, noise=noise)
    values = {f"loss.options.{key}": value for key, value in published.params.items()}
    if regulariser and published.weight_decay is not None:
        values |= {"optim.l1": published.l1, "optim.weight_decay": published.weight_decay}
    return {key: Setting(value, published.source) for key, value in values.items()}


def _fill(text: str, values: Mapping[str, str]) -> str:
    """Replace ``{name}`` by its value, and ``{NAME}`` by its value in capitals."""
    for name, value in values.items():
        text = text.replace(f"{{{name}}}", value).replace(f"{{{name.upper()}}}", value.upper())
    return text
