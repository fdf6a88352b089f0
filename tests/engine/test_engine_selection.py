"""The epoch that validation samples choose: its weights are kept, told apart and deployed."""

from __future__ import annotations

import copy
import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from edgemask.data import load
from edgemask.engine import config_hash, evaluate, fit, load_run, merge, resolve, train
from edgemask.engine.checkpoint import Checkpoints
from edgemask.engine.selection import Selection
from edgemask.errors import UserError
from sweeps import sweep

CHOICE = {
    "data": {"validation": 0.1, "test_limit": None},
    "train": {"epochs": 4, "select": "validation"},
    "log": {"thumbnails": 0},
}


def states(nets):
    return {
        name: {key: value.clone() for key, value in net.state_dict().items()}
        for name, net in nets.items()
    }


def equal(first, second):
    return first.keys() == second.keys() and all(torch.equal(first[k], second[k]) for k in first)


@pytest.fixture
def seen(monkeypatch):
    """Take down each network's weights after each epoch; the second epoch answers all rightly."""
    weights = []
    real = Selection.update

    def update(self, outcome, epoch):
        weights.append(states(self.nets))
        if epoch == 1:
            (right,) = outcome.by_network.values()
            outcome = dataclasses.replace(outcome, labels=right)
        real(self, outcome, epoch)

    monkeypatch.setattr(Selection, "update", update)
    return weights


def test_the_chosen_weights_are_tested_and_deployed_beside_the_last_ones(tiny, tmp_path, seen):
    run = train(tiny(CHOICE), out=tmp_path / "run")
    plain = train(tiny(CHOICE, {"train": {"select": "last"}}), out=tmp_path / "plain")
    assert len(seen) == 4
    chosen = run.summary["selected"]
    assert (chosen["by"], chosen["epochs"]) == ("validation", {"net": 1})
    assert chosen["test/accuracy"] == run.history[1]["test/accuracy"]
    # What every other run reports is what it was.
    assert run.summary["test/accuracy"] == plain.summary["test/accuracy"]
    assert run.summary["test/accuracy"]["last"] == run.history[3]["test/accuracy"]
    assert "selected" not in plain.summary
    assert (run.trust == plain.trust).all()
    deployed = load_file(run.path / "model.safetensors")
    assert equal(deployed, seen[1]["net"])
    assert not equal(deployed, seen[3]["net"])
    assert equal(load_file(plain.path / "model.safetensors"), seen[3]["net"])
    # In hand, from the folder, and asked once more.
    assert equal(run.model.state_dict(), seen[1]["net"])
    assert equal(load_run(run.path).model.state_dict(), seen[1]["net"])
    again = evaluate(load_run(run.path))
    assert again["test/accuracy"] == chosen["test/accuracy"]


def test_the_best_epoch_by_the_history_is_chosen(tiny, tmp_path):
    run = train(tiny(CHOICE, {"eval": {"every": 2}, "train": {"epochs": 5}}), out=tmp_path / "run")
    tested = [row for row in run.history if "validation/accuracy" in row]
    assert [row["epoch"] for row in tested] == [1, 3, 4]
    best = max(tested, key=lambda row: row["validation/accuracy"])
    chosen = run.summary["selected"]
    assert chosen["epochs"] == {"net": best["epoch"]}
    assert chosen["validation/accuracy"] == {"net": best["validation/accuracy"]}
    assert chosen["test/accuracy"] == run.summary["test/accuracy"]["at_validation"]


def outcome(labels, **answers):
    by_network = {name: np.array(answer) for name, answer in answers.items()}
    return SimpleNamespace(labels=np.array(labels), by_network=by_network)


def test_each_network_chooses_for_itself_and_the_first_of_equals_is_kept():
    nets = {name: nn.Linear(1, 1) for name in ("first", "second")}
    selection = Selection("validation", nets)
    answers = [([0, 9], [9, 9]), ([0, 1], [0, 9]), ([0, 1], [0, 1]), ([9, 9], [0, 9])]
    history = []
    for epoch, (first, second) in enumerate(answers):
        for net in nets.values():
            nn.init.constant_(net.weight, epoch)
        history.append(states(nets))
        selection.update(outcome([0, 1], first=first, second=second), epoch)
    assert selection.epochs == {"first": 1, "second": 2}
    assert selection.accuracies == {"first": 1.0, "second": 1.0}
    twin = Selection("validation", nets)
    twin.load_state_dict(selection.state_dict())
    twin.load_best()
    assert equal(nets["first"].state_dict(), history[1]["first"])
    assert equal(nets["second"].state_dict(), history[2]["second"])


