"""DivideMix and UNICON on the loop: division, step, edge cases, accuracy, resume."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import edgemask.methods.dividemix as dividemix_module
import edgemask.methods.unicon as unicon_module
from edgemask.data import Batch
from edgemask.engine import Config, Observer, Run, merge, resolve, train
from edgemask.errors import UserError
from edgemask.methods import METHODS, Clock, Method, Task
from edgemask.models import create
from sweeps import sweep

SMALL: dict[str, Any] = {
    "data": {"spec": "digits"},
    "noise": {"spec": "sym:0.4"},
    "model": {"name": "small-cnn", "width": 0.5},
    "optim": {"lr": 0.02, "schedule": {"name": "constant"}},
    "train": {"epochs": 8, "batch_size": 32},
    "log": {"trackers": []},
}
TINY: dict[str, Any] = {
    "data": {"limit": 200, "test_limit": 50},
    "model": {"width": 0.25},
    "train": {"epochs": 2},
}
KINDS = ["dividemix", "unicon"]
C, N = 3, 24


def settings(method: str, *layers: dict[str, Any], **options: Any) -> Config:
    return resolve(merge(SMALL, {"method": {"name": method, "options": options}}, *layers))


def a_method(name: str, *, score: Callable | None = None, rate: float = 0.4, **options) -> Method:
    """A method with two small networks, on random images of three classes."""
    method = METHODS[name](**options)
    labels = torch.arange(N) % C
    x = torch.randn(N, 1, 8, 8, generator=torch.Generator().manual_seed(1))
    nets = {
        key: create("small-cnn", C, input_shape=(1, 8, 8), width=0.25, projector=method.projector)
        for key in method.networks
    }

    def run_over(function, *, views=("none",), indices=None):
        assert views == ("none",)
        modes = [net.training for net in nets.values()]
        for net in nets.values():
            net.eval()
        chosen = torch.arange(N) if indices is None else indices
        with torch.no_grad():
            rows = function(Batch(chosen, (x[chosen],), labels[chosen]))
        for net, mode in zip(nets.values(), modes, strict=True):
            net.train(mode)
        return {
            key: torch.zeros(N, dtype=v.dtype).index_copy(0, chosen, v) for key, v in rows.items()
        }

    method.setup(
        Task(
            num_classes=C,
            labels=labels,
            epochs=10,
            batch_size=4,
            criterion=nn.CrossEntropyLoss(),
            device=torch.device("cpu"),
            generator=torch.Generator().manual_seed(0),
            score=score or run_over,
            nominal_rate=rate,
        ),
        nets,
    )
    method.x = x
    return method


def a_batch(method: Method, indices: list[int], views: int) -> Batch:
    index = torch.tensor(indices)
    x = method.x[index]
    return Batch(index, tuple(x + 0.1 * k for k in range(views)), method.task.labels[index])


def test_each_network_learns_from_the_division_of_the_other(monkeypatch):
    method = a_method("dividemix", warmup=2)
    seen = []

    def posterior(losses, *, reg_covar):
        seen.append(losses.clone())
        value = torch.full_like(losses, 0.2 if len(seen) == 1 else 0.3)
        value[:8] = 0.9 if len(seen) == 1 else 0.1
        value[8:] = 0.3 if len(seen) == 1 else 0.8
        return value

    monkeypatch.setattr(dividemix_module, "low_loss_posterior", posterior)
    first = method.begin("train/first", 2)
    second = method.begin("train/second", 2)
    assert len(seen) == 2  # both scored before either learns, nobody twice
    assert first.feeds["labelled"].indices.tolist() == list(range(8, N))
    assert second.feeds["labelled"].indices.tolist() == list(range(8))
    assert second.feeds["unlabelled"].indices.tolist() == list(range(8, N))
    assert first.train == ("first",)
    assert first.frozen == ("second",)
    assert method.weights["first"].values[8:].tolist() == pytest.approx([0.8] * 16)
    torch.testing.assert_close(method.trust()[:8], torch.full((8,), 0.5))


def test_scores_are_losses_in_eval_mode_brought_to_the_unit_interval(monkeypatch):
    method = a_method("dividemix", warmup=2)
    seen = []
    monkeypatch.setattr(
        dividemix_module,
        "low_loss_posterior",
        lambda losses, **_: seen.append(losses.clone()) or torch.ones_like(losses),
    )
    statistics = {name: net.state_dict() for name, net in method.nets.items()}
    before = {n: {k: v.clone() for k, v in s.items()} for n, s in statistics.items()}
    method.begin("train/first", 2)
    for number, net in enumerate(method.nets.values()):
        with torch.no_grad():
            logits = net.eval()(method.x)
        loss = F.cross_entropy(logits, method.task.labels, reduction="none")
        expected = (loss - loss.min()) / (loss.max() - loss.min())
        torch.testing.assert_close(seen[number], expected)
    for name, state in statistics.items():
        for key, value in state.items():
            assert torch.equal(value, before[name][key]), key


def test_losses_are_averaged_over_the_last_epochs(monkeypatch):
    numbers = iter(range(100))
    given = []

    def score(function, *, views=("none",), indices=None):
        order = torch.roll(torch.linspace(0, 1, N), next(numbers))
        given.append(order)
        return {"loss": 3 * order + 1}

    averaged = []
    monkeypatch.setattr(
        dividemix_module,
        "low_loss_posterior",
        lambda losses, **_: averaged.append(losses.clone()) or torch.ones_like(losses),
    )
    method = a_method("dividemix", warmup=1, score=score, rate=0.9)
    for epoch in range(1, 9):
        method.begin("train/first", epoch)
    own = given[::2]  # the first network's
    for epoch, mean in enumerate(averaged[::2]):
        torch.testing.assert_close(mean, torch.stack(own[max(0, epoch - 4) : epoch + 1]).mean(0))
    assert a_method("dividemix", rate=0.8).window == 1


@sweep("unlabelled_loss", [True, False])
@sweep("kind", KINDS)
def test_a_step_against_its_formula(kind, unlabelled_loss):
    method = a_method(
        kind, warmup=2, alpha=0.0, lambda_u=7.0, ramp=4.0, unlabelled_loss=unlabelled_loss
    )
    phase = method.begin("train/first", 3)
    weights = torch.linspace(0, 1, N)
    method.weights["first"].write(torch.arange(N), weights)
    views = len(method.views)
    batch = {
        "labelled": a_batch(method, [0, 5, 7, 9], views),
        "unlabelled": a_batch(method, [1, 2, 3, 11], views),
    }
    net, peer = method.nets["first"].eval(), method.nets["second"].eval()  # no batch statistics
    result = method.step(phase, batch, Clock(3, 1, 2))

    def guess(model, view):
        return model(view).detach().softmax(1)

    def sharp(p):
        return p.square() / p.square().sum(1, keepdim=True)

    x, u = batch["labelled"].views, batch["unlabelled"].views
    w = weights[batch["labelled"].index][:, None]
    own = (guess(net, x[0]) + guess(net, x[1])) / 2
    tx = sharp(w * F.one_hot(batch["labelled"].target, C) + (1 - w) * own)
    tu = sharp(sum(guess(m, v) for m in (net, peer) for v in u[:2]) / 4)
    # Nothing is mixed at alpha 0, but the views that are learned from are the last two.
    logits_x = torch.cat([net(v) for v in x[-2:]])
    logits_u = torch.cat([net(v) for v in u[-2:]])
    loss = -(torch.cat([tx, tx]) * logits_x.log_softmax(1)).sum(1).mean()
    every = torch.cat([logits_x, logits_u]) if unlabelled_loss else logits_x
    loss = loss + (1 / C * (1 / C / every.softmax(1).mean(0)).log()).sum()
    if unlabelled_loss:
        ramp = (3 + 1 / 2 - 2) / 4
        loss = loss + 7.0 * ramp * (logits_u.softmax(1) - torch.cat([tu, tu])).square().mean()
    if kind == "unicon":
        z = torch.cat([net.project(v) for v in u[-2:]])
        near = (z @ z.t() / 0.05).exp().fill_diagonal_(0)
        partner = torch.arange(8).roll(4)
        contrast = -(near[torch.arange(8), partner] / near.sum(1)).log().mean()
        loss = loss + 0.025 * contrast
    torch.testing.assert_close(result.loss, loss)


def test_unicon_selects_alike_in_all_classes_and_weighs_by_divergence(monkeypatch):
    divergence = torch.cat([torch.linspace(0.0, 0.3, 12), torch.linspace(0.5, 0.69, 12)])
    method = a_method(
        "unicon", warmup=1, score=lambda *_args, **_kwargs: {"divergence": divergence}
    )
    phase = method.begin("train/first", 1)
    kept = phase.feeds["labelled"].indices
    assert kept.tolist() == list(range(12))
    assert torch.bincount(method.task.labels[kept]).tolist() == [4, 4, 4]
    assert phase.feeds["unlabelled"].batch_size == 4  # int(4 / (2 * 12 / 24))
    assert method.weights["first"].values[:12].tolist() == [1.0] * 12
    torch.testing.assert_close(method.weights["first"].values[12:], 1 - divergence[12:])
    torch.testing.assert_close(method.trust(), 1 - divergence / math.log(2))
    method.begin("train/second", 1)
    assert method.kept_labels().tolist() == [1.0] * 12 + [0.0] * 12


def test_unicon_scores_anew_for_each_network_and_goes_on_with_its_parts():
    method = a_method("unicon", warmup=1, repeats=2, rewarm_every=4, rewarm_lr=0.5)
    assert method.phases(0) == ("warmup/first", "warmup/second")
    assert method.phases(1) == ("train/first", "again/first", "train/second", "again/second")
    assert method.phases(3) == ("warmup/first", "warmup/second")
    assert method.begin("warmup/first", 0).lr is None
    assert method.begin("warmup/first", 3).lr == 0.5
    first = method.begin("train/first", 1)
    with torch.no_grad():
        for p in method.nets["first"].parameters():
            p.mul_(-2)
    again = method.begin("again/first", 1)
    assert again.name == "train/first"
    assert torch.equal(again.feeds["labelled"].indices, first.feeds["labelled"].indices)
    second = method.begin("train/second", 1)
    assert not torch.equal(second.feeds["labelled"].indices, first.feeds["labelled"].indices)


def test_unicon_on_large_sets_repeats_more_turns_round_and_warms_up_in_larger_batches():
    method = a_method("unicon", warmup=1, repeats=2, repeat_more_after=3)
    turn = ("train/first", "again/first", "train/second", "again/second")
    assert method.phases(3) == turn
    assert method.phases(4) == (*turn[:2], "again/first", *turn[2:], "again/second")
    method = a_method("unicon", warmup=1, second_first=True, warmup_batch=4)
    assert method.phases(0) == ("warmup/first", "warmup/second")
    assert method.phases(1) == ("train/second", "train/first")
    assert method.begin("warmup/first", 0).feeds["train"].batch_size == 16
    first = method.begin("train/second", 1)
    assert (first.train, first.frozen) == (("second",), ("first",))


@pytest.mark.parametrize("kind", KINDS)
def test_a_subset_is_balanced_and_the_rest_stands_apart(kind):
    method = a_method(kind, warmup=1, subset=9)
    warm = method.begin("warmup/first", 0).feeds["train"]
    assert len(warm.indices) == 18
    assert warm.batch_size == 8
    phase = method.begin("train/first", 1)
    both = torch.cat([feed.indices for feed in phase.feeds.values()])
    assert torch.bincount(method.task.labels[both]).tolist() == [3, 3, 3]
    assert not torch.equal(both.sort().values, method.drawn("first", 2))
    trust = method.trust()
    assert trust.isfinite().all()


@sweep("kind", KINDS)
@sweep(
    ("right", "labelled", "unlabelled"),
    [(0, 32, 168), (200, 200, None), (199, 199, None), (190, 190, 10)],
)
def test_empty_full_and_small_selections(kind, right, labelled, unlabelled, monkeypatch, tmp_path):
    """Nobody trusted, everybody, all but one, and an unlabelled set smaller than a batch."""
    chosen = torch.arange(200) < right
    monkeypatch.setattr(
        dividemix_module, "low_loss_posterior", lambda losses, **_: chosen.to(losses)
    )
    monkeypatch.setattr(unicon_module, "uniform_selection", lambda *_args, **_kwargs: chosen)
    sizes: list[tuple[int, int | None]] = []
    begin = METHODS[kind].begin

    def watched(self, phase, epoch):
        planned = begin(self, phase, epoch)
        if phase.startswith("train"):
            feeds = planned.feeds
            sizes.append(tuple(len(feeds[name].indices) for name in ("labelled", "unlabelled")))
        return planned

    monkeypatch.setattr(METHODS[kind], "begin", watched)
    run = train(settings(kind, TINY, warmup=1), out=tmp_path / "run")
    assert set(sizes) == {(labelled, unlabelled or 0)}
    assert math.isfinite(run.history[-1]["train/loss"])
    assert ("train/unlabelled" in run.history[-1]) == (unlabelled is not None)


def test_what_is_refused():
    with pytest.raises(UserError, match=r"DivideMix: threshold=1\.5"):
        METHODS["dividemix"](threshold=1.5)
    with pytest.raises(UserError, match="UNICON: cutoff='mine'"):
        METHODS["unicon"](cutoff="mine")
    with pytest.raises(UserError, match="UNICON: warmup_batch=0: expected a number of at least 1"):
        METHODS["unicon"](warmup_batch=0)
    with pytest.raises(UserError, match="UNICON: repeat_more_after=-1"):
        METHODS["unicon"](repeat_more_after=-1)
    with pytest.raises(UserError, match=r"temperature=0\.0: expected a number above 0"):
        METHODS["unicon"](temperature=0.0)
    with pytest.raises(UserError, match="warmup must lie in"):
        a_method("dividemix", warmup=10)
    with pytest.raises(UserError, match="has no projector"):
        METHODS["unicon"]().extend("first", nn.Linear(3, 3))
    METHODS["unicon"](contrastive=0.0).extend("first", nn.Linear(3, 3))


def test_dividemix_weighs_the_unlabelled_loss_as_published():
    # Table 7 of the paper's appendix; CIFAR-100 with asymmetric noise by C2D's sweep.
    published = [
        ("cifar10", "symmetric", 0.2, 0), ("cifar10", "symmetric", 0.5, 25),
        ("cifar10", "symmetric", 0.8, 25), ("cifar10", "symmetric", 0.9, 50),
        ("cifar10", "asymmetric", 0.4, 0), ("cifar100", "symmetric", 0.2, 25),
        ("cifar100", "symmetric", 0.5, 150), ("cifar100", "symmetric", 0.8, 150),
        ("cifar100", "symmetric", 0.9, 150), ("cifar100", "asymmetric", 0.4, 150),
        ("cifar80n-o", "open", 0.2, 25), ("cifar80n-o", "open-asym", 0.4, 150),
        ("cifar10", "human", 0.17, 0), ("clothing1m", None, None, 25), ("digits", "pair", 0.2, 25),
    ]  # fmt: skip
    for dataset, kind, rate, expected in published:
        assert dividemix_module.published_lambda_u(dataset, kind, rate) == expected, dataset
    for rate, threshold in ((0.8, 0.5), (0.9, 0.6)):
        method = a_method("dividemix", rate=rate)
        assert (method.kept_above, method.unlabelled_weight) == (threshold, 25.0)
    assert a_method("dividemix", lambda_u=3, threshold=0.2, rate=0.9).kept_above == 0.2
    assert a_method("dividemix", lambda_u=3).unlabelled_weight == 3


def test_the_warm_up_keeps_predictions_unsure_under_asymmetric_noise():
    import dataclasses

    for kind, option, expected in [
        ("asymmetric", None, True),
        ("open-asym", None, True),
        ("pair", None, True),
        ("open", None, False),
        ("symmetric", None, False),
        ("symmetric", True, True),
        ("asymmetric", False, False),
    ]:
        method = a_method("dividemix", warmup=1, entropy_penalty=option)
        method.task = dataclasses.replace(method.task, noise_kind=kind)
        phase = method.begin("warmup/first", 0)
        batch = a_batch(method, [0, 1, 2, 3], 1)
        logits = method.nets["first"].eval()(batch.views[0])
        loss = F.cross_entropy(logits, batch.target)
        if expected:
            p = logits.softmax(1)
            loss = loss + (p * p.log()).sum(1).mean()
        step = method.step(phase, {"train": batch}, Clock(0, 0, 1))
        torch.testing.assert_close(step.loss, loss)


def precision_and_recall(run: Run) -> tuple[float, float]:
    samples = run.samples
    right, kept = samples["given"] == samples["clean"], samples["trust"] > 0.5
    return float((right & kept).sum() / kept.sum()), float((right & kept).sum() / right.sum())


@pytest.fixture(scope="module")
def plain(tmp_path_factory) -> float:
    """Test accuracy of plain cross entropy after its last epoch, with the same passes over data."""
    run = train(settings("supervised"), out=tmp_path_factory.mktemp("plain"))
    return run.history[-1]["test/accuracy"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("head", ["linear", "sem"])
def test_it_learns_in_spite_of_the_noise(kind, head, plain, tmp_path):
    run = train(settings(kind, {"head": {"name": head}}, warmup=3), out=tmp_path / "run")
    accuracy = run.history[-1]["test/accuracy"]
    precision, recall = precision_and_recall(run)
    # With the plain head above plain training. The masked one varies more: 0.89 to 0.94 over four
    # seeds of either method.
    floor = max(0.92, plain) if head == "linear" else 0.86
    assert accuracy > floor, (accuracy, plain)
    assert precision > 0.95
    assert recall > 0.85


class StopError(Exception):
    """Raised in the middle of a run."""


class StopAt(Observer):
    def __init__(self, steps: int):
        self.left = steps

    def on_step(self, **_: object) -> None:
        self.left -= 1
        if self.left == 0:
            raise StopError


@pytest.mark.parametrize("kind", KINDS)
def test_resumed_in_the_middle_of_either_network_it_ends_the_same(kind, tmp_path):
    layers = (TINY, {"head": {"name": "sem"}, "log": {"checkpoint_steps": 1}})
    config = settings(kind, *layers, warmup=1)
    whole = train(config, out=tmp_path / "whole")
    steps = whole.history[-1]["step"]
    warm = whole.history[0]["step"]
    # In the warm-up, in the first network's part, in the second's.
    for number, stop in enumerate((warm // 2, warm + 2, steps - 2)):
        out: Path = tmp_path / str(number)
        with pytest.raises(StopError):
            train(config, out=out, observers=[StopAt(stop)])
        resumed = train(config, out=out)
        for one, other in zip(whole.history, resumed.history, strict=True):
            assert {k: v for k, v in one.items() if k != "seconds"} == {
                k: v for k, v in other.items() if k != "seconds"
            }
        for key, values in whole.samples.items():
            assert np.array_equal(values, resumed.samples[key]), key
