"""Killed for real at many points, a resumed run ends as if nothing had happened, bit for bit."""

from __future__ import annotations

import io
import json
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import edgemask.audit.label_audit as label_audit_module
import edgemask.engine.audit_networks as audit_module
import edgemask.engine.checkpoint as checkpoint_module
import edgemask.engine.evaluation as evaluation_module
import edgemask.engine.outputs as outputs_module
from edgemask.engine import Config, Interrupted, Observer, Run, audit_labels, resume, train
from edgemask.engine.rundir import RunDir

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

STEPS = 7  # an epoch of 200 samples in batches of 32, the last two joined


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def in_child(work: Callable[[], object]) -> int:
    """Run a function in a process of its own; return minus the signal that ended it, or 0."""
    pid = os.fork()
    if pid == 0:
        code = 99
        try:
            work()
            code = 0
        except Interrupted:
            code = 50
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


class DieAt(Observer):
    """Kills the process after so many steps."""

    def __init__(self, steps: int):
        self.left = steps

    def on_step(self, **_: object) -> None:
        self.left -= 1
        if self.left == 0:
            die()


def deadly(function: Callable, call: int, *, before: bool = True) -> Callable:
    """Wrap a function so that one of its calls kills the process."""
    count = [0]

    def wrapped(*args, **kwargs):
        count[0] += 1
        if count[0] == call and before:
            die()
        result = function(*args, **kwargs)
        if count[0] == call:
            die()
        return result

    return wrapped


