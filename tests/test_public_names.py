"""The public names of the package are an inventory file, and each names one thing.

``python tests/test_public_names.py`` writes the inventory again after a deliberate change.
"""

from __future__ import annotations

import ast
import pkgutil
from collections import defaultdict
from importlib import import_module
from pathlib import Path

import edgemask
from edgemask.errors import MissingExtraError

_INVENTORY = Path(__file__).with_name("public_names.txt")
_SOURCE = Path(edgemask.__file__).parent


def _public_names() -> list[str]:
    """Return ``<module>.<name>`` for the package, its subpackages and its public modules."""
    below = [module.name for module in pkgutil.iter_modules(edgemask.__path__)]
    public = [f"edgemask.{name}" for name in below if not name.startswith("_")]
    return [
        f"{module}.{name}"
        for module in ["edgemask", *sorted(public)]
        for name in sorted(getattr(import_module(module), "__all__", ()))
    ]


def test_the_public_names_are_those_of_the_inventory():
    listed, found = set(_INVENTORY.read_text().split()), set(_public_names())
    assert sorted(found - listed) == [], "new names: run python tests/test_public_names.py"
    assert sorted(listed - found) == [], (
        "names that are gone: keep an alias, or note it in CHANGELOG"
    )


def test_every_public_name_exists():
    for line in _public_names():
        module, _, name = line.rpartition(".")
        try:
            assert getattr(import_module(module), name) is not None, line
        except MissingExtraError:  # the module of an integration whose library is not installed
            assert module == "edgemask.integrations"


def test_no_two_classes_share_a_name():
    places: dict[str, list[str]] = defaultdict(list)
    for path in sorted(_SOURCE.rglob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(str(path.relative_to(_SOURCE)))
    assert len(places) > 100
    assert {name: files for name, files in places.items() if len(files) > 1} == {}


if __name__ == "__main__":
    _INVENTORY.write_text("\n".join(_public_names()) + "\n")
