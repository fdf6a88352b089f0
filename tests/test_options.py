"""Types and ranges that are read from signatures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import pytest

from edgemask._options import Check, Range, check_options, check_value, checked
from edgemask.errors import UserError

ACCEPTED: list[tuple[Any, Any, Any]] = [
    (1, float, 1.0),
    (1, int | float, 1),
    (0.5, int | float, 0.5),
    (True, bool, True),
    (None, float | None, None),
    (2, float | None, 2.0),
    ("a", Literal["a", "b"], "a"),
    ([1, 2], tuple[int, ...], (1, 2)),
    ((1, 2), list[float], [1.0, 2.0]),
    ([0.5, 0.25], tuple[float, float], (0.5, 0.25)),
    ([1], Sequence[int], [1]),
    ({"a": 1}, dict[str, float], {"a": 1.0}),
    (0.3, Annotated[float, Range(0, 1)], 0.3),
    (None, Annotated[float, Range(0, 1)] | None, None),
    ("anything", Any, "anything"),
]
REFUSED: list[tuple[Any, Any, str]] = [
    ("abc", float, "a number"),
    (True, float, "a number"),
    (True, int, "a whole number"),
    (1.5, int, "a whole number"),
    ("yes", bool, "true or false"),
    (1, bool, "true or false"),
    (1, str, "text"),
    ("c", Literal["a", "b"], "'a' or 'b'"),
    (1, Literal[True], "True"),
    ("ab", tuple[str, ...], "a list"),
    ([1], tuple[int, int], "a list of 2 values"),
    ([1, "x"], list[int], "a whole number"),
    ("x", float | None, "a number or nothing (null)"),
    (1.5, Annotated[float, Range(0, 1)], r"a number in [0, 1]"),
    (math.nan, Annotated[float, Range(0, 1)], r"a number in [0, 1]"),
    (math.inf, Annotated[float, Range(0)], "a number of at least 0"),
    (0, Annotated[float, Range(above=0)], "a number above 0"),
    (1, Annotated[float, Range(0, below=1)], "a number in [0, 1)"),
]


def test_values_that_fit_their_annotation():
    for value, annotation, wanted in ACCEPTED:
        got = check_value(value, annotation)
        assert got == wanted, (value, annotation)
        assert type(got) is type(wanted), (value, annotation)


def test_values_that_do_not():
    for value, annotation, message in REFUSED:
        with pytest.raises(ValueError) as caught:
            check_value(value, annotation)
        assert str(caught.value) == message, (value, annotation)


class Layer:
    @checked
    def __init__(
        self,
        size: int,
        *,
        rho: Annotated[float, Range(0, 1)] = 0.5,
        policy: Annotated[str, Check(float)] = "1",
        **rest: Any,
    ):
        self.size, self.rho, self.policy, self.rest = size, rho, policy, rest


def test_a_checked_constructor():
    layer = Layer(3, rho=1, policy="2", other=4)
    assert (layer.size, layer.rho, layer.policy, layer.rest) == (3, 1.0, "2", {"other": 4})
    assert isinstance(layer.rho, float)
    with pytest.raises(UserError, match=r"^Layer: rho=1\.5: expected a number in \[0, 1\]$"):
        Layer(3, rho=1.5)
    with pytest.raises(UserError, match=r"^Layer: size='x': expected a whole number$"):
        Layer("x")
    with pytest.raises(UserError, match=r"^Layer: policy='two': "):
        Layer(3, policy="two")
    with pytest.raises(TypeError):
        Layer()


def test_options_of_a_config():
    known = check_options(Layer, {"rho": 1}, "head.options", provided=("size",))
    assert known == {"rho": 1.0, "policy": "1"}
    for options, message in (
        ({"rhoo": 1}, "head.options.rhoo: no such key; did you mean 'rho'?"),
        ({"rho": "abc"}, "head.options.rho='abc': expected a number"),
        ({"rho": 7}, "head.options.rho=7: expected a number in [0, 1]"),
        ({"size": 3}, "head.options.size: no such key"),
    ):
        with pytest.raises(UserError) as caught:
            check_options(Layer, options, "head.options", provided=("size",))
        assert message in str(caught.value)
    with pytest.raises(UserError, match=r"head\.options\.size: needed and not given"):
        check_options(Layer, {}, "head.options")
