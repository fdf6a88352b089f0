"""Runs in processes: done once, finished in spite of failures, unharmed by kills."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from edgemask.engine.rundir import RunDir
from edgemask.errors import UserError
from edgemask.reproduce import Outcome, Runner, run_one
from edgemask.reproduce.ledger import Ledger, commit
from edgemask.reproduce.pool import Stopped, run_here, run_local

LONG = {"train": {"epochs": 40}, "log": {"checkpoint_steps": 1}}


def _kill_once(root, name, number, *, after):
    """Send a signal to the process of a run as soon as it has done some epochs.

    Returns:
        The thread that does it, and the numbers of epochs that were done then: one, or none if it
        came too late.
    """
    folder = RunDir(root / name)
    done = []

    def wait():
        end = time.monotonic() + 120
        while time.monotonic() < end and len(folder.history()) < after:
            time.sleep(0.01)
        os.kill(Ledger(root).read(name)["pid"], number)
        if not folder.finished:
            done.append(len(folder.history()))

    thread = threading.Thread(target=wait)
    thread.start()
    return thread, done


def test_a_run_is_never_done_twice(jobs, tmp_path):
    todo = jobs({})
    (name,) = todo
    heard: list[Outcome] = []
    run_here(todo, tmp_path, heard.append)
    before = (tmp_path / name / "summary.json").stat().st_mtime_ns
    run_here(todo, tmp_path, heard.append)
    assert heard == [Outcome(name, "done")] * 2
    assert (tmp_path / name / "summary.json").stat().st_mtime_ns == before
    facts = Ledger(tmp_path).read(name)
    assert facts["state"] == "done"
    assert facts["commit"] == commit()


def test_a_failure_is_reported_and_the_rest_goes_on(jobs, tmp_path):
    todo = jobs({"optim": {"lr": 1e30}}, {"train": {"seed": 1}})
    bad, good = todo
    heard: list[Outcome] = []
    run_here(todo, tmp_path, heard.append)
    assert [(o.name, o.state) for o in heard] == [(bad, "failed"), (good, "done")]
    assert "finite" in heard[0].error or "became" in heard[0].error
    state, reason = Ledger(tmp_path).state(bad)
    assert state == "failed"
    assert reason == heard[0].error


def test_a_run_of_another_process_is_left_alone(jobs, tmp_path):
    (name, settings), *_ = jobs({}).items()
    folder = RunDir(tmp_path / name)
    folder.prepare()
    with folder.lock():
        assert Ledger(tmp_path).state(name)[0] == "running"
        assert run_one(settings, tmp_path, patience=0.1).state == "elsewhere"
    assert run_one(settings, tmp_path).state == "done"


@pytest.mark.slow
def test_a_killed_worker_loses_nothing(jobs, tmp_path, same_weights):
    todo = jobs(LONG, {"train": {"seed": 1}})
    first, second = todo
    heard: list[Outcome] = []
    killer, at = _kill_once(tmp_path / "pool", first, signal.SIGKILL, after=3)
    run_local(todo, tmp_path / "pool", heard.append, workers=2)
    killer.join()
    assert 3 <= at[0] < 40
    assert {o.name: o.state for o in heard} == {first: "done", second: "done"}
    run_one(todo[first], tmp_path / "alone")
    assert same_weights(tmp_path / "pool" / first, tmp_path / "alone" / first)
    assert len(RunDir(tmp_path / "pool" / first).history()) == 40


@pytest.mark.slow
def test_a_worker_that_always_dies_is_given_up(jobs, tmp_path, monkeypatch):
    todo = jobs({})
    (name,) = todo
    heard: list[Outcome] = []
    # torch cannot be imported: the process dies before it can note anything
    bad = tmp_path / "bad"
    (bad / "torch").mkdir(parents=True)
    (bad / "torch" / "__init__.py").write_text("import os\nos._exit(7)\n")
    monkeypatch.syspath_prepend(str(bad))
    run_local(todo, tmp_path, heard.append, attempts=2)
    assert heard[0].state == "failed"
    assert "died 2 times, last by exit code 7" in heard[0].error
    assert Ledger(tmp_path).state(name)[0] == "failed"


@pytest.mark.slow
def test_stopping_ends_the_workers_and_the_same_call_goes_on(jobs, tmp_path):
    todo = jobs({"train": {"seed": 3}}, LONG | {"train": {"epochs": 400}})
    quick, long = todo

    def stop(outcome):
        assert outcome.name == quick
        raise KeyboardInterrupt

    with pytest.raises(Stopped, match="goes on"):
        run_local(todo, tmp_path, stop, workers=2)
    assert Ledger(tmp_path).state(quick)[0] == "done"
    assert Ledger(tmp_path).state(long)[0] in ("partly", "to do")


@pytest.mark.parametrize("options", [{"engine": "slurm"}, {"jobs": -1}, {"threads": 0}])
def test_runners_that_make_no_sense(options):
    with pytest.raises(UserError):
        Runner(**options)


@pytest.mark.slow
def test_a_sweep_that_is_terminated_leaves_nobody_behind(tmp_path):
    words = ["--grid", "rho=0.5", "--jobs", "1", "--out", str(tmp_path)]
    for setting in ("head.name=sem", "train.epochs=4000", "data.limit=96", "model.width=0.25"):
        words += ["--set", setting]
    sweep = subprocess.Popen(
        [sys.executable, "-m", "edgemask", "sweep", *words], stderr=subprocess.PIPE, text=True
    )
    end = time.monotonic() + 120
    while time.monotonic() < end and not list(tmp_path.glob("*/metrics.jsonl")):
        time.sleep(0.05)
    sweep.send_signal(signal.SIGTERM)
    _, said = sweep.communicate(timeout=60)
    assert sweep.returncode == 130
    assert "goes on where it was" in said
    (path,) = tmp_path.glob("*/metrics.jsonl")
    name = path.parent.name
    state, _ = Ledger(tmp_path).state(name)
    assert state == "partly"
    with pytest.raises(ProcessLookupError):
        os.kill(Ledger(tmp_path).read(name)["pid"], 0)
