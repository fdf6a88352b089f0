"""Registries: names, aliases, entries from outside."""

from __future__ import annotations

import pytest

from edgemask._registry import Registry
from edgemask.errors import UserError


def _registry() -> Registry[int]:
    return Registry("colour", {"dark-red": 1, "green": 2}, aliases={"grass": "green"})


def test_names_aliases_and_underscores():
    colours = _registry()
    assert [colours[name] for name in ("dark-red", "dark_red", "darkred", "grass")] == [1, 1, 1, 2]
    assert list(colours) == ["dark-red", "green"]
    assert "grass" in colours
    assert "blue" not in colours
    assert colours.get("blue", 7) == 7
    assert colours.name_of("dark_red") == "dark-red"
    assert colours.aliases_of("green") == ["grass"]
    assert colours.aliases_of("dark-red") == []
    with pytest.raises(UserError, match="unknown colour 'gren'; did you mean 'green'"):
        colours["gren"]
    for wrong in (3, None, ["green"]):
        with pytest.raises(UserError, match="unknown colour"):
            colours[wrong]


def test_entries_from_outside():
    colours: Registry[object] = Registry("colour", {"green": object})
    colours.register("my_paint", Registry)
    assert colours["my-paint"] is Registry
    assert colours.stored_name("my_paint") == "edgemask._registry:Registry"
    assert colours["edgemask._registry:Registry"] is Registry
    assert colours.stored_name("green") == "green"
    colours.register("my_paint", Registry)  # again: a module that was imported twice
    with pytest.raises(UserError, match="exists already"):
        colours.register("green", Registry)
    with pytest.raises(UserError, match="unknown colour"):
        colours["os:system"]  # a name never imports anything


def test_entry_points_of_installed_packages(monkeypatch):
    class Point:
        name = "sky"

        @staticmethod
        def load() -> int:
            return 5

    monkeypatch.setattr("edgemask._registry.entry_points", lambda group: [Point()])
    colours = _registry()
    assert colours["sky"] == 5
    assert list(colours) == ["dark-red", "green", "sky"]


def test_names_have_hyphens_and_no_two_differ_by_them_alone():
    from edgemask.data import DATASETS
    from edgemask.data.views import RECIPES as VIEWS
    from edgemask.engine import RECIPES
    from edgemask.heads import HEADS
    from edgemask.losses import LOSSES
    from edgemask.methods import METHODS
    from edgemask.models import MODELS
    from edgemask.noise import NOISE

    for registry in (DATASETS, HEADS, LOSSES, METHODS, MODELS, NOISE, RECIPES, VIEWS):
        names = list(registry)
        assert not [name for name in names if "_" in name]
        assert len({name.replace("-", "") for name in names}) == len(names)
    for old, name in {"coteaching": "co-teaching", "josrc": "jo-src", "jo_snc": "jo-snc"}.items():
        assert METHODS.name_of(old) == name
        assert RECIPES.name_of(f"digits/{old}-sem") == f"digits/{name}-sem"
    assert VIEWS.name_of("cifar10/josrc") == "cifar10/jo-src"
