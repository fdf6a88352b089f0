"""Labelled and unlabelled batches side by side, for semi-supervised steps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from edgemask.data.loader import Batch, Loader, iterate

__all__ = ["Pair", "PairedLoader"]


class Pair(NamedTuple):
    """A step of a semi-supervised epoch."""

    labelled: Batch
    unlabelled: Batch | None
    """None when there is no unlabelled sample at all."""


class PairedLoader:
    """Iterates once over the labelled samples, with unlabelled batches beside them.

    An epoch is one labelled pass. The unlabelled samples start over, in a new order, as often as
    needed; a set smaller than its batch size gives one smaller batch each time. Without unlabelled
    samples the second half of each pair is None; without labelled samples the epoch has no steps.

    Args:
        labelled: Decides the length of the epoch and the number of workers.
        unlabelled: Is cycled.

    Example:
        >>> from edgemask.data import Loader, PairedLoader, load
        >>> digits = load("digits")
        >>> def part(*where):
        ...     return Loader(digits.train, bundle=digits, batch_size=64, indices=range(*where))
        >>> pairs = PairedLoader(part(0, 300), part(300, 400))
        >>> len(pairs), [len(pair.unlabelled.index) for pair in pairs]
        (5, [64, 36, 64, 36, 64])
    """

    def __init__(self, labelled: Loader, unlabelled: Loader):
        self.labelled = labelled
        self.unlabelled = unlabelled
        self._position = 0
        self._resume: int | None = None

    def __len__(self) -> int:
        return len(self.labelled)

    def set_epoch(self, epoch: int) -> None:
        """Name the epoch for both loaders."""
        if epoch != self.labelled.epoch:
            self._position, self._resume = 0, None
        self.labelled.set_epoch(epoch)
        self.unlabelled.set_epoch(epoch)

    def state_dict(self) -> dict[str, dict[str, int]]:
        """Return the place in the epoch: the pairs handed out so far."""
        labelled = {**self.labelled.state_dict(), "batch": self._position}
        return {"labelled": labelled, "unlabelled": self.unlabelled.state_dict()}

    def load_state_dict(self, state: dict[str, dict[str, int]]) -> None:
        """Go on after the pairs that had been handed out when the state was taken."""
        self.labelled.load_state_dict(state["labelled"])
        self.unlabelled.load_state_dict(state["unlabelled"])
        self._position = self._resume = state["labelled"]["batch"]

    def __iter__(self) -> Iterator[Pair]:
        start, self._resume = self._resume or 0, None
        self._position = start
        for pair in iterate(self.pair, range(start, len(self)), self.labelled.workers):
            self._position += 1
            yield pair

    def pair(self, position: int) -> Pair:
        """Return one step of the epoch."""
        labelled = self.labelled.batch(position)
        length = len(self.unlabelled)
        if not length:
            return Pair(labelled, None)
        cycle, place = divmod(position, length)
        return Pair(labelled, self.unlabelled.batch(place, cycle=cycle))
