"""Names of samples that have none: their positions, made into words when they are needed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from edgemask.errors import DataError

__all__ = ["RowNames"]


class RowNames(Sequence[str]):
    """The names of samples: their numbers from 0, or names of their own.

    Args:
        numbers: The number of each sample.
        given: The name behind each number; the number itself otherwise.
        prefix: A word before each number.

    Example:
        >>> list(RowNames(np.array([4, 7])))
        ['4', '7']
    """

    def __init__(
        self,
        numbers: NDArray[np.int64],
        given: Sequence[str] | None = None,
        *,
        prefix: str = "",
    ):
        self.numbers, self.given, self.prefix = numbers, given, prefix

    @classmethod
    def of(cls, ids: Any, count: int, *, where: str) -> RowNames:
        """Return names for all samples, checked: one each, none empty, none twice.

        Args:
            ids: The names; None numbers the samples.
            count: How many samples there are.
            where: What they are, for messages.
        """
        if ids is None:
            return cls(np.arange(count))
        names = [str(entry).strip() for entry in np.asarray(ids, dtype=object).tolist()]
        if len(names) != count:
            raise DataError(f"{where}: {count} samples, but {len(names)} ids")
        places: dict[str, int] = {}
        for place, name in enumerate(names):
            if name in ("", "None", "nan", "<NA>"):
                raise DataError(f"{where}: the id of row {place} is missing")
            if name in places:
                raise DataError(
                    f"{where}: the id {name!r} occurs twice (rows {places[name]} and {place}); "
                    "ids must tell samples apart"
                )
            places[name] = place
        return cls(np.arange(count), names)

    def take(self, positions: NDArray[np.int64]) -> RowNames:
        """Return the names of some of the samples."""
        return RowNames(self.numbers[positions], self.given, prefix=self.prefix)

    def __len__(self) -> int:
        return len(self.numbers)

    @overload
    def __getitem__(self, place: int) -> str: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[str]: ...

    def __getitem__(self, place: int | slice) -> str | Sequence[str]:
        if isinstance(place, slice):
            return RowNames(self.numbers[place], self.given, prefix=self.prefix)
        number = int(self.numbers[place])
        return f"{self.prefix}{number}" if self.given is None else self.given[number]

    def __iter__(self) -> Iterator[str]:
        return (self[place] for place in range(len(self)))
