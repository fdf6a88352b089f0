"""The examples in the docstrings of the heads run."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

from edgemask import heads

MODULES = [module.name for module in pkgutil.iter_modules(heads.__path__, "edgemask.heads.")]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_there_are_examples() -> None:
    modules = [importlib.import_module(name) for name in MODULES]
    finder = doctest.DocTestFinder()
    assert sum(len(t.examples) for module in modules for t in finder.find(module)) > 15
