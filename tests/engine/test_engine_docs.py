"""The page and the docstrings say what is so."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
from pathlib import Path

import pytest

from edgemask import diagnostics, engine, methods

PAGE = Path(__file__).parents[2] / "docs" / "engine.md"
MODULES = [
    module.name
    for room in (engine, methods, diagnostics)
    for module in pkgutil.walk_packages(room.__path__, f"{room.__name__}.")
]


def test_the_page():
    failed, tried = doctest.testfile(str(PAGE), module_relative=False, encoding="utf-8")
    assert tried > 10
    assert not failed


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name):
    assert not doctest.testmod(importlib.import_module(name)).failed
