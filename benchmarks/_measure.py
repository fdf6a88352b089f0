"""How the benchmarks measure: contestants take turns in one run, and only ratios are reported.

Absolute times on a shared machine mean nothing. Every contestant is run in turn, round after round,
so that what slows one down slows the others down too; the ratio of a round is taken within it, and
the median over the rounds is printed.
"""

from __future__ import annotations

import argparse
import platform
import statistics
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from edgemask.engine.processes import has_accelerator

Contestants = Mapping[str, Callable[[], object]]

clock = time.perf_counter if has_accelerator() else time.process_time
"""Seconds for long measurements: of the processor, which other work distorts less, or passed."""


def arguments(description: str) -> argparse.ArgumentParser:
    """Return a parser with what all benchmarks take."""
    parser = argparse.ArgumentParser(description=description)
    # On a CPU, two processes with one thread each train faster than one process with two threads.
    parser.add_argument("--threads", type=int, default=1, help="default: 1, as runs are trained")
    parser.add_argument("--seconds", type=float, default=3.0, help="for each comparison")
    return parser


def announce(title: str, threads: int) -> None:
    """Say what is measured, and with what."""
    torch.set_num_threads(threads)
    print(f"\n{title}")
    print(
        f"torch {torch.__version__}, Python {platform.python_version()}, threads: {threads}; "
        "ratios of medians over rounds in which all took turns"
    )


def ratios(contestants: Contestants, *, to: str, seconds: float = 3.0) -> dict[str, float]:
    """Return each contestant's time over that of ``to``: the median over rounds.

    Args:
        contestants: What to run, by name.
        to: The one that the others are compared with.
        seconds: How long to go on, at least five rounds.
    """
    for run in contestants.values():
        run()
        run()
    rounds: list[dict[str, float]] = []
    until = time.perf_counter() + seconds
    while len(rounds) < 5 or time.perf_counter() < until:
        times = {}
        for name, run in contestants.items():
            start = time.perf_counter()
            run()
            times[name] = time.perf_counter() - start
        rounds.append(times)
    return {
        name: statistics.median(times[name] / times[to] for times in rounds) for name in contestants
    }


class PeakMemory(TorchDispatchMode):
    """Counts the bytes of the tensors made inside the block; ``peak`` is the most at one time."""

    def __init__(self) -> None:
        super().__init__()
        self.peak = self._live = 0
        self._known: set[int] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        before = {_storage(t)._cdata for t in tree_leaves((args, kwargs)) if _is_tensor(t)}
        result = func(*args, **(kwargs or {}))
        for storage in (_storage(t) for t in tree_leaves(result) if _is_tensor(t)):
            key, size = storage._cdata, storage.nbytes()
            if key not in self._known and key not in before:
                self._known.add(key)
                self._live += size
                self.peak = max(self.peak, self._live)
                weakref.finalize(storage, self._free, key, size)
        return result

    def _free(self, key: int, size: int) -> None:
        self._known.discard(key)
        self._live -= size


def peak_memory(run: Callable[[], object]) -> int:
    """Return the most bytes that a run holds at one time beyond what was there before."""
    with PeakMemory() as memory:
        run()
    return memory.peak


def _is_tensor(value: object) -> bool:
    return isinstance(value, Tensor)


def _storage(tensor: Tensor) -> torch.UntypedStorage:
    return tensor.untyped_storage()


def table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print rows in columns."""
    cells = [[str(cell) for cell in row] for row in [header, *rows]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    for row in cells:
        columns = (
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        print("  " + "  ".join(columns).rstrip())


def verdict(what: str, value: float, limit: float, *, at_least: bool = False) -> None:
    """Print a figure beside the one to reach, and whether it was."""
    reached = value >= limit if at_least else value <= limit
    sign = ">=" if at_least else "<="
    word = "reached" if reached else "MISSED"
    print(f"  {word:7}  {what}: {value:.3g} (to reach: {sign} {limit:g})")
