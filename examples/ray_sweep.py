"""A sweep over heads, noise rates and seeds on Ray, ending in a table.

    python examples/ray_sweep.py

Needs: pip install "edgemask[app,ray]". Without an address Ray starts on this machine; on a cluster
say address="auto", and give a folder that all machines see. The same sweep as a command:

    edgemask sweep --recipe digits/ce --grid head.name=linear,sem --grid noise.spec=sym:0.2,sym:0.6
        --grid train.seed=0,1 --set train.epochs=10 --engine ray --out sweeps/ray
"""

import sys
from itertools import product
from pathlib import Path

import edgemask as em
from edgemask.engine.job import RunJob
from edgemask.engine.jobs import JobRunner

HEADS = {"linear": "linear", "sem": "sem", "capped": "sem(policy=capped(0.3))"}


def main(folder: str = "sweeps/ray", engine: str = "ray") -> None:
    """Do the runs that are not done yet, and print accuracy by head and noise rate.

    Args:
        folder: Where the runs are stored. The same call continues a sweep that was stopped.
        engine: "ray", or "local" for processes of this machine without Ray.
    """
    jobs = []
    for (name, head), rate, seed in product(HEADS.items(), (0.2, 0.6), (0, 1)):
        plan = em.fit(
            "digits", noise=f"sym:{rate}", head=head, epochs=6, seed=seed,
            settings={"noise": {"seed": seed}, "log": {"trackers": []}}, dry_run=True,
        )  # fmt: skip
        jobs.append(RunJob(plan.config, Path(folder) / f"{name}-{rate}-{seed}"))

    runner = JobRunner(engine=engine, workers=2, address=None)
    results = runner.run(jobs, progress=lambda done: print(done.state, done.name, done.error))
    failed = [result for result in results if result.state != "done"]
    if failed:
        sys.exit(f"{len(failed)} runs failed: {failed[0].error}")

    runs = em.load_runs(folder)  # one row per run
    means = runs.groupby("setting")["accuracy_last"].agg(["mean", "std", "count"])
    print(means.round(3).sort_values("mean").to_string())


if __name__ == "__main__":
    main(*sys.argv[1:])
