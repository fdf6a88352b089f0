"""Names of things: how heads, losses, noise, data, models and methods are found."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import Generic, TypeVar

from edgemask.errors import unknown_name

__all__ = ["Registry"]

T = TypeVar("T")


class Registry(Mapping[str, T], Generic[T]):
    """A read-only mapping from a public name to the object behind it.

    A room declares one in its ``__init__``; the command line, the generated docs and the
    parametrised tests all read from there, so that a new entry is one line.

    Args:
        kind: What the entries are, in the singular, for error messages ("loss").
        entries: The objects by name.

    Example:
        >>> colours = Registry("colour", {"red": 1, "green": 2})
        >>> colours["red"], list(colours)
        (1, ['red', 'green'])
    """

    def __init__(self, kind: str, entries: Mapping[str, T]):
        self.kind = kind
        self._entries = dict(entries)

    def __getitem__(self, name: str) -> T:
        try:
            return self._entries[name]
        except (KeyError, TypeError):
            raise unknown_name(self.kind, name, self._entries) from None

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def get(self, name: str, default: T | None = None) -> T | None:  # type: ignore[override]
        """Return the entry, or ``default`` where there is none."""
        return self._entries.get(name, default)

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def summaries(self) -> dict[str, str]:
        """Return the first sentence of each entry's docstring, by name."""
        return {
            name: (inspect.getdoc(entry) or "").split("\n\n")[0].replace("\n", " ")
            for name, entry in self._entries.items()
        }

    def __repr__(self) -> str:
        return f"Registry({self.kind}: {', '.join(self._entries)})"
