"""Functions in processes of their own, which inherit what this one has imported."""

from __future__ import annotations

import json
import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any


def start(work: Callable[[], Any], answer: Path, gate: Path | None = None) -> int:
    """Start a function; its result, or the error's kind and message, goes to a file as JSON.

    Args:
        work: The function; its result must be plain.
        answer: The file.
        gate: Nothing starts before this file is there.
    """
    pid = os.fork()
    if pid:
        return pid
    code = 0
    try:
        with (answer.with_suffix(".log")).open("w") as log:
            os.dup2(log.fileno(), 1)
            os.dup2(log.fileno(), 2)
        while gate is not None and not gate.exists():
            time.sleep(0.0002)
        warnings.simplefilter("ignore")
        try:
            found = ["done", work()]
        except BaseException as error:  # noqa: BLE001
            found = [type(error).__name__, str(error)]
        answer.write_text(json.dumps(found))
    except BaseException:  # noqa: BLE001
        code = 1
    finally:
        os._exit(code)


def wait(pid: int, answer: Path) -> list[Any]:
    """Wait for a function that was started, and return how it ended."""
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert code == 0, (code, answer.with_suffix(".log").read_text())
    return json.loads(answer.read_text())


def run(work: Callable[[], Any], answer: Path) -> list[Any]:
    """Run a function in a process of its own and return how it ended."""
    return wait(start(work, answer), answer)
