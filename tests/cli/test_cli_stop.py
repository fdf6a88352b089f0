"""Stopped runs go on: by the same line or by ``resume``, to the same bits."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time

import pytest

LINE = (
    "train", "--data", "digits", "--noise", "sym:0.4", "--head", "sem(rho=0.4)", "--epochs", "6",
    "--batch-size", "32", "--seed", "3", "--track", "none", "--quiet",
)  # fmt: skip


def start(*arguments):
    command = [sys.executable, "-m", "edgemask", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def epochs(folder):
    path = folder / "metrics.jsonl"
    return len(path.read_text().splitlines()) if path.is_file() else 0


def stop_after(folder, process, count, number):
    """Send a signal once some epochs are done; return what the process said and its code."""
    until = time.monotonic() + 600
    while epochs(folder) < count:
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < until
        time.sleep(0.01)
    os.kill(process.pid, number)
    out, err = process.communicate(timeout=600)
    return out, err, process.returncode


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole") / "run"
    process = start(*LINE, "--out", folder)
    out, err = process.communicate(timeout=600)
    assert process.returncode == 0, err
    assert len(out.splitlines()) == 1
    return folder


def same(one, other):
    """Whether two runs came to the same end: weights to the bit, metrics but for the time."""
    weights = [(folder / "model.safetensors").read_bytes() for folder in (one, other)]
    rows = []
    for folder in (one, other):
        lines = [json.loads(line) for line in (folder / "metrics.jsonl").open()]
        rows.append([{k: v for k, v in row.items() if k != "seconds"} for row in lines])
    return weights[0] == weights[1] and rows[0] == rows[1]


@pytest.mark.slow
def test_the_command_is_kept_as_typed(undisturbed):
    command = json.loads((undisturbed / "summary.json").read_text())["command"]
    assert shlex.split(command) == ["edgemask", *LINE, "--out", str(undisturbed)]


@pytest.mark.slow
def test_killed_and_started_again_by_the_same_line(undisturbed, tmp_path):
    folder = tmp_path / "run"
    _, _, code = stop_after(folder, start(*LINE, "--out", folder), 2, signal.SIGKILL)
    assert code == -signal.SIGKILL
    assert not (folder / "summary.json").exists()
    process = start(*LINE, "--out", folder)
    out, err = process.communicate(timeout=600)
    assert process.returncode == 0, err
    assert len(out.splitlines()) == 1
    assert same(undisturbed, folder)


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_asked_to_stop_it_says_how_to_go_on(tmp_path, number, code):
    folder = tmp_path / "run"
    out, err, returned = stop_after(folder, start(*LINE, "--out", folder), 1, number)
    assert returned == code
    assert out == ""
    assert f"edgemask resume {folder}" in err
    assert "Traceback" not in err
    assert any((folder / "checkpoints").iterdir())


@pytest.mark.slow
def test_resume_comes_to_the_same_end(undisturbed, tmp_path):
    folder = tmp_path / "run"
    stop_after(folder, start(*LINE, "--out", folder), 1, signal.SIGINT)
    # A process of its own: this one may have another number of threads, and so other roundings.
    process = start("resume", folder, "--quiet")
    assert process.wait(timeout=600) == 0
    assert same(undisturbed, folder)


@pytest.mark.long
def test_two_processes_train_one_run(tmp_path):
    folder = tmp_path / "run"
    arguments = [*LINE[:-1], "--out", str(folder)]
    command = [
        sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
        "-m", "edgemask", *arguments,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    assert " x 2 processes" in done.stdout
    assert done.stdout.count("epoch 6/6") == 1
    assert done.stdout.count("open the report") == 1
    assert epochs(folder) == 6
    accuracy = json.loads((folder / "summary.json").read_text())["test/accuracy"]["last"]
    assert accuracy > 0.5
