"""The examples in the docstrings."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

from edgemask import losses

MODULES = [info.name for info in pkgutil.iter_modules(losses.__path__, "edgemask.losses.")]


@pytest.mark.parametrize("name", ["edgemask.losses", *MODULES])
def test_examples(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0
