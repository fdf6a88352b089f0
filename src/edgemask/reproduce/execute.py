"""Doing what a plan leaves to do, here, in processes, or on a cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgemask.engine import Config
from edgemask.engine.config import to_dict
from edgemask.errors import UserError
from edgemask.reproduce.plan import Plan
from edgemask.reproduce.pool import Told, run_here, run_local
from edgemask.reproduce.work import Outcome

__all__ = ["Runner", "execute"]

TO_DO = ("to do", "partly", "failed", "running")


@dataclass(frozen=True, kw_only=True)
class Runner:
    """Where runs are done."""

    engine: str = "local"
    """``local`` or ``ray``."""
    jobs: int = 1
    """Runs at a time on this machine; 0 does them in this very process."""
    threads: int = 1
    """CPU threads a run."""
    address: str | None = None
    """The Ray cluster; None starts a local one."""
    gpus: float = 0.0
    """GPUs a run, on Ray."""

    def __post_init__(self) -> None:
        if self.engine not in ("local", "ray"):
            raise UserError(f"the engine must be 'local' or 'ray', got {self.engine!r}")
        if self.jobs < 0 or self.threads < 1:
            raise UserError(
                f"jobs must be 0 or more and threads at least 1, got {self.jobs}, {self.threads}"
            )

    def run(self, runs: Mapping[str, Config], root: str | Path, told: Told) -> list[Outcome]:
        """Do runs; those that fail are reported and the rest finished."""
        outcomes: list[Outcome] = []

        def heard(outcome: Outcome) -> None:
            outcomes.append(outcome)
            told(outcome)

        jobs: dict[str, dict[str, Any]] = {name: to_dict(config) for name, config in runs.items()}
        if self.engine == "ray":
            from edgemask.reproduce.cluster import run_ray

            run_ray(jobs, root, heard, address=self.address, threads=self.threads, gpus=self.gpus)
        elif self.jobs:
            run_local(jobs, root, heard, workers=self.jobs, threads=self.threads)
        else:
            run_here(jobs, root, heard)
        return outcomes


def execute(make: Callable[[], Plan], runner: Runner, told: Told) -> tuple[Plan, list[Outcome]]:
    """Do everything that a plan leaves to do, and what waits for it, and plan again.

    Args:
        make: Makes the plan anew; runs that waited for others become ready.
        runner: Where runs are done.
        told: Called with the outcome of each.

    Returns:
        The plan as it stands afterwards, and the outcomes.
    """
    outcomes: list[Outcome] = []
    tried: set[str] = set()
    while True:
        plan = make()
        runs = {n: c for n, c in plan.runs(*TO_DO).items() if n not in tried}
        if not runs:
            return plan, outcomes
        tried |= set(runs)
        outcomes += runner.run(runs, plan.root, told)