def test_even_the_worst_epoch_is_better_than_none():
    selection = Selection("validation", {"net": nn.Linear(1, 1)})
    selection.update(outcome([0, 1], net=[1, 0]), 0)
    assert selection.epochs == {"net": 0}


def test_networks_at_epochs_of_their_own_answer_together(tiny, tmp_path):
    run = train(tiny(CHOICE, {"method": {"name": "coteaching"}}), out=tmp_path / "run")
    chosen, rows = run.summary["selected"], run.history
    for name in ("first", "second"):
        best = max(rows, key=lambda row: row[f"validation/accuracy.{name}"])
        assert chosen["epochs"][name] == best["epoch"]
        assert chosen[f"test/accuracy.{name}"] == best[f"test/accuracy.{name}"]
    assert evaluate(run)["test/accuracy"] == chosen["test/accuracy"]


def test_clean_validation_samples_of_the_dataset(tmp_path):
    digits = load("digits")
    bundle = dataclasses.replace(digits, validation=digits.test, clean_known=True)
    settings = {
        "data": {"limit": 200},
        "model": {"width": 0.25},
        "log": {"trackers": []},
        "noise": {"spec": "sym:0.4"},
    }
    options = {"epochs": 3, "settings": settings, "out": tmp_path / "run"}
    run = fit(bundle, select="clean_validation", **options)
    # The test set stands in for the validation set here, so that the best epoch is the oracle's.
    assert run.summary["selected"]["by"] == "clean_validation"
    assert run.summary["selected"]["epochs"] == {"net": run.summary["test/accuracy"]["best_epoch"]}
    assert run.summary["test/accuracy"]["at_validation"] is None
    assert [row["clean_validation/accuracy"] for row in run.history] == [
        row["test/accuracy"] for row in run.history
    ]


def test_rollback_goes_on_from_the_best_weights(tiny, tmp_path, seen, monkeypatch):
    left = []
    real = Checkpoints.save

    def save(self, state, step):
        left.append({name: {**net} for name, net in copy.deepcopy(state["networks"]).items()})
        return real(self, state, step)

    monkeypatch.setattr(Checkpoints, "save", save)
    run = train(tiny(CHOICE, {"train": {"rollback": True}}), out=tmp_path / "run")
    assert [equal(state["net"], seen[1]["net"]) for state in left] == [False, True, True, False]
    # The last epoch stays as it was, so that "last" and what it says of the samples hold together.
    assert equal(left[3]["net"], seen[3]["net"])
    assert equal(load_file(run.path / "model.safetensors"), seen[1]["net"])
    assert not equal(seen[2]["net"], seen[1]["net"])


def test_only_a_choice_changes_the_name_of_a_run():
    base: dict = {"data": {"validation": 0.1}}

    def name(*layers):
        return config_hash(resolve(merge(base, *layers)))

    seldom = {"eval": {"every": 5}}
    chosen = {"train": {"select": "validation"}}
    assert name() == name(seldom)
    assert len({name(), name(chosen), name(chosen, seldom)}) == 3
    assert name(chosen) == name(chosen, {"eval": {"top5": True}})
    assert name(chosen) != name(chosen, {"train": {"rollback": True}})


@sweep(
    ("settings", "match"),
    [
        ({"train": {"select": "validation"}}, r"train\.select.*data\.validation is 0"),
        ({"train": {"rollback": True}}, r"train\.rollback.*'last'"),
        ({"train": {"select": "best"}}, r"train\.select"),
        ({"train": {"select": "clean_validation"}}, "'digits' has no clean validation samples"),
    ],
)
def test_a_choice_without_samples_is_refused_before_training(settings, match, tiny, tmp_path):
    with pytest.raises(UserError, match=match):
        train(tiny(settings), out=tmp_path / "run")
    assert not (tmp_path / "run" / "metrics.jsonl").exists()
