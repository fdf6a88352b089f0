"""Names of things: how heads, losses, noise, datasets, models and methods are found."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import entry_points
from typing import Any, Generic, TypeVar

from edgemask.errors import UserError, unknown_name

__all__ = ["Registry"]

T = TypeVar("T")


def _letters(name: str) -> str:
    return name.replace("-", "").replace("_", "")


class Registry(Mapping[str, T], Generic[T]):
    """A mapping from a public name to the object behind it.

    A subpackage declares one in its ``__init__``; the command line, the generated docs and the
    parametrised tests read it, so that a new entry is one line. Names are full words with hyphens;
    underscores in their place, or nothing, are accepted. Other packages add theirs with
    :func:`edgemask.register` or as an entry point of the group ``edgemask.<kind>``
    (``edgemask.loss``).

    Args:
        kind: What the entries are, in the singular, for error messages ("loss").
        entries: The objects by name, or a function that returns them when they are first needed.
        aliases: Further names, such as short or former ones, and the name that each stands for.

    Example:
        >>> colours = Registry("colour", {"dark-red": 1, "green": 2}, aliases={"grass": "green"})
        >>> colours["dark_red"], colours["darkred"], colours["grass"], list(colours)
        (1, 1, 2, ['dark-red', 'green'])
    """

    def __init__(
        self,
        kind: str,
        entries: Mapping[str, T] | Callable[[], Mapping[str, T]],
        *,
        aliases: Mapping[str, str] | None = None,
    ):
        self.kind = kind
        self._given = entries
        self._aliases = dict(aliases or {})
        self._paths: dict[str, str] = {}
        self._entry_points_read = False
        if not callable(entries):  # at once: torch.compile cannot trace the first access
            self._entries = dict(entries)

    @functools.cached_property
    def _entries(self) -> dict[str, T]:
        return dict(self._given() if callable(self._given) else self._given)

    def register(self, name: str, entry: T) -> None:
        """Add an entry from outside the package.

        Raises:
            UserError: If the name is taken by something else.
        """
        key = name.replace("_", "-")
        path = f"{getattr(entry, '__module__', '?')}:{getattr(entry, '__qualname__', name)}"
        same = self._paths.get(path) == key  # a module that was imported again
        if not same and (key in self._entries or key in self._aliases):
            raise UserError(f"the {self.kind} {name!r} exists already; choose another name")
        self._entries[key] = entry
        self._paths[path] = key

    def name_of(self, name: str) -> str:
        """Return the name under which an entry is listed, for any spelling or alias of it."""
        if isinstance(name, str):
            if name in self._entries:
                return name
            meant = {key: key for key in self._entries} | self._aliases | self._paths
            found = {_letters(key): listed for key, listed in meant.items()}.get(_letters(name))
            if found is not None:
                return found
            if self._read_entry_points():
                return self.name_of(name)
        raise unknown_name(self.kind, name, self._entries, self._aliases)

    def aliases_of(self, name: str) -> list[str]:
        """Return the further names of an entry."""
        listed = self.name_of(name)
        return [alias for alias, meant in self._aliases.items() if meant == listed]

    def stored_name(self, name: str) -> str:
        """Return the name that a run stores: ``module:qualname`` for entries from outside."""
        name = self.name_of(name)
        return next((path for path, key in self._paths.items() if key == name), name)

    def _read_entry_points(self) -> bool:
        """Register what installed packages offer, once; return whether that added anything."""
        if self._entry_points_read:
            return False
        self._entry_points_read = True
        before = len(self._entries)
        for point in entry_points(group=f"edgemask.{self.kind}"):
            self.register(point.name, point.load())
        return len(self._entries) > before

    def __getitem__(self, name: str) -> T:
        return self._entries[self.name_of(name)]

    def __contains__(self, name: object) -> bool:
        try:
            self.name_of(name)  # type: ignore[arg-type]
        except UserError:
            return False
        return True

    def get(self, name: str, default: Any = None) -> Any:
        """Return the entry, or ``default`` where there is none."""
        return self[name] if name in self else default  # noqa: SIM401 - this is get itself

    def __iter__(self) -> Iterator[str]:
        self._read_entry_points()
        return iter(self._entries)

    def __len__(self) -> int:
        self._read_entry_points()
        return len(self._entries)

    def summaries(self) -> dict[str, str]:
        """Return the first sentence of each entry's docstring, by name."""
        return {
            name: (inspect.getdoc(self[name]) or "").split("\n\n")[0].replace("\n", " ")
            for name in self
        }

    def __repr__(self) -> str:
        return f"Registry({self.kind}: {', '.join(self._entries)})"
