"""Several processes: two equal one, and one that is killed ends the others with one line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.torch import load_file

from edgemask.engine import merge
from guarantees.ranks_worker import main
from torchrun_helper import torchrun

pytestmark = pytest.mark.slow  # starts torchrun

HERE = Path(__file__).parent
# 150 samples in steps of 30: 50 steps are ten epochs. No random view: each process draws its own.
SETTINGS = {
    "data": {"spec": "digits", "limit": 150, "test_limit": 60},
    "noise": {"spec": "sym:0.2"},
    "model": {"name": "object:double"},
    "head": {"name": "linear"},
    "method": {"options": {"views": "none"}},
    "optim": {"lr": 0.1},
    "train": {"epochs": 10, "batch_size": 30, "record_every": 0},
    "log": {"trackers": [], "thumbnails": 0},
}
KINDS: dict[str, dict] = {"plain": {}}


def test_two_processes_equal_one(tmp_path):
    one, two = tmp_path / "1", tmp_path / "2"
    for kind, change in KINDS.items():
        settings = merge(SETTINGS, change)
        main({str(one / kind): settings})
        torchrun(HERE / "ranks_worker.py", json.dumps({str(two / kind): settings}), processes=2)
        weights = [load_file(path / kind / "model.safetensors") for path in (one, two)]
        for name, value in weights[0].items():
            if not value.is_floating_point():
                continue
            scale = float(value.double().abs().max())
            error = float((value - weights[1][name]).double().abs().max()) / scale
            assert error < 1e-6, (kind, name, error)
        rows = [(path / kind / "metrics.jsonl").read_text().splitlines() for path in (one, two)]
        last = [json.loads(lines[-1]) for lines in rows]
        assert last[0]["step"] == last[1]["step"] >= 45
        assert last[0]["train/loss"] == pytest.approx(last[1]["train/loss"], rel=1e-6)
        first = json.loads(rows[0][0])["train/loss"]
        assert last[0]["train/loss"] < 0.8 * first, kind  # it learns
        tests = [np.float64(row["test/accuracy"]) for row in last]
        assert tests[0] == tests[1]


@pytest.mark.parametrize("when", [0, 3], ids=["before the first step", "in a step"])
def test_a_killed_process_ends_the_others_with_one_line(when, tmp_path):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    command += [str(HERE / "killed_worker.py"), str(when), "train", "--data", "digits"]
    command += ["--set", "data.limit=200", "--epochs", "50", "--track", "none", "--quiet"]
    command += ["--set", "model.width=0.25", "--out", str(tmp_path / "run")]
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    done = subprocess.run(
        command, capture_output=True, text=True, env=environment, timeout=300, check=False
    )
    assert done.returncode == 1
    ours = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert len(ours) <= 1, done.stderr[-3000:]
    assert all("another process" in line or "stopped by" in line for line in ours), ours
    # Nothing of ours but that line: torchrun writes about the killed process below its own name.
    before = done.stderr.partition("Root Cause")[0]
    assert "edgemask/engine" not in before, done.stderr[-4000:]
