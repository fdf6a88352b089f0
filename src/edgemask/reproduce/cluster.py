"""Many runs on a Ray cluster, whose machines share the folder of the runs."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from edgemask.errors import MissingExtraError
from edgemask.reproduce.pool import Told
from edgemask.reproduce.work import Outcome

__all__ = ["run_ray"]


def run_ray(
    jobs: Mapping[str, Mapping[str, Any]],
    root: str | Path,
    told: Told,
    *,
    address: str | None = None,
    threads: int = 1,
    gpus: float = 0.0,
    attempts: int = 3,
) -> None:
    """Do runs as tasks of Ray, the same ones with the same results as on one machine.

    A task whose worker or machine dies is begun anew elsewhere and goes on from the run's last
    checkpoint. The folder of the runs must be the same on all machines, and so must the data.

    Args:
        jobs: Run name -> its whole config.
        root: The folder of the runs.
        told: Called with the outcome of each.
        address: The cluster (``auto``, ``host:port``, ``ray://...``); None starts a local one.
        threads: CPUs that a run takes.
        gpus: GPUs that a run takes.
        attempts: How often a run is begun at most.
    """
    try:
        import ray
    except ImportError as error:
        raise MissingExtraError("ray", "ray", "to run on a cluster", error) from error
    begun = not ray.is_initialized()
    if begun:
        variables = {
            "OMP_NUM_THREADS": str(threads),
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        }
        if "EDGEMASK_DATA" in os.environ:
            variables["EDGEMASK_DATA"] = os.environ["EDGEMASK_DATA"]
        ray.init(
            address=address,
            runtime_env={"env_vars": variables},
            log_to_driver=False,
            include_dashboard=None if address else False,
        )
    task = ray.remote(num_cpus=threads, num_gpus=gpus, max_retries=attempts - 1)(_task)
    folder = str(Path(root).resolve())
    names = {
        task.options(name=name).remote(dict(settings), folder): name
        for name, settings in jobs.items()
    }
    try:
        waiting = list(names)
        while waiting:
            ready, waiting = ray.wait(waiting, num_returns=1)
            for reference in ready:
                told(_result(ray, reference, names[reference]))
    finally:
        if begun:
            ray.shutdown()


def _task(settings: dict[str, Any], root: str) -> Outcome:
    from edgemask.reproduce.work import run_one

    return run_one(settings, root)


def _result(ray: Any, reference: Any, name: str) -> Outcome:
    try:
        outcome: Outcome = ray.get(reference)
    except ray.exceptions.RayError as error:
        return Outcome(name, "failed", f"{type(error).__name__}: {error}")
    return outcome
