"""Grids: what is typed, what is run, what comes of it."""

from __future__ import annotations

import json

import pytest

from edgemask.engine.job import RunJob
from edgemask.engine.jobs import JobRunner
from edgemask.errors import UserError
from edgemask.reproduce import make_points, parse_axis, write_sweep
from edgemask.reproduce.sweep import sweep_table
from sweeps import sweep

SEM = {"head": {"name": "sem"}}
TINY = {
    "data": {"spec": "digits", "limit": 96, "test_limit": 50},
    "noise": {"spec": "sym:0.4"},
    "model": {"name": "small-cnn", "width": 0.25},
    "train": {"epochs": 1, "batch_size": 48},
    "log": {"trackers": []},
    **SEM,
}


@sweep(
    ("text", "key", "values"),
    [
        ("rho=0,0.1..0.9", "head.options.rho", tuple(round(i / 10, 10) for i in range(10))),
        ("train.seed=0..3", "train.seed", (0, 1, 2, 3)),
        ("beta=0.5,0.9", "head.options.beta", (0.5, 0.9)),
        ("train.batch_size=32,64..256", "train.batch_size", tuple(range(32, 257, 32))),
        ("head.options.policy=bernoulli,hard", "head.options.policy", ("bernoulli", "hard")),
        ("optim.lr=1e-3,1e-2", "optim.lr", (0.001, 0.01)),
        ("optim.clip=null,5", "optim.clip", (None, 5)),
    ],
)
def test_axes_as_typed(text, key, values):
    axis = parse_axis(text, SEM)
    assert axis.key == key
    assert axis.values == values


@sweep(
    ("text", "message"),
    [
        ("rho", "key=value"),
        ("rho=", "key=value"),
        ("rho=0.1..0.9", "a value before it"),
        ("rho=0.5,0.4..0.9", "no way from"),
        ("seed=0..2", "several settings"),
        ("rhoo=1", "no setting has this name"),
    ],
)
def test_axes_that_make_no_sense(text, message):
    with pytest.raises(UserError, match=message):
        parse_axis(text, SEM)


def test_wrong_values_speak_before_anything_runs():
    with pytest.raises(UserError, match=r"train\.epochs"):
        make_points(SEM, [parse_axis("train.epochs=1,many", SEM)])


def test_options_of_one_head_are_not_given_to_another():
    settings = {"head": {"name": "sem", "options": {"rho": 0.3}}}
    axes = [parse_axis("head.name=sem,dropout", settings)]
    first, second = make_points(settings, axes)
    assert first.config.head.options["rho"] == 0.3
    assert (second.config.head.name, "rho" in second.config.head.options) == ("dropout", False)


def test_a_sweep_from_grid_to_picture(tmp_path):
    axes = [parse_axis("rho=0,0.5", TINY), parse_axis("train.seed=0,1", TINY)]
    points = make_points(TINY, axes)
    assert [tuple(point.values.values()) for point in points] == [
        (0, 0),
        (0, 1),
        (0.5, 0),
        (0.5, 1),
    ]
    jobs = [RunJob(point.config, tmp_path / point.name) for point in points]
    results = JobRunner(workers=0).run(jobs)
    assert [result.state for result in results] == ["done"] * 4
    files = write_sweep(points, axes, tmp_path, tmp_path / "out")
    assert files["png"].read_bytes().startswith(b"\x89PNG")
    rows = json.loads(files["json"].read_text())
    assert {row["head.options.rho"] for row in rows} == {0, 0.5}
    table = sweep_table(points, axes, tmp_path)
    assert [row[-1] for row in table.rows] == ["2 of 2", "2 of 2"]
    means = [
        sum(r["test/accuracy"]["last"] for r in rows if r["head.options.rho"] == rho) / 2
        for rho in (0, 0.5)
    ]
    assert [row[1].value for row in table.rows] == pytest.approx(means)
    assert "head.options.rho" in files["md"].read_text()
    assert r"\toprule" in files["tex"].read_text()
