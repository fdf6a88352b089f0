"""The method that CONTRIBUTING shows works, and is as short as it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from edgemask.engine import Objects, resolve, train
from edgemask.errors import UserError

PAGE = Path(__file__).parents[2] / "CONTRIBUTING.md"
BLOCKS = dict(
    re.findall(r"<!-- example:(\w+) -->\n```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
)


@pytest.fixture
def names():
    scope: dict = {}
    exec(compile(BLOCKS["method"], str(PAGE), "exec", dont_inherit=True), scope)
    return scope


def test_the_class_has_thirty_lines():
    text = BLOCKS["method"]
    body = text[text.index("class ") :]
    assert len([line for line in body.splitlines() if line.strip()]) <= 30


def test_the_options_of_the_example_are_checked(names):
    with pytest.raises(UserError, match="Bootstrap: own=2: expected a number in"):
        names["Bootstrap"](own=2)


def test_the_example_runs(names, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    exec(BLOCKS["use"], names)
    accuracy = float(capsys.readouterr().out.split()[0])
    assert accuracy > 0.5
    run = names["run"]
    wrong = run.noise.wrong
    assert run.trust[~wrong].mean() > run.trust[wrong].mean() + 0.2


def test_a_share_of_nothing_is_plain_training(names, tmp_path):
    settings = {
        "data": {"spec": "digits", "limit": 64, "test_limit": 32},
        "model": {"name": "small-cnn", "width": 0.25},
        "train": {"epochs": 1, "batch_size": 32},
        "log": {"trackers": [], "thumbnails": 0},
    }
    plain = train(resolve(settings), out=tmp_path / "plain")
    config = resolve(settings, {"method": {"name": "object:bootstrap"}})
    method = names["Bootstrap"](own=0.0)
    mine = train(config, out=tmp_path / "mine", objects=Objects(method=method))
    pairs = zip(mine.model.parameters(), plain.model.parameters(), strict=True)
    assert all(torch.allclose(a, b, atol=1e-6) for a, b in pairs)
