"""SIGTERM and Ctrl-C: the run finishes its step, saves its state and prints how to continue."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from edgemask.runs import shell_argument

__all__ = ["Interrupted", "Stop", "listen"]


class Interrupted(KeyboardInterrupt):
    """The run was asked to stop and has saved its state.

    Attributes:
        path: The run's folder.
        signal: The number of the signal.
    """

    def __init__(self, path: Path, number: int):
        super().__init__(
            f"stopped by {signal.Signals(number).name} and saved; "
            f"continue with: edgemask resume {shell_argument(path)}"
        )
        self.path = path
        self.signal = number


class Stop:
    """The signal that asked the run to stop, if any; true once one has come."""

    def __init__(self) -> None:
        self.number: int | None = None

    def __bool__(self) -> bool:
        return self.number is not None


@contextmanager
def listen() -> Iterator[Stop]:
    """Catch SIGTERM and Ctrl-C inside the block; a second one ends the process at once."""
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    numbers = (signal.SIGTERM, signal.SIGINT)
    before = {number: signal.getsignal(number) for number in numbers}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def handle(number: int, frame: FrameType | None) -> None:
        del frame
        stop.number = number
        restore()

    for number in numbers:
        signal.signal(number, handle)
    try:
        yield stop
    finally:
        restore()
