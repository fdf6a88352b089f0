"""An extension of the API reference that reads our docstrings as the parser wants them."""

from __future__ import annotations

import re
from typing import Any

import griffe

ROLE = re.compile(r":(?:class|func|meth|mod|data|attr|exc):`~?([^`]+)`")


class OurDocstrings(griffe.Extension):
    """``Example:`` is the section of examples, and a name with a role is a name in code."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Change the docstring of an object that was read."""
        if obj.docstring:
            value = re.sub(r"(?m)^(\s*)Example:$", r"\1Examples:", obj.docstring.value)
            obj.docstring.value = ROLE.sub(lambda found: f"`{found[1]}`", value)
