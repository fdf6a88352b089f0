"""A local Ray cluster of two machines, one of which is lost."""

from __future__ import annotations

import os
import threading
import time

import pytest

from edgemask.engine.rundir import RunDir
from edgemask.reproduce import Outcome, Runner, run_one
from edgemask.reproduce.cluster import run_ray

pytestmark = pytest.mark.slow
ray = pytest.importorskip("ray")


@pytest.fixture
def cluster():
    from ray.cluster_utils import Cluster

    found = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    nodes = [found.add_node(num_cpus=1) for _ in range(2)]
    found.wait_for_nodes()
    variables = {"PYTHONPATH": os.environ.get("PYTHONPATH", "") + os.pathsep + "src"}
    ray.init(
        address=found.address,
        runtime_env={"env_vars": variables | {"OMP_NUM_THREADS": "1"}},
        log_to_driver=False,
    )
    yield found, nodes
    ray.shutdown()
    found.shutdown()


def test_a_lost_machine_loses_nothing(cluster, jobs, tmp_path, same_weights):
    found, nodes = cluster
    layers = [
        {"train": {"epochs": 60, "seed": seed}, "log": {"checkpoint_steps": 1}} for seed in (0, 1)
    ]
    todo = jobs(*layers)
    heard: list[Outcome] = []
    killed = []

    def lose_one():
        end = time.monotonic() + 180
        folders = [RunDir(tmp_path / "ray" / name) for name in todo]
        while time.monotonic() < end:
            if all(len(folder.history()) >= 2 for folder in folders):
                found.remove_node(nodes[0], allow_graceful=False)
                killed.append(any(not folder.finished for folder in folders))
                return
            time.sleep(0.05)

    killer = threading.Thread(target=lose_one)
    killer.start()
    run_ray(todo, tmp_path / "ray", heard.append)
    killer.join()
    assert killed == [True]
    assert {outcome.state for outcome in heard} == {"done"}
    for name, settings in todo.items():
        run_one(settings, tmp_path / "alone")
        assert same_weights(tmp_path / "ray" / name, tmp_path / "alone" / name)


def test_the_runner_starts_a_cluster_of_its_own(jobs, tmp_path):
    from edgemask.engine import resolve

    todo = jobs({}, {"optim": {"lr": 1e30}})
    runs = {name: resolve(settings) for name, settings in todo.items()}
    outcomes = Runner(engine="ray").run(runs, tmp_path, lambda _: None)
    assert sorted(outcome.state for outcome in outcomes) == ["done", "failed"]
    assert not ray.is_initialized()
