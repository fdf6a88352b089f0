"""Looking into training steps must show what is there and change nothing."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from edgemask.engine import Objects, Observer, config_hash, fit, train
from edgemask.engine.probes import Probes
from edgemask.errors import UserError
from edgemask.methods import Clock, Supervised
from sweeps import sweep

ALL = ["gradient_error", "bounds", "criteria", "overlap", "calibration", "confidence"]


class _Stop(Observer):
    def on_step(self, *, epoch, step, **_):
        if (epoch, step) == (1, 3):
            raise RuntimeError("power cut")


def _same_weights(first, second):
    a, b = (load_file(run.path / "model.safetensors") for run in (first, second))
    return all(a[name].equal(b[name]) for name in a)


def test_probes_measure_and_change_nothing(tiny, tmp_path):
    plain = train(tiny(), out=tmp_path / "plain")
    probed = train(tiny({"log": {"record": ALL}}), out=tmp_path / "probed")
    assert config_hash(plain.config) == config_hash(probed.config)
    assert _same_weights(plain, probed)
    for before, row in zip(plain.history, probed.history, strict=True):
        assert {k: row[k] for k in before if k != "seconds"} == {
            k: v for k, v in before.items() if k != "seconds"
        }
        assert 0 < row["train/gradient_error"] < row["train/bound_estimate/masked"]
        assert row["train/bound_estimate/masked"] < row["train/bound_estimate/dense"]
        assert 0 < row["train/bound/ratio"] < 1
        assert "train/bound/masked" not in row, "an estimate is not called a bound"
        assert -1 <= row["train/gradient_cosine"] < 1
        assert row["train/gradient_error_relative"] > 0
        assert row["train/obd/masked"] <= row["train/obd/bound"]
        assert row["train/criteria/second_moment/range"] > row["train/criteria/rms/range"]
        assert row["train/cdr/critical"] == pytest.approx(0.6, abs=0.01)
        assert 0 <= row["test/ece"] <= 1
        assert 0 < row["test/brier"] < 2
        assert "train/gradient_error" not in before


def test_mixed_precision_measures_the_same_up_to_rounding(tiny, tmp_path):
    log = {"log": {"record": ALL}, "train": {"epochs": 1}}
    full = train(tiny(log), out=tmp_path / "full").history[0]
    half = train(tiny(log, {"train": {"precision": "bf16"}}), out=tmp_path / "half").history[0]
    assert half.keys() == full.keys()
    for key in ("gradient_error", "bound/ratio", "obd/bound", "criteria/rms/mean"):
        assert half[f"train/{key}"] == pytest.approx(full[f"train/{key}"], rel=0.3), key


def test_a_run_taken_up_measures_the_same(tiny, tmp_path):
    log = {"log": {"record": ["gradient_error", "bounds"], "checkpoint_steps": 1}}
    whole = train(tiny(log), out=tmp_path / "whole")
    with pytest.raises(RuntimeError, match="power cut"):
        train(tiny(log), out=tmp_path / "cut", observers=[_Stop()])
    again = train(tiny(log), out=tmp_path / "cut")
    drop = ("seconds",)
    first, second = (
        [{k: v for k, v in row.items() if k not in drop} for row in run.history]
        for run in (whole, again)
    )
    assert first == second


@pytest.mark.parametrize("loss", ["jal", "elr"])
def test_losses_with_and_without_memory(tiny, tmp_path, loss):
    layer = {"loss": {"name": loss}, "head": {"name": "linear"}, "train": {"epochs": 1}}
    plain = train(tiny(layer), out=tmp_path / "plain")
    probed = train(tiny(layer, {"log": {"record": ["gradient_error"]}}), out=tmp_path / "probed")
    assert _same_weights(plain, probed)
    assert probed.history[0]["train/gradient_error"] > 0


@sweep("steps", [1, 7, 8, 9, 20, 391])
def test_probed_steps_are_few_and_spread(steps):
    probes = Probes.__new__(Probes)
    probes.steps = 8
    due = [step for step in range(steps) if probes.due(Clock(0, step, steps))]
    assert len(due) == min(8, steps)
    assert due[0] == 0
    if steps > 100:
        gaps = {b - a for a, b in pairwise(due)}
        assert gaps == {steps // 8}


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        ({"log": {"record": ["gradient"]}}, "log.record: 'gradient' is not one of"),
        ({"log": {"record": ["criteria"], "record_steps": 0}}, "log.record_steps"),
    ],
)
def test_wrong_names_are_refused_at_once(tiny, layer, message):
    with pytest.raises(UserError, match=message):
        tiny(layer)


@sweep(
    ("layer", "message"),
    [
        ({"method": {"options": {"mixup": 1.0}}}, "without mix-up"),
        ({"model": {"name": "mlp"}}, "last convolutional block"),
        ({"head": {"name": "kan", "options": {}}, "log": {"record": ["criteria"]}}, "linear head"),
    ],
)
def test_what_cannot_be_measured_is_said(tiny, tmp_path, layer, message):
    config = tiny({"log": {"record": ["gradient_error"]}}, layer)
    with pytest.raises(UserError, match=message):
        train(config, out=tmp_path / "run")


def test_true_labels_are_needed(tmp_path):
    rng = np.random.default_rng(0)
    images = rng.integers(0, 255, (60, 1, 8, 8)).astype(np.uint8)
    with pytest.raises(UserError, match="needs true labels"):
        fit(
            images,
            rng.integers(0, 3, 60),
            settings={"log": {"record": ["gradient_error"], "trackers": []}},
            epochs=1,
            out=tmp_path / "run",
        )


def test_a_pass_without_gradient_before_the_training_pass_is_not_measured(tiny, tmp_path):
    class Looks(Supervised):
        def step(self, phase, batch, clock):
            with torch.no_grad():
                self.nets["net"].eval()(batch["train"].views[0])
            self.nets["net"].train()
            return super().step(phase, batch, clock)

    layer = {"train": {"epochs": 1}, "log": {"record": ["gradient_error"]}}
    plain = train(tiny(layer), out=tmp_path / "plain")
    config = tiny(layer, {"method": {"name": "object:looks"}})
    run = train(config, out=tmp_path / "run", objects=Objects(method=Looks()))
    assert _same_weights(plain, run)
    assert run.history[0]["train/gradient_error"] == plain.history[0]["train/gradient_error"]
