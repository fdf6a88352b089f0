"""Accuracies, random streams and number formats."""

from __future__ import annotations

import random
import subprocess

import numpy as np
import pytest
import torch
from sklearn.metrics import balanced_accuracy_score, recall_score

import edgemask.engine.precision as precision_module
from edgemask._random import (
    PURPOSES,
    load_rng_state,
    rng_state,
    seed_everything,
    stream,
)
from edgemask.engine import resolve
from edgemask.engine.metrics import accuracies, summarise
from edgemask.engine.precision import probe, usable_precision
from edgemask.engine.record import record_interval
from edgemask.errors import UserError
from sweeps import sweep


def test_accuracies_against_scikit_learn():
    rng = np.random.default_rng(0)
    labels = rng.choice(5, 400, p=[0.5, 0.3, 0.1, 0.07, 0.03])
    predicted = np.where(rng.random(400) < 0.6, labels, rng.integers(0, 5, 400))
    accuracy, balanced, by_class = accuracies(predicted, labels, 6)
    assert accuracy == pytest.approx((predicted == labels).mean())
    assert balanced == pytest.approx(balanced_accuracy_score(labels, predicted))
    assert by_class[:5] == pytest.approx(recall_score(labels, predicted, average=None))
    assert by_class[5] is None
    with pytest.raises(ValueError, match="no samples"):
        accuracies([], [], 3)


def test_each_summary_has_its_own_name():
    history = [
        {"epoch": e, "t": t, "validation/accuracy": v}
        for e, (t, v) in enumerate([(0.1, 0.2), (0.9, 0.3), (0.5, 0.8), (0.6, 0.7)])
    ]
    history += [{"epoch": 4 + i, "t": 0.2, "validation/accuracy": 0.1} for i in range(9)]
    history.append({"epoch": 13, "t": None})
    result = summarise(history, "t")
    assert result["last"] == 0.2
    assert result["mean_last_10"] == pytest.approx((0.6 + 9 * 0.2) / 10)
    assert result["std_last_10"] == pytest.approx(0.12)
    assert (result["best"], result["best_epoch"]) == (0.9, 1)
    assert result["at_validation"] == 0.5
    assert summarise([{"epoch": 0, "t": 0.3}], "t")["at_validation"] is None
    assert summarise([{"epoch": 0}], "t")["last"] is None


@sweep(
    ("setting", "fold", "samples", "every"),
    [
        (None, None, 10, 4),
        (None, None, 10**6, 4),
        (None, "all", 5000, 1),
        (None, "all", 5001, 4),
        (0, "all", 10, 0),
        (2, None, 10**6, 2),
    ],
)
def test_samples_are_evaluated_every_fourth_epoch_unless_asked_for(setting, fold, samples, every):
    config = resolve({"train": {"record_every": setting}, "data": {"fold": fold}})
    assert record_interval(config, samples) == every


def test_streams_are_apart():
    seeds = {stream(purpose, seed) for purpose in PURPOSES for seed in range(20)}
    assert len(seeds) == 20 * len(PURPOSES)
    assert stream("order", 3, 1) != stream("order", 3, 2)
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_random_state_comes_back_through_a_file(tmp_path):
    def draw():
        return random.random(), np.random.rand(), np.random.randn(), float(torch.rand(()))

    seed_everything(7)
    draw()
    torch.save(rng_state(), tmp_path / "rng.pt")
    first = [draw() for _ in range(3)]
    load_rng_state(torch.load(tmp_path / "rng.pt", weights_only=True))
    assert [draw() for _ in range(3)] == first


@sweep(
    ("code", "words"),
    [(0, None), (-4, "signal 4"), (1, "no such unit")],
)
def test_broken_number_formats_are_told_apart(code, words, monkeypatch):
    result = subprocess.CompletedProcess([], code, b"", b"trace\nno such unit")
    monkeypatch.setattr(precision_module.subprocess, "run", lambda *_, **__: result)
    probe.cache_clear()
    try:
        precision, note = usable_precision("bf16", torch.device("cpu"))
        if words is None:
            assert (precision, note) == ("bf16", None)
        else:
            assert precision == "fp32"
            assert words in note
            assert "using fp32" in note
    finally:
        probe.cache_clear()


def test_precisions():
    cpu = torch.device("cpu")
    assert usable_precision("fp32", cpu) == ("fp32", None)
    assert usable_precision("fp16", cpu)[0] == "fp32"
    with pytest.raises(UserError, match="fp8"):
        usable_precision("fp8", cpu)


@pytest.mark.slow
def test_a_run_in_bf16_or_its_fallback(tiny, tmp_path):
    from edgemask.engine import Observer, train

    notes = []

    class Watch(Observer):
        def on_start(self, info):
            notes.extend(info.notes)

    config = tiny({"train": {"precision": "bf16", "epochs": 1}})
    run = train(config, out=tmp_path / "run", observers=[Watch()])
    assert run.finished
    assert bool(notes) == (probe("bf16") is not None)
