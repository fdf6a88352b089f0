"""Many runs on one machine: a process a run, so many at a time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from edgemask.engine.files import write_text
from edgemask.reproduce.ledger import Ledger
from edgemask.reproduce.work import Outcome, run_one

__all__ = ["Stopped", "run_here", "run_local"]

Told = Callable[[Outcome], None]


class Stopped(KeyboardInterrupt):
    """The sweep was asked to stop; its runs have saved their state."""


def run_here(jobs: Mapping[str, Mapping[str, Any]], root: str | Path, told: Told) -> None:
    """Do runs one after the other in this process.

    Args:
        jobs: Run name -> its whole config.
        root: The folder of the runs.
        told: Called with the outcome of each.
    """
    for settings in jobs.values():
        told(run_one(settings, root))


@dataclass
class _Worker:
    name: str
    process: subprocess.Popen[bytes]
    log: IO[bytes]
    attempt: int


def run_local(
    jobs: Mapping[str, Mapping[str, Any]],
    root: str | Path,
    told: Told,
    *,
    workers: int = 1,
    threads: int = 1,
    attempts: int = 3,
) -> None:
    """Do runs in processes of their own.

    A run whose process dies (killed, out of memory) is taken up from its last checkpoint, up to
    ``attempts`` times in all; a run that fails by itself is reported and the rest goes on.

    Args:
        jobs: Run name -> its whole config.
        root: The folder of the runs.
        told: Called with the outcome of each.
        workers: Processes at a time.
        threads: CPU threads of each; one thread a run is the fastest for small networks.
        attempts: How often a run is begun at most.

    Raises:
        Stopped: After Ctrl-C; the processes were asked to save and have ended.
    """
    root = Path(root)
    (root / "logs").mkdir(parents=True, exist_ok=True)
    waiting = deque((name, 1) for name in jobs)
    for name, settings in jobs.items():
        write_text(_job_file(root, name), json.dumps(settings))
    busy: list[_Worker] = []
    before = _listen()
    try:
        while waiting or busy:
            while waiting and len(busy) < workers:
                name, attempt = waiting.popleft()
                busy.append(_start(root, name, attempt, threads))
            for worker in [worker for worker in busy if worker.process.poll() is not None]:
                busy.remove(worker)
                worker.log.close()
                outcome = _outcome(root, worker, attempts)
                if outcome is None:
                    waiting.appendleft((worker.name, worker.attempt + 1))
                else:
                    told(outcome)
            time.sleep(0.05)
    except KeyboardInterrupt:
        raise Stopped("stopped; the same command goes on where it was") from None
    finally:
        _end(busy)
        if before is not None:
            signal.signal(signal.SIGTERM, before)


def _listen() -> Any:
    """Take SIGTERM for Ctrl-C, so that no process is left behind; return what was there before."""
    if threading.current_thread() is not threading.main_thread():
        return None

    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    return signal.signal(signal.SIGTERM, stop)


def _job_file(root: Path, name: str) -> Path:
    path = root / "ledger" / f"{name}.job"
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def _start(root: Path, name: str, attempt: int, threads: int) -> _Worker:
    log = (root / "logs" / f"{name}.log").open("ab")
    environment = os.environ | {
        "OMP_NUM_THREADS": str(threads),
        "MKL_NUM_THREADS": str(threads),
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }
    process = subprocess.Popen(  # noqa: S603
        [sys.executable, "-m", "edgemask.reproduce.pool", str(_job_file(root, name)), str(root)],
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
        env=environment,
        start_new_session=True,  # Ctrl-C comes from us, once
    )
    Ledger(root).note(name, pid=process.pid)
    return _Worker(name, process, log, attempt)


def _outcome(root: Path, worker: _Worker, attempts: int) -> Outcome | None:
    """Return how a run ended; None if it should be taken up again."""
    code = worker.process.returncode
    state, error = Ledger(root).state(worker.name)
    if state == "done":
        return Outcome(worker.name, "done")
    if code == 1 and state == "failed":
        return Outcome(worker.name, "failed", error)
    if worker.attempt < attempts:
        return None
    by = f"signal {-code}" if code < 0 else f"exit code {code}"
    text = f"its process died {attempts} times, last by {by}; see logs/{worker.name}.log"
    Ledger(root).note(worker.name, state="failed", error=text)
    return Outcome(worker.name, "failed", text)


def _end(busy: list[_Worker], patience: float = 30.0) -> None:
    """Ask processes to save and end; those that do not are killed."""
    for worker in busy:
        if worker.process.poll() is None:
            worker.process.send_signal(signal.SIGTERM)
    for worker in busy:
        try:
            worker.process.wait(patience)
        except subprocess.TimeoutExpired:
            worker.process.kill()
        worker.log.close()


def main(job: str, root: str) -> int:
    """Do the run of a job file; the exit code says how it ended."""
    settings = json.loads(Path(job).read_text(encoding="utf-8"))
    return 0 if run_one(settings, root).state == "done" else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
