"""Many runs: in this process, in a pool of worker processes, or as tasks of a Ray cluster.

The folder of a run is the only record of what is done. Beside the files of the run it holds
``.job.json``: the process and the commit that worked on it last, and why it failed if it did.
"""

from __future__ import annotations

import functools
import importlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgemask._files import write_json
from edgemask.engine.config import Config, to_dict
from edgemask.engine.observer import Observer, RunInfo
from edgemask.engine.resolve import resolve
from edgemask.engine.rundir import RunBusyError, RunDir
from edgemask.engine.signals import Interrupted
from edgemask.errors import MissingExtraError, UserError

__all__ = [
    "JobResult",
    "JobRunner",
    "JobsStopped",
    "RunJob",
    "code_commit",
    "import_modules",
    "job_record",
    "job_state",
    "run_job",
]

_TICK_SECONDS = 0.3
_STOP_SECONDS = 30.0
_PARENT_SECONDS = 1.0


class JobsStopped(KeyboardInterrupt):
    """Ctrl-C or SIGTERM came; the runs in progress have saved their state."""


@dataclass(frozen=True)
class RunJob:
    """A run to be done."""

    config: Config | Mapping[str, Any]
    """The config, or the same as nested settings of plain values."""
    folder: Path
    """The folder of the run, exactly."""

    @property
    def settings(self) -> dict[str, Any]:
        """The config as nested settings."""
        return to_dict(self.config) if isinstance(self.config, Config) else dict(self.config)


@dataclass(frozen=True)
class JobResult:
    """How a run ended."""

    folder: Path
    state: str
    """``done``, ``failed``, or ``busy`` where a process of somebody else works on the run."""
    error: str = ""

    @property
    def name(self) -> str:
        """The name of the run's folder."""
        return self.folder.name


def job_record(folder: str | Path) -> dict[str, Any]:
    """Return what is recorded about the last attempt at a run: state, commit, pid, error."""
    try:
        text = (Path(folder) / ".job.json").read_text(encoding="utf-8")
        record: dict[str, Any] = json.loads(text)
    except (OSError, json.JSONDecodeError):
        return {}
    return record


def job_state(folder: str | Path) -> tuple[str, str]:
    """Return the state of a run's folder, with an explanation.

    Returns:
        ``done``, ``running``, ``failed``, ``partly`` (started and stopped) or ``to do``; and the
        reason of a failure or the number of finished epochs.
    """
    run = RunDir(folder)
    if run.finished:
        return "done", ""
    if _is_locked(run.path / ".lock"):
        return "running", f"{len(run.history())} epochs done"
    record = job_record(folder)
    if record.get("state") == "failed":
        return "failed", str(record.get("error", ""))
    if run.started:
        return "partly", f"{len(run.history())} epochs done"
    return "to do", ""


def import_modules(names: Sequence[str]) -> None:
    """Import modules that register names of their own (``--import MODULE``).

    The current folder is searched as well, which the command's own path leaves out.

    Raises:
        UserError: Names a module that cannot be imported, and why.
    """
    if names and not {"", str(Path.cwd())} & set(sys.path):
        sys.path.append(str(Path.cwd()))
    for name in names:
        try:
            importlib.import_module(name)
        except Exception as error:
            raise UserError(
                f"cannot import the module {name!r}: {type(error).__name__}: {error}"
            ) from error


def _is_done(job: RunJob) -> bool:
    """Whether a job's folder holds this very run, finished."""
    from edgemask.engine.train import train

    if not RunDir(job.folder).finished:
        return False
    try:
        train(resolve(job.settings), out=job.folder)
    except UserError:
        return False  # another run; reported as the failure of this one
    return True


def _is_locked(lock: Path) -> bool:
    """Whether a living process holds a lock file."""
    if not lock.is_file():
        return False
    try:
        import fcntl
    except ImportError:  # a system without advisory locks
        return False
    handle = os.open(lock, os.O_RDWR)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(handle)
    return False


class _StartObserver(Observer):
    """Records who works on a run, while the folder is locked."""

    started = False

    def on_start(self, info: RunInfo) -> None:
        self.started = True
        _record(info.path, "running", pid=os.getpid(), commit=code_commit())


def _record(folder: Path, state: str, error: str = "", **facts: Any) -> None:
    facts = {**job_record(folder), "traceback": "", **facts, "state": state, "error": error}
    write_json(folder / ".job.json", facts)


