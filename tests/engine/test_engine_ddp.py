"""Two processes are one process on the joined batch."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.torch import load_file
from torch import nn

from edgemask.engine import Objects, merge, resolve, train
from edgemask.engine.default import DEFAULT_TRAINING
from edgemask.engine.processes import Processes
from edgemask.errors import UserError
from torchrun_helper import torchrun

WORKER = Path(__file__).with_name("ddp_worker.py")
# No random view: it would be drawn for each process.
SETTINGS = {
    "data": {"spec": "digits", "limit": 149, "test_limit": 101},
    "noise": {"spec": "sym:0.4"},
    "model": {"name": "object:mlp"},
    "head": {"name": "sem"},
    "method": {"options": {"views": "none"}},
    "optim": {"l1": 1e-5, "clip": 1.0},
    "train": {"epochs": 2, "batch_size": 32},
    "log": {"trackers": []},
}


def small_net() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 10))


def launch(settings: dict, out: Path, processes: int) -> None:
    torchrun(WORKER, json.dumps(settings), str(out), processes=processes)


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        {},
        # The default: means by class that all processes share.
        {"loss": DEFAULT_TRAINING["loss"], "head": {"name": "linear"}},
        # A memory by sample, and two micro-batches a step (of which the first one would be scored).
        pytest.param(
            {"loss": {"name": "elr"}, "train": {"accumulate": 2}, "head": {"name": "linear"}},
            marks=pytest.mark.long,
        ),
        pytest.param(
            {"data": {"validation": 0.1}, "train": {"epochs": 3, "select": "validation"}},
            marks=pytest.mark.long,
        ),
    ],
    ids=["ce", "default", "elr-accumulate", "selected"],
)
def test_two_processes_equal_one(change, tmp_path):
    settings = merge(SETTINGS, change)
    one, two = tmp_path / "1", tmp_path / "2"
    train(resolve(settings), out=one, objects=Objects(model=small_net))
    launch(settings, two, 2)
    weights = [load_file(path / "model.safetensors") for path in (one, two)]
    for name, value in weights[0].items():
        np.testing.assert_allclose(value, weights[1][name], rtol=1e-4, atol=2e-5, err_msg=name)
    rows = [
        [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
        for path in (one, two)
    ]
    for first, second in zip(*rows, strict=True):
        first.pop("seconds"), second.pop("seconds")
        assert first.keys() == second.keys()
        for key in first:
            assert first[key] == pytest.approx(second[key], abs=2e-4), key
    summaries = [json.loads((path / "summary.json").read_text()) for path in (one, two)]
    assert summaries[0].get("selected") == summaries[1].get("selected")
    samples = [np.load(path / "samples.npz") for path in (one, two)]
    assert (samples[0]["index"] == samples[1]["index"]).all()
    np.testing.assert_allclose(samples[0]["mean_loss"], samples[1]["mean_loss"], atol=1e-3)


def test_a_process_group_that_accelerate_does_not_see_is_refused(monkeypatch):
    Processes(folder=None)
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(UserError, match=r"WORLD_SIZE is 2.*torchrun"):
        Processes(folder=None)
