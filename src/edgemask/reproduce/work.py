"""One run, wherever it is done: in this process, in a worker process, or on a cluster."""

from __future__ import annotations

import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgemask.engine import Interrupted, resolve, train
from edgemask.engine.rundir import default_name
from edgemask.errors import UserError
from edgemask.reproduce.ledger import Ledger, commit

__all__ = ["Outcome", "run_one"]


@dataclass(frozen=True)
class Outcome:
    """How a run ended."""

    name: str
    state: str
    """``done``, ``failed``, or ``elsewhere`` for one that another process works on."""
    error: str = ""


def run_one(settings: Mapping[str, Any], root: str | Path, *, patience: float = 20.0) -> Outcome:
    """Do a run, go on with it, or find it done; note what became of it.

    Whatever goes wrong ends here, so that the other runs go on.

    Args:
        settings: The whole config as nested values.
        root: The folder of the runs.
        patience: Seconds to wait for a process that holds the run; one that was killed may take
            a moment to let go.
    """
    config = resolve(settings)
    name = default_name(config)
    ledger = Ledger(root)
    state, said = ledger.state(name)
    end = time.monotonic() + patience
    while state == "running" and time.monotonic() < end:
        time.sleep(0.2)
        state, said = ledger.state(name)
    if state == "done":
        return Outcome(name, "done")
    if state == "running":
        return Outcome(name, "elsewhere", f"another process is working on it, {said}")
    ledger.note(name, state="running", commit=commit(), error="")
    try:
        train(config, out=Path(root) / name)
    except Interrupted as stop:
        ledger.note(name, state="stopped", error=str(stop))
        raise
    except Exception as error:  # noqa: BLE001 - one bad run must not end a sweep
        own = isinstance(error, UserError)
        text = str(error) if own else f"{type(error).__name__}: {error}"
        ledger.note(name, state="failed", error=text, traceback=traceback.format_exc())
        return Outcome(name, "failed", text)
    ledger.note(name, state="done")
    return Outcome(name, "done")