def run_job(job: RunJob, *, imports: Sequence[str] = (), patience: float = 20.0) -> JobResult:
    """Train a run in this process, continue it, or find it done. Errors become a result.

    Args:
        job: The run.
        imports: Modules to import first; they register names that the settings use.
        patience: Seconds to wait for another process that holds the run's lock; one that was
            killed may take a moment to let go.
    """
    from edgemask.engine.train import train

    folder = job.folder
    observer = _StartObserver()
    new = False
    deadline = time.monotonic() + patience
    try:
        import_modules(imports)
        config = resolve(job.settings)
        entries = list(folder.iterdir()) if folder.is_dir() else []
        new = not folder.is_file() and all(path.name[0] == "." for path in entries)
        while True:
            try:
                train(config, out=folder, observers=[observer])
                break
            except RunBusyError as error:
                if time.monotonic() > deadline:
                    return JobResult(folder, "busy", str(error))
                time.sleep(0.2)
        if observer.started:
            _record(folder, "done")
    except Interrupted as stop:
        _record(folder, "stopped", str(stop))
        raise
    except Exception as error:  # noqa: BLE001 - a failed run must not end the others
        text = str(error) if isinstance(error, UserError) else f"{type(error).__name__}: {error}"
        if new or observer.started:  # otherwise it may be the folder of something else
            _record(folder, "failed", text, traceback=traceback.format_exc())
        return JobResult(folder, "failed", text)
    return JobResult(folder, "done")


@functools.cache
def code_commit() -> str | None:
    """Return the commit of the code, with ``+`` if files differ from it; None outside git."""

    def git(*words: str) -> str:
        done = subprocess.run(  # noqa: S603
            ["git", *words],  # noqa: S607
            cwd=Path(__file__).parents[1],
            capture_output=True,
            text=True,
            check=True,
            timeout=20,
        )
        return done.stdout.strip()

    try:
        changed = git("status", "--porcelain", "--untracked-files=no", "--", ".")
        return git("rev-parse", "--short=12", "HEAD") + ("+" if changed else "")
    except (OSError, subprocess.SubprocessError):
        return None


@dataclass(frozen=True, kw_only=True)
class JobRunner:
    """Where and how many runs are done at a time."""

    engine: str = "local"
    """``local`` or ``ray``."""
    workers: int = 1
    """Worker processes on this machine; 0 does the runs one by one in this process."""
    threads: int = 1
    """CPU threads per worker; one is the fastest for small networks."""
    address: str | None = None
    """The Ray cluster (``auto``, ``host:port``, ``ray://...``); None starts a local one."""
    gpus: float = 0.0
    """GPUs per run, on Ray."""
    attempts: int = 3
    """How often a run is started at most when its process or machine dies."""
    imports: tuple[str, ...] = ()
    """Modules that each worker imports first."""

    def __post_init__(self) -> None:
        if self.engine not in ("local", "ray"):
            raise UserError(f"the engine must be 'local' or 'ray', got {self.engine!r}")
        for name, least in (("workers", 0), ("threads", 1), ("attempts", 1)):
            if getattr(self, name) < least:
                raise UserError(f"{name} must be at least {least}, got {getattr(self, name)}")

    def run(
        self,
        jobs: Sequence[RunJob],
        progress: Callable[[JobResult], None] | None = None,
        *,
        tick: Callable[[], None] | None = None,
    ) -> list[JobResult]:
        """Do runs; the same call continues after an interruption.

        Runs whose folder holds them finished are skipped. A run that fails is reported, and the
        others continue. A run whose process dies (killed, out of memory, lost machine) is continued
        from its last checkpoint by a new one.

        Args:
            jobs: The runs; one that is named twice is done once.
            progress: Called with the result of each run that was not done before.
            tick: Called several times per second while workers are busy.

        Returns:
            One result per job, in the order of the jobs.

        Raises:
            JobsStopped: After Ctrl-C or SIGTERM; the workers have saved their runs and ended.
        """
        results: dict[Path, JobResult] = {}
        waiting = []
        for folder, job in {job.folder: job for job in jobs}.items():
            if _is_done(job):
                results[folder] = JobResult(folder, "done")
            else:
                waiting.append(job)

        def report(result: JobResult) -> None:
            results[result.folder] = result
            if progress is not None:
                progress(result)

        if self.engine == "local" and self.workers == 0:
            for job in waiting:
                report(run_job(job, imports=self.imports))
        elif waiting:
            start = _on_ray if self.engine == "ray" else _in_workers
            with _sigterm_interrupts(), start(self, waiting) as futures:
                _collect(futures, report, tick)
        return [results[job.folder] for job in jobs]

    def environment(self) -> dict[str, str]:
        """Return the environment variables that a worker gets on top of its machine's."""
        variables = {
            "OMP_NUM_THREADS": str(self.threads),
            "MKL_NUM_THREADS": str(self.threads),
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        }
        if "EDGEMASK_DATA" in os.environ:
            variables["EDGEMASK_DATA"] = os.environ["EDGEMASK_DATA"]
        return variables


