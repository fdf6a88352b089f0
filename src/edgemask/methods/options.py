"""Options of methods: their types and ranges, and the decorator that makes them."""

from __future__ import annotations

import typing
from dataclasses import dataclass
from typing import Annotated, Literal, TypeVar, dataclass_transform

from edgemask._options import Range, checked

__all__ = ["Augmentation", "Count", "NoiseRate", "NonNegative", "Positive", "Share", "options"]

T = TypeVar("T")

Share = Annotated[float, Range(0, 1)]
NoiseRate = Annotated[float, Range(0, below=1)]
Positive = Annotated[float, Range(above=0)]
NonNegative = Annotated[float, Range(0)]
Count = Annotated[int, Range(1)]
Augmentation = Literal["none", "weak", "strong"]


@dataclass_transform(kw_only_default=True, eq_default=False)
def options(method: type[T]) -> type[T]:
    """Make the annotated attributes of a class its keyword-only options.

    The options of a base class that was decorated, too, are inherited. Values are checked against
    the annotations when an object is made, and when a config is resolved.

    Example:
        >>> @options
        ... class Mean:
        ...     momentum: Share = 0.9
        >>> Mean(momentum=2)
        Traceback (most recent call last):
        edgemask.errors.UserError: Mean: momentum=2: expected a number in [0, 1]
    """
    made = dataclass(kw_only=True, eq=False, repr=False)(method)
    constructor = typing.cast("typing.Any", made.__init__)
    # Annotations are texts here; those of a base class belong to the module of that class.
    hints = typing.get_type_hints(made, include_extras=True)
    constructor.__annotations__ = {
        name: hints.get(name) for name in constructor.__annotations__ if name != "return"
    }
    made.__init__ = checked(constructor)  # type: ignore[method-assign]
    return made
