"""Many runs: in this process, in a pool of worker processes, or as tasks of a Ray cluster."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgemask.engine.job import (
    JobResult,
    RunJob,
    run_job,
)
from edgemask.engine.resolve import resolve
from edgemask.engine.rundir import RunDir
from edgemask.engine.workers import Workers
from edgemask.errors import MissingExtraError, UserError

__all__ = ["JobRunner", "JobsStopped"]

_TICK_SECONDS = 0.3


class JobsStopped(KeyboardInterrupt):
    """Ctrl-C or SIGTERM came; the runs in progress have saved their state."""


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
        # Left to itself, Ray would join whatever cluster was last started on this machine.
        address = runner.address or os.environ.get("RAY_ADDRESS") or "local"
        ray.init(
            address=address,
            runtime_env={"env_vars": runner.environment()},
            log_to_driver=False,
            include_dashboard=False if address == "local" else None,
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
    workers = Workers(runner.attempts, runner.imports, runner.environment())
    with ThreadPoolExecutor(min(runner.workers, len(jobs))) as threads:
        try:
            yield {threads.submit(workers.do, job): job for job in jobs}
        finally:
            threads.shutdown(wait=False, cancel_futures=True)
            workers.stop()


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
