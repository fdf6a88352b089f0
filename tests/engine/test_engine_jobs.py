"""Many runs: done once, finished in spite of failures, unharmed by kills, on processes and Ray."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest
from safetensors.torch import load_file

from edgemask.engine import merge, resolve
from edgemask.engine.job import JobResult, RunJob, import_modules, job_record, job_state, run_job
from edgemask.engine.jobs import JobRunner, JobsStopped
from edgemask.engine.rundir import RunDir
from edgemask.errors import UserError
from sweeps import sweep

TINY = {
    "data": {"spec": "digits", "limit": 96, "test_limit": 50},
    "noise": {"spec": "sym:0.4"},
    "model": {"name": "small-cnn", "width": 0.25},
    "head": {"name": "sem"},
    "train": {"epochs": 1, "batch_size": 48},
    "log": {"trackers": []},
}
GATED = {"loss": {"name": "gated-ce"}, "train": {"epochs": 6}, "log": {"checkpoint_steps": 1}}
PATIENCE = 600  # seconds before a test that waits for an event gives up


def job(folder, *layers):
    return RunJob(merge(TINY, *layers), Path(folder))


def wait_until(condition):
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def same_weights(first, second):
    a, b = (load_file(path / "model.safetensors") for path in (first, second))
    return a.keys() == b.keys() and all(a[name].equal(b[name]) for name in a)


@pytest.fixture
def gate(tmp_path, monkeypatch):
    """The folder of a gate at which runs with the loss ``gated-ce`` wait in worker processes."""
    folder = tmp_path / "gate"
    folder.mkdir()
    monkeypatch.setenv("EDGEMASK_TEST_GATE", str(folder))
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    return folder


def arrived(gate):
    return sorted(int(path.name.partition("-")[2]) for path in gate.glob("arrived-*"))


def undisturbed(gate, folder, *layers):
    """Do the same run in one go, in a process of its own."""
    (gate / "open").touch()
    (result,) = JobRunner(imports=("jobs_gate",)).run([job(folder, *layers)])
    assert result.state == "done"
    return folder


def test_a_run_is_never_done_twice(tmp_path):
    jobs = [job(tmp_path / "a"), job(tmp_path / "a")]
    seen = []
    runner = JobRunner(workers=0)
    assert runner.run(jobs, seen.append) == [JobResult(tmp_path / "a", "done")] * 2
    before = (tmp_path / "a" / "summary.json").stat().st_mtime_ns
    assert runner.run(jobs, seen.append) == [JobResult(tmp_path / "a", "done")] * 2
    assert (tmp_path / "a" / "summary.json").stat().st_mtime_ns == before
    assert len(seen) == 1
    record = job_record(tmp_path / "a")
    assert (record["state"], record["pid"]) == ("done", os.getpid())
    assert record["cpu_seconds_per_epoch"] > 0
    head = subprocess.run(
        ["git", "rev-parse", "--short=12", "HEAD"],
        cwd=Path(__file__).parent, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (record["commit"] or "").rstrip("+") == head.stdout.strip()


def test_another_run_in_the_folder_is_a_failure_and_stays(tmp_path):
    runner = JobRunner(workers=0)
    runner.run([job(tmp_path / "a")])
    record = job_record(tmp_path / "a")
    (result,) = runner.run([job(tmp_path / "a", {"train": {"seed": 1}})])
    assert result.state == "failed"
    assert "holds another run" in result.error
    assert job_state(tmp_path / "a") == ("done", "")
    assert job_record(tmp_path / "a") == record


def test_files_of_somebody_else_are_left_alone(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "letter.txt").write_text("dear")
    (result,) = JobRunner(workers=0).run([job(tmp_path / "a")])
    assert "holds no run" in result.error
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["letter.txt"]


def test_a_failure_is_reported_and_the_rest_goes_on(tmp_path):
    bad, good = job(tmp_path / "bad", {"optim": {"lr": 1e30}}), job(tmp_path / "good")
    wrong = job(tmp_path / "wrong", {"head": {"name": "nothing"}})
    results = JobRunner(workers=0).run([bad, wrong, good])
    assert [(r.name, r.state) for r in results] == [
        ("bad", "failed"),
        ("wrong", "failed"),
        ("good", "done"),
    ]
    assert "finite" in results[0].error or "became" in results[0].error
    assert "head.name" in results[1].error
    assert job_state(bad.folder) == ("failed", results[0].error)
    assert "Traceback" in job_record(bad.folder)["traceback"]
    assert not wrong.folder.exists()


def test_a_run_of_another_process_is_left_alone(tmp_path):
    folder = RunDir(tmp_path / "a")
    with folder.lock():
        assert job_state(folder.path)[0] == "running"
        assert run_job(job(folder.path), patience=0.1).state == "busy"
    assert run_job(job(folder.path)).state == "done"


def test_a_config_serves_as_well_as_settings(tmp_path):
    config = resolve(TINY)
    (result,) = JobRunner(workers=0).run([RunJob(config, tmp_path / "a")])
    assert result.state == "done"
    assert JobRunner(workers=0).run([job(tmp_path / "a")], pytest.fail) == [result]


@sweep("options", [{"engine": "slurm"}, {"workers": -1}, {"threads": 0}, {"attempts": 0}])
def test_runners_that_make_no_sense(options):
    with pytest.raises(UserError, match=next(iter(options))):
        JobRunner(**options)


def test_modules_that_cannot_be_imported_are_named(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "broken_module.py").write_text("1 / 0\n")
    with pytest.raises(UserError, match="'broken_module': ZeroDivisionError"):
        import_modules(["broken_module"])
    result = run_job(job(tmp_path / "a"), imports=["no_such_module"])
    assert (result.state, "no_such_module" in result.error) == ("failed", True)


@pytest.mark.slow
def test_workers_are_reused_and_have_one_thread(tmp_path):
    jobs = [job(tmp_path / str(seed), {"train": {"seed": seed}}) for seed in range(4)]
    ticks = []
    results = JobRunner(workers=2).run(jobs, tick=lambda: ticks.append(1))
    assert [result.state for result in results] == ["done"] * 4
    pids = {job_record(tmp_path / str(seed))["pid"] for seed in range(4)}
    assert os.getpid() not in pids
    assert len(pids) <= 2
    assert ticks
    assert not any(alive(pid) for pid in pids)


@pytest.mark.slow
@pytest.mark.long
def test_a_killed_worker_loses_nothing(gate, tmp_path):
    held, other = job(tmp_path / "held", GATED), job(tmp_path / "other", {"train": {"seed": 1}})
    killed = []

    def kill():
        wait_until(lambda: arrived(gate))
        killed.extend(arrived(gate))
        assert job_record(held.folder)["pid"] == killed[0]
        os.kill(killed[0], signal.SIGKILL)
        wait_until(lambda: len(arrived(gate)) == 2)  # a new worker took over and came as far
        (gate / "open").touch()

    killer = threading.Thread(target=kill)
    killer.start()
    results = JobRunner(workers=2, imports=("jobs_gate",)).run([held, other])
    killer.join()
    assert [result.state for result in results] == ["done", "done"]
    assert job_record(held.folder)["pid"] not in killed
    assert len(RunDir(held.folder).history()) == 6
    assert same_weights(held.folder, undisturbed(gate, tmp_path / "alone", GATED))


@pytest.mark.slow
def test_a_worker_that_always_dies_is_given_up(tmp_path, monkeypatch):
    # torch cannot be imported: the process dies before it can record anything
    bad = tmp_path / "bad"
    (bad / "torch").mkdir(parents=True)
    (bad / "torch" / "__init__.py").write_text("import os\nos._exit(7)\n")
    monkeypatch.syspath_prepend(str(bad))
    (result,) = JobRunner(attempts=2).run([job(tmp_path / "a")])
    assert result.state == "failed"
    assert "died 2 times, last by exit code 7" in result.error
    assert job_state(tmp_path / "a") == ("failed", result.error)


@pytest.mark.slow
def test_stopping_ends_the_workers_and_the_same_call_continues(tmp_path):
    quick = job(tmp_path / "quick")
    endless = {"train": {"epochs": 100_000}, "log": {"checkpoint_steps": 1}}
    long = job(tmp_path / "long", endless)

    def stop(result):
        assert result.name == "quick"
        raise KeyboardInterrupt

    with pytest.raises(JobsStopped, match="continues"):
        JobRunner(workers=2).run([quick, long], stop)
    assert job_state(quick.folder)[0] == "done"
    assert job_state(long.folder)[0] in ("partly", "to do")
    pid = job_record(long.folder).get("pid")
    assert pid is None or not alive(pid)


SCRIPT = """
import json, sys
from pathlib import Path
from edgemask.engine.job import RunJob
from edgemask.engine.jobs import JobRunner
settings, folder = json.loads(sys.argv[1])
(result,) = JobRunner().run([RunJob(settings, Path(folder))])
print(result.state)
"""


@pytest.mark.slow
def test_a_script_needs_no_main_guard(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    argument = json.dumps([TINY, str(tmp_path / "a")])
    done = subprocess.run(
        [sys.executable, str(tmp_path / "script.py"), argument],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.stdout, done.returncode) == ("done\n", 0), done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_sweep_that_is_ended_leaves_nobody_behind(number, tmp_path):
    words = ["--grid", "rho=0.5", "--jobs", "1", "--out", str(tmp_path)]
    for setting in ("head.name=sem", "train.epochs=100000", "data.limit=96", "model.width=0.25"):
        words += ["--set", setting]
    sweep = subprocess.Popen(
        [sys.executable, "-m", "edgemask", "sweep", *words], stderr=subprocess.PIPE, text=True
    )
    wait_until(lambda: list(tmp_path.glob("*/metrics.jsonl")))
    sweep.send_signal(number)
    _, message = sweep.communicate(timeout=PATIENCE)
    (path,) = tmp_path.glob("*/metrics.jsonl")
    if number == signal.SIGTERM:
        assert sweep.returncode == 130
        assert "the same command continues it" in message
    else:  # the worker notices by itself
        wait_until(lambda: not alive(job_record(path.parent)["pid"]))
    assert job_state(path.parent)[0] == "partly"
    assert not alive(job_record(path.parent)["pid"])


@pytest.fixture
def cluster(gate):
    """A Ray cluster with two machines of one CPU each."""
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    machines = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    nodes = [machines.add_node(num_cpus=1) for _ in range(2)]
    machines.wait_for_nodes()
    variables = JobRunner().environment() | {"EDGEMASK_TEST_GATE": str(gate)}
    ray.init(address=machines.address, runtime_env={"env_vars": variables}, log_to_driver=False)
    yield machines, nodes
    ray.shutdown()
    machines.shutdown()


@pytest.mark.long
def test_a_lost_machine_loses_nothing(cluster, gate, tmp_path):
    machines, nodes = cluster
    layers = [merge(GATED, {"train": {"seed": seed}}) for seed in (0, 1)]
    jobs = [job(tmp_path / "ray" / str(seed), layers[seed]) for seed in (0, 1)]
    lost = []

    def lose_one():
        wait_until(lambda: len(arrived(gate)) == 2)  # both runs are at work, one per machine
        machines.remove_node(nodes[0], allow_graceful=False)
        wait_until(lambda: not all(alive(pid) for pid in arrived(gate)))
        lost.extend(pid for pid in arrived(gate) if not alive(pid))
        (gate / "open").touch()

    loser = threading.Thread(target=lose_one)
    loser.start()
    results = JobRunner(engine="ray", imports=("jobs_gate",)).run(jobs)
    loser.join()
    assert [(result.state, result.error) for result in results] == [("done", "")] * 2
    assert len(lost) == 1
    for seed in (0, 1):
        alone = undisturbed(gate, tmp_path / "alone" / str(seed), layers[seed])
        assert same_weights(tmp_path / "ray" / str(seed), alone)


@pytest.mark.slow
def test_the_runner_starts_a_cluster_of_its_own(tmp_path, monkeypatch):
    ray = pytest.importorskip("ray")
    # Ray's note of a cluster that somebody else started on this machine: it is not joined.
    folder = Path(tempfile.mkdtemp(dir="/tmp"))  # its sockets need a short path
    (folder / "ray").mkdir()
    (folder / "ray" / "ray_current_cluster").write_text("127.0.0.1:1")
    monkeypatch.setenv("RAY_TMPDIR", str(folder))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    jobs = [job(tmp_path / "good"), job(tmp_path / "bad", {"optim": {"lr": 1e30}})]
    results = JobRunner(engine="ray").run(jobs)
    assert [result.state for result in results] == ["done", "failed"]
    assert not ray.is_initialized()
    shutil.rmtree(folder)
