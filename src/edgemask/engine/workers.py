"""Worker processes on this machine that do runs, one after the other."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from edgemask._files import write_json
from edgemask.engine.job import RunJob, job_record, job_state, run_job

__all__ = ["Workers", "serve"]

_STOP_SECONDS = 30.0
_PARENT_SECONDS = 1.0


class Workers:
    """Worker processes, one per calling thread; one that dies is replaced.

    They are started by command, not by ``multiprocessing``, so that a script without a
    ``__main__`` guard can use them, and in sessions of their own, so that Ctrl-C in a terminal
    reaches only this process, which then asks each worker once.

    Args:
        attempts: How often a run is started at most when its process dies.
        imports: Modules that each worker imports first.
        environment: Variables that a worker gets on top of this process's.
    """

    def __init__(self, attempts: int, imports: Sequence[str], environment: Mapping[str, str]):
        self.attempts = attempts
        self.imports = imports
        self.environment = environment
        self.by_thread: dict[int, subprocess.Popen[str]] = {}
        self.lock = threading.Lock()
        self.stopped = False

    def do(self, job: RunJob) -> tuple[str, str]:
        """Have this thread's worker do a job; return its state and error."""
        for _ in range(self.attempts):
            with self.lock:
                if self.stopped:
                    break
                process = self._worker(_log_file(job))
            reply = _ask(process, job, self.imports)
            if reply is not None:
                return reply
            code = process.wait()
            if job_state(job.folder)[0] == "done":
                return "done", ""
        if self.stopped:
            return "failed", "stopped"
        by = f"signal {-code}" if code < 0 else f"exit code {code}"
        text = f"its process died {self.attempts} times, last by {by}; see {_log_file(job)}"
        record = job_record(job.folder)
        if record or not job.folder.exists():
            write_json(job.folder / ".job.json", record | {"state": "failed", "error": text})
        return "failed", text

    def _worker(self, log: Path) -> subprocess.Popen[str]:
        """Return the living worker of this thread, a new one if needed."""
        thread = threading.get_ident()
        process = self.by_thread.get(thread)
        if process is None or process.poll() is not None:
            log.parent.mkdir(parents=True, exist_ok=True)
            with log.open("ab") as errors:
                process = self.by_thread[thread] = subprocess.Popen(
                    [sys.executable, "-c", "from edgemask.engine.workers import serve; serve()"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    text=True,
                    env=os.environ | self.environment,
                    start_new_session=True,
                )
        return process

    def stop(self) -> None:
        """Ask the workers to save their runs and end; kill those that do not."""
        with self.lock:
            self.stopped = True
        for process in self.by_thread.values():
            process.terminate()
        deadline = time.monotonic() + _STOP_SECONDS
        for process in self.by_thread.values():
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()


def _log_file(job: RunJob) -> Path:
    return job.folder.parent / "logs" / f"{job.folder.name}.log"


def _ask(
    process: subprocess.Popen[str], job: RunJob, imports: Sequence[str]
) -> tuple[str, str] | None:
    """Have a worker do a job; return its state and error, or None if the worker died."""
    assert process.stdin is not None
    assert process.stdout is not None
    request = [job.settings, str(job.folder), str(_log_file(job)), list(imports)]
    try:
        process.stdin.write(json.dumps(request) + "\n")
        process.stdin.flush()
        state, error = json.loads(process.stdout.readline())
    except (OSError, ValueError):
        return None
    return state, error


def _end_with_parent() -> None:
    """Ask this process to save its run and end, once the process that started it is gone."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_PARENT_SECONDS)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()


def serve() -> None:
    """Do the jobs that arrive on standard input; what a run prints goes into its log."""
    _end_with_parent()
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as replies:
        os.dup2(2, 1)
        for line in sys.stdin:
            settings, folder, log, imports = json.loads(line)
            Path(log).parent.mkdir(parents=True, exist_ok=True)
            with Path(log).open("ab") as file:
                os.dup2(file.fileno(), 1)
                os.dup2(file.fileno(), 2)
            try:
                result = run_job(RunJob(settings, Path(folder)), imports=imports)
            except KeyboardInterrupt:
                return
            sys.stdout.flush()
            replies.write(json.dumps([result.state, result.error]) + "\n")
            replies.flush()
