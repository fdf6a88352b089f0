"""The recipes run on the real images that they are made for."""

from __future__ import annotations

import pytest

from edgemask.engine import train
from edgemask.engine.recipes import RECIPES


@pytest.mark.data
@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["cifar10/coteaching", "cifar100/jocor", "cifar100/josrc", "cifar80n-o/ca2c-sem",
     "cifar80n-o/josnc-sem"],
)  # fmt: skip
def test_a_recipe_runs_for_two_epochs(name, data_root, tmp_path):
    method = name.partition("/")[2].removesuffix("-sem")
    small = {
        "data": {"limit": 96, "test_limit": 50, "root": str(data_root)},
        "noise": {"spec": "sym:0.2"},
        "model": {"width": 0.25},
        "method": {"options": {} if method in ("coteaching", "jocor") else {"warmup": 1}},
        "optim": {"schedule": {"options": {"start": 0}}},
        "train": {"epochs": 2, "batch_size": 32},
        "log": {"trackers": [], "thumbnails": 0},
    }
    run = train(RECIPES[name].config(small), out=tmp_path / "run")
    assert run.finished
    assert run.config.noise.protocol == "nust"
    assert len(run.trust) == 96