def half_written(call: int) -> Callable:
    """An ``atomic_write`` that dies in the middle of a file."""
    count = [0]
    real = checkpoint_module.atomic_write

    def atomic_write(path, write):
        count[0] += 1
        if count[0] < call:
            return real(path, write)

        def write_half(file):
            whole = io.BytesIO()
            write(whole)
            file.write(whole.getvalue()[: len(whole.getvalue()) // 2])
            file.flush()
            die()

        return real(path, write_half)

    return atomic_write


def contents(path: Path) -> dict:
    """Everything that must not depend on interruptions."""
    metrics = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    summary = json.loads((path / "summary.json").read_text())
    for row in (*metrics, summary):
        row.pop("seconds")
    summary.pop("command")
    arrays = {}
    for name in ("samples", "head", "thumbnails", "noise"):
        with np.load(path / f"{name}.npz") as archive:
            arrays[name] = {key: archive[key].tobytes() for key in archive}
    return {
        "metrics": metrics,
        "summary": summary,
        "weights": (path / "model.safetensors").read_bytes(),
        "config": (path / "config.yaml").read_text(),
        "arrays": arrays,
    }


# Mix-up draws from the method's generator; SOP has parameters and Adam moments of its own; a choice
# of epochs has weights that the networks no longer have.
KINDS = {
    "mixup": {"method": {"options": {"mixup": 1.0}}, "optim": {"schedule": {"warmup": 1.0}}},
    "sop": {"loss": {"name": "sop"}, "optim": {"name": "adam", "lr": 1e-3}},
    "elr": {
        "loss": {"name": "elr", "options": {"align": 5.0, "full_at": 0.1}},
        "method": {"options": {"sam": 0.05}},
    },
    "selected": {
        "method": {"name": "coteaching"},
        "data": {"validation": 0.1},
        "train": {"epochs": 3, "select": "validation", "rollback": True},
    },
}


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    """The undisturbed run of each kind, made when it is first asked for."""
    done: dict[str, dict] = {}
    warm = tmp_path_factory.mktemp("warm") / "run"  # children inherit what is imported here

    def get(kind: str, config: Config) -> dict:
        if kind not in done:
            if not done:
                train(config, out=warm)
            path = tmp_path_factory.mktemp(kind) / "run"
            assert in_child(lambda: train(config, out=path)) == 0
            done[kind] = contents(path)
        return done[kind]

    return get


@pytest.fixture
def config(tiny):
    return lambda kind="mixup": tiny(KINDS[kind], {"log": {"checkpoint_steps": 3}})


POINTS = {
    "in the first step": lambda patch: DieAt(1),
    "between checkpoints": lambda patch: DieAt(5),
    "in the second epoch": lambda patch: DieAt(STEPS + 2),
    "in the last step": lambda patch: DieAt(2 * STEPS),
    "writing the first checkpoint": lambda patch: patch(
        checkpoint_module, "atomic_write", half_written(1)
    ),
    "writing a later checkpoint": lambda patch: patch(
        checkpoint_module, "atomic_write", half_written(3)
    ),
    "before a checkpoint is moved": lambda patch: patch(Path, "replace", deadly(Path.replace, 6)),
    "after a checkpoint is moved": lambda patch: patch(
        Path, "replace", deadly(Path.replace, 6, before=False)
    ),
    "before the config is written": lambda patch: patch(
        RunDir, "write_config", deadly(RunDir.write_config, 1)
    ),
    "after the config is written": lambda patch: patch(
        RunDir, "write_config", deadly(RunDir.write_config, 1, before=False)
    ),
    "while testing": lambda patch: patch(
        evaluation_module.Evaluator, "__call__", deadly(evaluation_module.Evaluator.__call__, 3)
    ),
    "between checkpoint and metrics": lambda patch: patch(
        RunDir, "write_history", deadly(RunDir.write_history, 2)
    ),
    "before the summary": lambda patch: patch(
        outputs_module, "write_json", deadly(outputs_module.write_json, 1)
    ),
}


@pytest.mark.parametrize("point", POINTS)
def test_killed_once(point, config, reference, tmp_path, monkeypatch):
    wanted = reference("mixup", config())
    path = tmp_path / "run"

    def doomed():
        observer = POINTS[point](monkeypatch.setattr)
        train(config(), out=path, observers=[observer] if observer else [])

    assert in_child(doomed) == -signal.SIGKILL
    assert in_child(lambda: train(config(), out=path)) == 0
    assert contents(path) == wanted
    assert not list(path.glob("**/*.tmp"))


@pytest.mark.parametrize("kind", KINDS)
def test_killed_again_and_again(kind, config, reference, tmp_path):
    wanted = reference(kind, config(kind))
    path = tmp_path / "run"
    deaths = 0
    while in_child(lambda: train(config(kind), out=path, observers=[DieAt(5)])) != 0:
        deaths += 1
        assert deaths < 10
    assert deaths >= 3
    assert contents(path) == wanted


def test_killed_after_the_chosen_weights_were_put_in_place(
    config, reference, tmp_path, monkeypatch
):
    wanted = reference("selected", config("selected"))
    path = tmp_path / "run"

    def doomed():
        POINTS["before the summary"](monkeypatch.setattr)
        train(config("selected"), out=path)

    assert in_child(doomed) == -signal.SIGKILL
    assert in_child(lambda: train(config("selected"), out=path)) == 0
    assert contents(path) == wanted


def test_sigterm_saves_says_how_to_go_on_and_loses_nothing(config, reference, tmp_path):
    wanted = reference("mixup", config())
    path = tmp_path / "run"

    class Ask(Observer):
        def on_step(self, *, epoch, step, **_):
            if (epoch, step) == (1, 2):
                os.kill(os.getpid(), signal.SIGTERM)

    said = tmp_path / "said"

    def work():
        try:
            train(config(), out=path, observers=[Ask()])
        except Interrupted as stop:
            said.write_text(str(stop))
            raise

    assert in_child(work) == 50
    assert (
        said.read_text() == f"stopped by SIGTERM and saved; continue with: edgemask resume {path}"
    )
    last = checkpoint_module.Checkpoints(path / "checkpoints").load()
    assert last["progress"]["total_steps"] == STEPS + 2
    assert not Run(path).finished
    assert in_child(lambda: resume(path)) == 0
    assert contents(path) == wanted


def test_ctrl_c_at_the_end_of_an_epoch(config, reference, tmp_path):
    wanted = reference("mixup", config())
    path = tmp_path / "run"

    class Ask(Observer):
        def on_epoch(self, metrics):
            os.kill(os.getpid(), signal.SIGINT)

    assert in_child(lambda: train(config(), out=path, observers=[Ask()])) == 50
    assert len(Run(path).history) == 1
    assert in_child(lambda: resume(path)) == 0
    assert contents(path) == wanted


def test_signals_are_left_alone_outside_the_main_thread(tiny, tmp_path):
    errors = []
    handlers = {name: signal.getsignal(name) for name in (signal.SIGINT, signal.SIGTERM)}

    def work():
        try:
            train(tiny({"train": {"epochs": 1}}), out=tmp_path / "run")
        except BaseException as error:  # noqa: BLE001
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert not errors
    assert {name: signal.getsignal(name) for name in handlers} == handlers


def test_a_run_that_was_killed_is_taken_up_where_it_was(config, tmp_path):
    path = tmp_path / "run"
    in_child(lambda: train(config(), out=path, observers=[DieAt(STEPS + 5)]))
    seen = []

    class Watch(Observer):
        def on_step(self, *, epoch, step, **_):
            seen.append((epoch, step))

    train(config(), out=path, observers=[Watch()])
    # Checkpoints lie at every third step: the last one before step 12 is step 12 itself.
    assert seen[0] == (1, 3)
    assert len(seen) == 2 * STEPS - 9


def dying_in_the_second_fold(patch: Callable) -> None:
    count = [0]

    def doomed_train(config, **options):
        count[0] += 1
        return train(config, **options | ({"observers": [DieAt(4)]} if count[0] == 2 else {}))

    patch(audit_module, "train", doomed_train)


AUDIT_POINTS = {
    "in the first fold": lambda patch: patch(
        audit_module, "train", lambda config, **kw: train(config, **kw | {"observers": [DieAt(4)]})
    ),
    "in the second fold": dying_in_the_second_fold,
    "while the folds predict": lambda patch: patch(
        audit_module, "_predict", deadly(audit_module._predict, 2)
    ),
    "before the probabilities": lambda patch: patch(
        audit_module, "write_arrays", deadly(audit_module.write_arrays, 1)
    ),
    "between the files of the result": lambda patch: patch(
        label_audit_module, "write_json", deadly(label_audit_module.write_json, 1)
    ),
}


def test_an_audit_killed_at_point_after_point(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    given = rng.integers(0, 3, 90)
    samples = (3 * np.eye(3, 4)[given] + rng.normal(0, 1, (90, 4))).astype(np.float32)

    def audit(folder):
        return audit_labels(samples, given, folds=2, epochs=2, batch_size=16, out=folder)

    audit(tmp_path / "straight")
    path = tmp_path / "killed"
    done: dict[Path, int] = {}
    for point, prepare in AUDIT_POINTS.items():

        def doomed(prepare=prepare):
            prepare(monkeypatch.setattr)
            audit(path)

        assert in_child(doomed) == -signal.SIGKILL, point
        # A fold that was done is not done again.
        summaries = sorted(path.glob("runs/*/summary.json"))
        now = {file: file.stat().st_mtime_ns for file in summaries}
        assert done.items() <= now.items(), point
        done = now
    assert len(done) == 2
    audit(path)
    for name in ("suspects.csv", "audit.json", "samples.npz", "probabilities.npz", "folds.npy"):
        assert (path / name).read_bytes() == (tmp_path / "straight" / name).read_bytes(), name
    assert not list(path.glob("**/*.tmp"))
