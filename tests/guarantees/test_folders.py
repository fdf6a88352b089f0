"""A run folder has one owner, and no failure of the disk loses what was saved."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from pathlib import Path

import pytest

import edgemask._files as files_module
from edgemask.engine import Observer, export, load_run, resolve, train
from guarantees import forked
from guarantees.cases import cases

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

SETTINGS = {
    "data": {"spec": "digits", "limit": 100, "test_limit": 50},
    "noise": {"spec": "sym:0.4"},
    "model": {"name": "mlp"},
    "head": {"name": "sem"},
    "train": {"epochs": 2, "batch_size": 25},
    "log": {"trackers": [], "checkpoint_steps": 2, "thumbnails": 4},
}


class Started(Observer):
    """Remembers whether the run trained."""

    def __init__(self) -> None:
        self.started = False

    def on_start(self, info: object) -> None:
        self.started = True


def run(path: Path, *observers: Observer) -> bool:
    """Train; return whether anything was left to do."""
    watch = Started()
    train(resolve(SETTINGS), out=path, observers=[watch, *observers])
    return watch.started


def weights(path: Path) -> bytes:
    return (path / "model.safetensors").read_bytes()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("undisturbed") / "run"
    run(path)
    return path


def test_of_three_starts_at_once_one_trains(undisturbed, tmp_path):
    for number in range(cases(5, 100)):
        folder = tmp_path / str(number)
        folder.mkdir()
        gate = folder / "gate"
        answers = [folder / f"{process}.json" for process in range(3)]
        pids = [
            forked.start(lambda folder=folder: run(folder / "run"), answer, gate)
            for answer in answers
        ]
        gate.touch()
        ends = [forked.wait(pid, answer) for pid, answer in zip(pids, answers, strict=True)]
        assert ends.count(["done", True]) == 1, ends
        for end in ends:
            # Who comes after the end finds the run finished.
            if end not in (["done", True], ["done", False]):
                assert end[0] == "RunBusyError", end
                assert "another process is working on" in end[1]
        assert weights(folder / "run") == weights(undisturbed)
        assert not list(folder.glob("run/**/*.tmp"))


class Meanwhile(Observer):
    """Does something after so many steps."""

    def __init__(self, step: int, work):
        self.left, self.work = step, work

    def on_step(self, **_: object) -> None:
        self.left -= 1
        if self.left == 0:
            self.work()


@pytest.mark.parametrize("trackers", [[], ["tensorboard"]])
def test_a_folder_that_vanishes_ends_the_run_in_one_line(trackers, undisturbed, tmp_path):
    path, away = tmp_path / "run", tmp_path / "away"
    settings = resolve({**SETTINGS, "log": {**SETTINGS["log"], "trackers": trackers}})
    for step, work, left in (
        (3, lambda: shutil.rmtree(path), False),
        (7, lambda: path.rename(away), True),
    ):
        work_at = Meanwhile(step, work)
        end = forked.run(
            lambda observer=work_at: train(settings, out=path, observers=[observer]),
            tmp_path / "end.json",
        )
        assert end[0] == "UserError", end
        assert end[1].startswith(f"the run folder {path} was removed or replaced")
        assert "\n" not in end[1]
        assert not path.exists()  # and is not made anew, without what it held
        if left:
            away.rename(path)
        assert forked.run(lambda: run(path), tmp_path / "end.json") == ["done", True]
        assert weights(path) == weights(undisturbed)
        shutil.rmtree(path)


def full_at(call: int) -> None:
    """Make one write to the disk fail, and all after it."""
    count, real = [0], os.fsync

    def fsync(handle: int) -> None:
        count[0] += 1
        if count[0] >= call:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(handle)

    files_module.os.fsync = fsync


def test_a_disk_that_is_full_at_any_write(undisturbed, tmp_path):
    """The run ends in one line, and the same command takes it up from what was saved."""
    call, ended = 1 - cases(4, 1), ["UserError"]
    while ended[0] == "UserError":
        call += cases(4, 1)

        def work(call=call):
            full_at(call)
            return run(tmp_path / str(call))

        ended = forked.run(work, tmp_path / "end.json")
        if ended[0] == "done":
            break
        assert ended[0] == "UserError", ended
        assert "No space left on device" in ended[1]
        assert "\n" not in ended[1]
        assert not list((tmp_path / str(call)).glob("**/*.tmp"))
        assert forked.run(lambda call=call: run(tmp_path / str(call)), tmp_path / "e.json") == [
            "done",
            True,
        ]
        assert weights(tmp_path / str(call)) == weights(undisturbed)
    assert call > 12  # config, labels, checkpoints, metrics, arrays, weights and summary


@pytest.fixture
def small_disk(tmp_path):
    """A function that mounts a file system of some bytes, or makes that one larger."""
    place = tmp_path / "disk"
    place.mkdir()

    def mount(size: int, *, again: bool = False) -> Path:
        options = f"{'remount,' if again else ''}size={size}"
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            pytest.skip(f"cannot mount a small file system: {done.stderr.strip()}")
        return place

    yield mount
    subprocess.run(["umount", str(place)], capture_output=True, check=False)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs root to mount")
@pytest.mark.parametrize("trackers", [[], ["tensorboard"]])
def test_a_disk_that_is_really_full(trackers, undisturbed, small_disk, tmp_path):
    need = sum(file.stat().st_size for file in undisturbed.rglob("*") if file.is_file())
    settings = resolve({**SETTINGS, "log": {**SETTINGS["log"], "trackers": trackers}})
    for part in range(1, cases(4, 40)):
        disk = small_disk(max(4096, need * part // cases(4, 40)))

        def work(path=disk / "run"):
            train(settings, out=path)

        end = forked.run(
            lambda disk=disk: train(settings, out=disk / "run") and None, tmp_path / "e"
        )
        assert end[0] == "UserError", end
        assert "No space left on device" in end[1]
        small_disk(1 << 26, again=True)
        end = forked.run(
            lambda disk=disk: train(settings, out=disk / "run") and None, tmp_path / "e"
        )
        assert end == ["done", None]
        assert weights(disk / "run") == weights(undisturbed)
        subprocess.run(["umount", str(disk)], capture_output=True, check=True)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs root to mount")
def test_an_export_to_a_full_disk_leaves_nothing(undisturbed, small_disk, tmp_path):
    disk = small_disk(8192)
    for kind in ("safetensors", "torch"):
        end = forked.run(
            lambda kind=kind: str(export(load_run(undisturbed), disk / "model", format=kind)),
            tmp_path / "end.json",
        )
        assert end[0] == "UserError", end
        assert "No space left on device" in end[1]
        assert not list(disk.iterdir())
