"""Registries: names, aliases, entries from outside."""

from __future__ import annotations

import pytest

from edgemask._registry import Registry
from edgemask.errors import UserError


def _registry() -> Registry[int]:
    return Registry("colour", {"dark-red": 1, "green": 2}, aliases={"grass": "green"})


def test_names_aliases_and_underscores():
    colours = _registry()
    assert [colours[name] for name in ("dark-red", "dark_red", "green", "grass")] == [1, 1, 2, 2]
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
