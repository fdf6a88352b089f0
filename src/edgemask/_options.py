"""Types and ranges of options, written once in a signature and checked in one place.

A constructor states what it takes in its annotations; :func:`checked` checks them when it is
called, and :func:`check_options` checks a config against the same signature:

>>> class Layer:
...     @checked
...     def __init__(self, rho: Annotated[float, Range(0, 1)] = 0.5):
...         self.rho = rho
>>> Layer(rho=2)
Traceback (most recent call last):
edgemask.errors.UserError: Layer: rho=2: expected a number in [0, 1]
"""

from __future__ import annotations

import functools
import inspect
import math
import numbers
import sys
import types
import typing
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar

import numpy.typing as npt

from edgemask.errors import UserError, nearest, unknown_key

__all__ = [
    "Check",
    "Range",
    "annotated_parameters",
    "check_argument",
    "check_options",
    "check_value",
    "checked",
    "option_defaults",
]

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Range:
    """The numbers that an option may take, as metadata of ``Annotated``.

    Args:
        low: Smallest value allowed.
        high: Largest value allowed.
        above: The value must be larger than this.
        below: The value must be smaller than this.

    Example:
        >>> Range(0, 1), Range(above=0), Range(0, below=1)
        (a number in [0, 1], a number above 0, a number in [0, 1))
    """

    low: float = -math.inf
    high: float = math.inf
    above: float = -math.inf
    below: float = math.inf

    def __call__(self, value: Any) -> Any:
        """Return the value, or raise ``ValueError``; NaN and infinite numbers lie outside."""
        if not (self.low <= value <= self.high and self.above < value < self.below):
            raise ValueError(repr(self))
        return value

    def __repr__(self) -> str:
        left, low = ("(", self.above) if self.above > -math.inf else ("[", self.low)
        right, high = (")", self.below) if self.below < math.inf else ("]", self.high)
        if low == -math.inf and high == math.inf:
            return "a finite number"
        if high == math.inf:
            return f"a number {'above' if left == '(' else 'of at least'} {low:.10g}"
        if low == -math.inf:
            return f"a number {'below' if right == ')' else 'of at most'} {high:.10g}"
        return f"a number in {left}{low:.10g}, {high:.10g}{right}"


@dataclass(frozen=True)
class Check:
    """A function that an option's value must pass, as metadata of ``Annotated``.

    Args:
        function: Called with the value; a ``ValueError`` (``UserError`` is one) refuses it. What
            it returns is ignored, so that the option keeps the form in which it was written.

    Example:
        >>> Annotated[str, Check(float)]
        typing.Annotated[str, Check(function=<class 'float'>)]
    """

    function: Callable[[Any], Any]

    def __call__(self, value: Any) -> Any:
        """Return the value if the function accepts it."""
        self.function(value)
        return value


def check_value(value: Any, annotation: Any) -> Any:
    """Check one value against an annotation and return it, as a float where one is expected.

    Understands ``bool``, ``int``, ``float``, ``str``, ``None``, ``Literal``, unions, lists,
    tuples, mappings and ``Annotated`` with :class:`Range` or :class:`Check`. Other classes are
    tested by ``isinstance``; what cannot be tested passes.

    Raises:
        ValueError: Its text completes "expected ...".

    Example:
        >>> check_value(1, float), check_value([1, 2], tuple[int, int])
        (1.0, (1, 2))
    """
    if annotation in (Any, inspect.Parameter.empty, npt.ArrayLike):
        return value
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Annotated:
        value = check_value(value, arguments[0])
        for check in arguments[1:]:
            if value is not None and isinstance(check, Range | Check):
                value = check(value)
        return value
    if origin in (typing.Union, types.UnionType):
        return _check_union(value, arguments)
    if origin is Literal:
        if any(value == word and type(value) is type(word) for word in arguments):
            return value
        words = [word for word in arguments if isinstance(word, str)]
        raise ValueError(" or ".join(map(repr, arguments)) + nearest(value, words))
    if annotation is None or annotation is types.NoneType:
        if value is not None:
            raise ValueError("nothing (null)")
        return None
    if origin is not None and isinstance(origin, type):
        return _check_container(value, origin, arguments)
    return _check_class(value, annotation)


def check_argument(value: Any, annotation: Any, name: str) -> Any:
    """Check one value like :func:`check_value`; the error names it.

    Raises:
        UserError: ``<name>=<value>: expected <what>``.
    """
    try:
        return check_value(value, annotation)
    except UserError as error:  # a Check has its own message
        raise UserError(f"{name}={value!r}: {error}") from None
    except ValueError as error:
        raise UserError(f"{name}={value!r}: expected {error}") from None


def _check_union(value: Any, members: Sequence[Any]) -> Any:
    reasons: list[str] = []
    # A whole number stays one where both int and float are allowed.
    for member in members:
        try:
            return check_value(value, member)
        except ValueError as error:
            if str(error) not in reasons and member is not types.NoneType:
                reasons.append(str(error))
    if types.NoneType in members:
        reasons.append("nothing (null)")
    raise ValueError(" or ".join(reasons))


