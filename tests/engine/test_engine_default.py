"""What a person gets who names no head, loss or method."""

from __future__ import annotations

import json

import numpy as np
import pytest
import yaml
from typer.testing import CliRunner

import edgemask as em
from edgemask.cli.app import app
from edgemask.engine import default
from edgemask.errors import EdgeMaskWarning
from edgemask.reproduce import make_points, parse_axis
from sweeps import sweep

X = np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32)
Y = (X[:, 0] > 0).astype(int)


def parts(config):
    return config.head.name, config.loss.name, config.method.name, dict(config.loss.options)


def test_all_ways_in_give_the_documented_default():
    wanted = ("linear", "elr", "supervised")
    options = {"beta": 0.7, "lam": 5.0, "align": 5.0, "full_at": 0.1}
    options |= {"min_prob": 1e-4, "scale": 1.0}
    points = make_points({"data": {"spec": "digits"}}, [parse_axis("train.seed=0,1", {})])
    configs = [
        em.fit(X, Y, dry_run=True).config,
        em.fit("digits", model="mlp", epochs=3, set=["optim.lr=0.1"], dry_run=True).config,
        *(point.config for point in points),
    ]
    for config in configs:
        assert parts(config) == (*wanted, options)
    result = CliRunner().invoke(app, ["train", "--data", "digits", "--dry-run", "--json"])
    found = json.loads(result.stdout)["config"]
    assert tuple(found[part]["name"] for part in ("head", "loss", "method")) == wanted
    assert found["loss"]["options"] == options


@sweep(
    "said",
    [
        {"head": "linear"},
        {"loss": "ce"},
        {"method": "supervised"},
        {"set": ["loss.options.scale=2"]},
        {"settings": {"method": {"options": {"mixup": 1.0}}}},
        {"recipe": "digits/ce"},
    ],
)
def test_whoever_says_something_gets_cross_entropy_on_a_linear_layer_for_the_rest(said):
    config = em.fit("digits", dry_run=True, **said).config
    assert parts(config)[:3] == ("linear", "ce", "supervised")


def test_an_audit_trains_with_plain_cross_entropy(tmp_path):
    em.audit_labels(X, Y, fast=True, epochs=1, out=tmp_path / "audit")
    (path,) = (tmp_path / "audit").rglob("config.yaml")
    found = yaml.safe_load(path.read_text())
    assert [found[part]["name"] for part in ("head", "loss")] == ["linear", "ce"]


def test_targets_that_would_not_fit_into_memory_are_not_kept(monkeypatch):
    monkeypatch.setattr(default, "_MOST_TARGETS", 50)
    with pytest.warns(EdgeMaskWarning, match="too much: plain cross entropy is used"):
        config = em.fit(X, Y, dry_run=True).config
    assert parts(config)[:2] == ("linear", "ce")
    with pytest.warns(EdgeMaskWarning, match="too much: plain cross entropy is used"):
        points = make_points({"data": {"spec": "digits"}}, [parse_axis("train.seed=0,1", {})])
    assert [parts(point.config)[:2] for point in points] == [("linear", "ce")] * 2