def _collect(
    futures: Mapping[Future[tuple[str, str]], RunJob],
    report: Callable[[JobResult], None],
    tick: Callable[[], None] | None,
) -> None:
    """Report the results of jobs as they come in."""
    waiting = set(futures)
    try:
        while waiting:
            ready, waiting = wait(waiting, timeout=_TICK_SECONDS, return_when=FIRST_COMPLETED)
            for future in ready:
                try:
                    state, error = future.result()
                except Exception as failure:  # noqa: BLE001 - the others continue
                    state, error = "failed", f"{type(failure).__name__}: {failure}"
                report(JobResult(futures[future].folder, state, error))
            if tick is not None:
                tick()
    except KeyboardInterrupt:
        raise JobsStopped("stopped; the same command continues it") from None


@contextmanager
def _on_ray(
    runner: JobRunner, jobs: Sequence[RunJob]
) -> Iterator[dict[Future[tuple[str, str]], RunJob]]:
    """Start jobs as tasks of Ray; all machines must see the same folders and data."""
    try:
        import ray
    except ImportError as error:
        raise MissingExtraError("ray", "ray", "to run on a cluster", error) from error
    started = not ray.is_initialized()
    if started:
        ray.init(
            address=runner.address,
            runtime_env={"env_vars": runner.environment()},
            log_to_driver=False,
            include_dashboard=None if runner.address else False,
        )
    task = ray.remote(
        num_cpus=runner.threads, num_gpus=runner.gpus, max_retries=runner.attempts - 1
    )(_ray_task)
    references = [
        task.options(name=job.folder.name).remote(
            job.settings, str(job.folder.resolve()), runner.imports
        )
        for job in jobs
    ]
    try:
        yield {reference.future(): job for reference, job in zip(references, jobs, strict=True)}
    finally:
        for reference in references:
            ray.cancel(reference)  # nothing happens to those that have ended
        if started:
            ray.shutdown()


def _ray_task(settings: dict[str, Any], folder: str, imports: Sequence[str]) -> tuple[str, str]:
    # The worker of a lost machine may live on for a while, and hold the run until it notices.
    result = run_job(RunJob(settings, Path(folder)), imports=imports, patience=120.0)
    return result.state, result.error


@contextmanager
def _in_workers(
    runner: JobRunner, jobs: Sequence[RunJob]
) -> Iterator[dict[Future[tuple[str, str]], RunJob]]:
    """Start jobs in worker processes on this machine, each process fed by a thread."""
    workers = _Workers(runner)
    with ThreadPoolExecutor(min(runner.workers, len(jobs))) as threads:
        try:
            yield {threads.submit(workers.do, job): job for job in jobs}
        finally:
            threads.shutdown(wait=False, cancel_futures=True)
            workers.stop()


class _Workers:
    """Worker processes, one per calling thread; one that dies is replaced.

    They are started by command, not by ``multiprocessing``, so that a script without a
    ``__main__`` guard can use them, and in sessions of their own, so that Ctrl-C in a terminal
    reaches only this process, which then asks each worker once.
    """

    def __init__(self, runner: JobRunner):
        self.runner = runner
        self.by_thread: dict[int, subprocess.Popen[str]] = {}
        self.lock = threading.Lock()
        self.stopped = False

    def do(self, job: RunJob) -> tuple[str, str]:
        """Have this thread's worker do a job; return its state and error."""
        for _ in range(self.runner.attempts):
            with self.lock:
                if self.stopped:
                    break
                process = self._worker(_log_file(job))
            reply = _ask(process, job, self.runner.imports)
            if reply is not None:
                return reply
            code = process.wait()
            if job_state(job.folder)[0] == "done":
                return "done", ""
        if self.stopped:
            return "failed", "stopped"
        by = f"signal {-code}" if code < 0 else f"exit code {code}"
        text = f"its process died {self.runner.attempts} times, last by {by}; see {_log_file(job)}"
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
                    [sys.executable, "-c", "from edgemask.engine.jobs import _serve; _serve()"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    text=True,
                    env=os.environ | self.runner.environment(),
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


@contextmanager
def _sigterm_interrupts() -> Iterator[None]:
    """Treat SIGTERM like Ctrl-C inside the block, so that no worker is left behind."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _end_with_parent() -> None:
    """Ask this process to save its run and end, once the process that started it is gone."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_PARENT_SECONDS)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()


def _serve() -> None:
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
