"""Several processes: two equal one, and one that is killed ends the others with one line."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from clip_helpers import digits_features
from edgemask.engine import merge
from edgemask.methods import METHODS
from guarantees.kinds import SETTINGS, kinds
from torchrun_helper import PATIENCE, torchrun

pytestmark = pytest.mark.slow  # starts torchrun

HERE = Path(__file__).parent
WORKER = HERE / "ranks_worker.py"
# Runs that also change the number of processes half-way: one network, a memory by sample, two
# networks at once, networks that take turns on a division, a queue.
RESUMED = ("supervised", "sop", "jocor", "dividemix", "jo-snc")
RESUMED_USUALLY = ("supervised", "dividemix")
# One of each kind of loop, and losses that are not a mean over samples; the others are in the long
# test.
USUAL = (*RESUMED_USUALLY, "class weights")
# Has a loss that only the worker knows.
WEIGHTED = {"class weights": {"loss": {"name": "weighted-gce"}}}


def alone(jobs: list[dict]) -> subprocess.Popen:
    """Start the worker in one process."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.Popen(
        [sys.executable, str(WORKER), json.dumps(jobs)],
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )


def train_all(
    folder: Path, names: Collection[str] | None = None, resumed: Collection[str] = RESUMED
) -> dict[str, dict]:
    """Train kinds of loops in one process and in two, and some in one and then the other."""
    configs = {
        name: merge(SETTINGS, change)
        for name, change in (kinds(digits_features(folder / "clip")) | WEIGHTED).items()
        if names is None or name in names
    }

    def jobs(where: str, names, **more) -> list[dict]:
        return [{"out": str(folder / where / n), "settings": configs[n], **more} for n in names]

    for one, two in (
        (
            [*jobs("1", configs), *jobs("1 to 2", resumed, stop=27)],
            [*jobs("2", configs), *jobs("2 to 1", resumed, stop=27)],
        ),
        (jobs("2 to 1", resumed), jobs("1 to 2", resumed)),
    ):
        process = alone(one)
        try:
            torchrun(WORKER, json.dumps(two), processes=2)
        finally:
            _, errors = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, errors[-3000:]
        changed = [line for line in errors.splitlines() if "was trained by 2 processes" in line]
    assert len(changed) == len(resumed), errors[-3000:]
    return configs


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranks")
    train_all(folder, USUAL, RESUMED_USUALLY)
    return folder


def compare(first: Path, second: Path) -> None:
    """Assert that two runs are the same to a relative 1e-6."""
    weights = [load_file(path / "model.safetensors") for path in (first, second)]
    for name, value in weights[0].items():
        if value.is_floating_point():
            assert value.dtype == torch.float64
            error = float((value - weights[1][name]).abs().max() / value.abs().max())
            assert error < 1e-6, (second, name, error)
    rows = [
        [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
        for path in (first, second)
    ]
    assert rows[0][-1]["step"] >= 45
    assert rows[0][-1]["test/accuracy"] > 0.5, second  # it learns
    for one, two in zip(*rows, strict=True):
        for row in (one, two):
            del row["seconds"]
        assert one == pytest.approx(two, rel=1e-6, abs=1e-9), second


def test_two_processes_equal_one(runs):
    for name in USUAL:
        compare(runs / "1" / name, runs / "2" / name)


@pytest.mark.parametrize("change", ["1 to 2", "2 to 1"])
def test_a_run_continues_with_another_number_of_processes(change, runs):
    for name in RESUMED_USUALLY:
        compare(runs / "1" / name, runs / change / name)


def test_the_methods_whose_mixing_differs_are_the_documented_ones():
    page = (HERE.parents[1] / "docs" / "guarantees.md").read_text()
    listed = page.partition("- Mixed samples:")[2].partition("\n- ")[0]
    mixing = {"alpha", "mixup"}
    for name in METHODS:
        mixes = bool(mixing & {*inspect.signature(METHODS[name]).parameters})
        mixes = mixes and name not in ("jo-src", "jo-snc")  # whose alpha is a weight
        assert (f"`{name}`" in listed) == mixes, name
        options = kinds({})[name]["method"]["options"]
        if mixes and name != "supervised":  # off by default
            assert not any(options[key] for key in mixing & {*options}), name
            assert mixing & {*options}, name


@pytest.mark.long
def test_two_processes_equal_one_in_every_kind_of_loop(tmp_path):
    names = train_all(tmp_path)
    assert {*METHODS} <= {*names}
    for name in names:
        compare(tmp_path / "1" / name, tmp_path / "2" / name)
    for name in RESUMED:
        for change in ("1 to 2", "2 to 1"):
            compare(tmp_path / "1" / name, tmp_path / change / name)


@pytest.mark.parametrize("when", [0, 3], ids=["before the first step", "in a step"])
def test_a_killed_process_ends_the_others_with_one_line(when, tmp_path):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    command += ["--shutdown-timeout=200"]  # of a slow machine
    command += [str(HERE / "killed_worker.py"), str(when), "train", "--data", "digits"]
    command += ["--set", "data.limit=200", "--epochs", "50", "--track", "none", "--quiet"]
    command += ["--set", "model.width=0.25", "--out", str(tmp_path / "run")]
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    done = subprocess.run(
        command, capture_output=True, text=True, env=environment, timeout=PATIENCE, check=False
    )
    assert done.returncode == 1
    ours = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert len(ours) == 1, done.stderr[-3000:]
    assert "another process" in ours[0] or "stopped by" in ours[0]
    # Nothing of ours but that line: torchrun writes about the killed process below its own name.
    before = done.stderr.partition("Root Cause")[0]
    assert "edgemask/engine" not in before, done.stderr[-4000:]
