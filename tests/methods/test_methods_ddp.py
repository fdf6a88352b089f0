"""Two processes remember the same of every sample, and lose none."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from edgemask.engine import load_run, merge
from torchrun_helper import torchrun

WORKER = Path(__file__).with_name("ddp_methods_worker.py")
SETTINGS = {
    "data": {"spec": "digits", "limit": 99, "test_limit": 50},
    "noise": {"spec": "sym:0.4"},
    "model": {"name": "small-cnn", "width": 0.25, "options": {"hidden": 32}},
    "head": {"name": "sem"},
    "optim": {"name": "adam", "lr": 2e-3},
    "train": {"epochs": 2, "batch_size": 32, "record_every": 0},
    "log": {"trackers": [], "thumbnails": 0},
}


def equal(first, second):
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(equal(first[k], second[k]) for k in first)
    if isinstance(first, torch.Tensor):
        return torch.equal(torch.nan_to_num(first, -7), torch.nan_to_num(second, -7))
    return first == second


@pytest.mark.slow
# One with two networks and a table, one with a momentum copy, a queue and thresholds, one whose
# networks take turns on a division; oversampling, a phase of its own length, class priors, averaged
# networks, tables filled in training, a selection by features.
@pytest.mark.parametrize(
    "name",
    [
        "ca2c",
        *(
            pytest.param(name, marks=pytest.mark.long)
            for name in (
                *("jo-snc", "promix", "dividemix", "ssr", "neighborhood-collective-estimation"),
                *("elr-plus", "disc", "clipcleaner"),
            )
        ),
    ],
)
def test_two_processes_remember_the_same(name, tmp_path, needed):
    layer = {"method": {"name": f"object:{name}"}, "options": needed(name)}
    settings = merge(SETTINGS, layer)
    torchrun(WORKER, name, json.dumps(settings), str(tmp_path / "run"))
    states = [torch.load(tmp_path / f"{name}-{rank}.pt", weights_only=True) for rank in (0, 1)]
    assert equal(*states)
    trust = load_run(tmp_path / "run").trust
    assert trust.shape == (99,)
    assert np.isfinite(trust).all()
    if name == "ca2c":  # warm-up: two votes of two networks; then two votes of one
        assert states[0]["counts"]["values"].sum(dim=1).tolist() == [6.0] * 99
    if name == "jo-snc":
        assert not states[0]["clean"]["values"].isnan().any()
        assert len(set(states[0]["memory"]["rows"]["index"].tolist())) == 63