def _check_container(value: Any, origin: type, arguments: Sequence[Any]) -> Any:
    if issubclass(origin, Mapping):
        if not isinstance(value, Mapping):
            raise ValueError("a mapping")
        kind = arguments[1] if len(arguments) == 2 else Any
        return {key: check_value(item, kind) for key, item in value.items()}
    if not issubclass(origin, Collection):
        return value
    if isinstance(value, str | bytes) or not isinstance(value, Sequence):
        raise ValueError("a list")
    if origin is tuple and arguments and arguments[-1] is not Ellipsis:
        if len(value) != len(arguments):
            raise ValueError(f"a list of {len(arguments)} values")
        return tuple(check_value(item, kind) for item, kind in zip(value, arguments, strict=True))
    kind = arguments[0] if arguments else Any
    items = [check_value(item, kind) for item in value]
    return tuple(items) if origin is tuple else items


_WORDS = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}


def _check_class(value: Any, kind: Any) -> Any:
    if kind is float:
        if isinstance(value, bool) or not isinstance(value, numbers.Real):
            raise ValueError("a number")
        return float(value)
    if kind is int:
        if isinstance(value, bool) or not isinstance(value, numbers.Integral):
            raise ValueError("a whole number")
        return int(value)
    if not isinstance(kind, type):
        return value
    if not isinstance(value, kind):
        raise ValueError(_WORDS.get(kind) or f"a {kind.__name__}")
    return value


@functools.cache
def annotated_parameters(function: Callable[..., Any]) -> dict[str, tuple[inspect.Parameter, Any]]:
    """Return the parameters of a function (without ``self``) with their evaluated annotations."""
    target: Any = function.__init__ if inspect.isclass(function) else function
    target = inspect.unwrap(target)
    names = vars(sys.modules.get(target.__module__, types.ModuleType("")))
    found: dict[str, tuple[inspect.Parameter, Any]] = {}
    for name, parameter in inspect.signature(target).parameters.items():
        annotation = parameter.annotation
        if isinstance(annotation, str):
            try:
                annotation = eval(annotation, dict(names))  # noqa: S307 - the source's own text
            except (NameError, AttributeError, TypeError):
                annotation = Any  # a name that is imported for type checkers only
        if name != "self":
            found[name] = parameter, annotation
    return found


def checked(function: F) -> F:
    """Check the arguments of a function or constructor against its annotations at each call.

    Raises:
        UserError: ``<class>: <name>=<value>: expected <what>``.
    """
    owner = function.__qualname__.removesuffix(".__init__").rpartition(".")[2]
    signature = inspect.signature(function)

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        for name, (parameter, annotation) in annotated_parameters(function).items():
            if name not in bound.arguments or parameter.kind is parameter.VAR_KEYWORD:
                continue
            value = bound.arguments[name]
            bound.arguments[name] = check_argument(value, annotation, f"{owner}: {name}")
        return function(*bound.args, **bound.kwargs)

    return typing.cast("F", wrapper)


def check_options(
    factory: Callable[..., Any],
    options: Mapping[str, Any],
    path: str,
    *,
    provided: Collection[str] = (),
) -> dict[str, Any]:
    """Check a config's options against the signature that takes them and add all defaults.

    Args:
        factory: The class or function that takes the options as keywords.
        options: The options of the config.
        path: Their place in the config, for messages (``head.options``).
        provided: Arguments that the engine fills in itself; they are not options.

    Returns:
        Plain values (tuples as lists) for every option that the factory has.

    Raises:
        UserError: Names the full path of a key that the factory does not take, a value of the
            wrong type or range, or an option that is needed and missing.

    Example:
        >>> def rotate(angle: Annotated[float, Range(-180, 180)], fill: int = 0): ...
        >>> check_options(rotate, {"angle": 10}, "view.options")
        {'angle': 10.0, 'fill': 0}
    """
    variadic = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    known = {
        name: (parameter, annotation)
        for name, (parameter, annotation) in annotated_parameters(factory).items()
        if name not in provided and parameter.kind not in variadic
    }
    for key in options:
        if key not in known:
            raise UserError(f"wrong config: {path}.{key}: {unknown_key(key, known)}")
    values: dict[str, Any] = {}
    for name, (parameter, annotation) in known.items():
        if name in options:
            where = f"wrong config: {path}.{name}"
            values[name] = check_argument(options[name], annotation, where)
        elif parameter.default is parameter.empty:
            raise UserError(f"wrong config: {path}.{name}: needed and not given")
        else:
            values[name] = parameter.default
    return {name: list(v) if isinstance(v, tuple) else v for name, v in values.items()}


def option_defaults(factory: Callable[..., Any]) -> dict[str, Any]:
    """Return the options of a factory that have a default, by name.

    Example:
        >>> def blur(radius: float = 2.0, *, seed: int | None = None): ...
        >>> option_defaults(blur)
        {'radius': 2.0, 'seed': None}
    """
    return {
        name: parameter.default
        for name, (parameter, _) in annotated_parameters(factory).items()
        if parameter.default is not parameter.empty
    }
