"""SSR and NCE on the loop: what they feed, what a step minimises, edge cases, accuracy."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import edgemask.methods.nce as nce_module
from edgemask.data import Batch
from edgemask.engine import Objects, load_run, resolve, train
from edgemask.engine.recipes import RECIPES
from edgemask.errors import UserError
from edgemask.methods import METHODS, Clock, Task
from edgemask.models import create
from sweeps import sweep

C, N, BATCH = 3, 30, 6
CLOCK = Clock(5, 0, 1)


def a_method(name, **options):
    """A method with small networks on random images of three classes, most of them of class 0."""
    method = METHODS[name](**options)
    torch.manual_seed(0)
    labels = torch.tensor([0, 0, 0, 1, 2]).repeat(N // 5)
    x = torch.randn(N, 1, 8, 8)
    nets = {
        key: method.extend(
            key,
            create(
                "small-cnn",
                C,
                input_shape=(1, 8, 8),
                width=0.25,
                hidden=8,
                projector=method.projector,
                neck=method.neck,
            ),
        )
        for key in method.networks
    }

    def score(function, *, views=("none",), indices=None, whole=True, epoch=0):
        method.scored = (views, epoch)
        chosen = torch.arange(N) if indices is None else indices
        for net in nets.values():
            net.eval()
        with torch.no_grad():
            rows = function(Batch(chosen, (x[chosen],), labels[chosen]))
        for net in nets.values():
            net.train()
        assert whole == (indices is None)
        return rows

    task = Task(
        num_classes=C,
        labels=labels,
        epochs=10,
        batch_size=BATCH,
        criterion=nn.CrossEntropyLoss(),
        device=torch.device("cpu"),
        generator=torch.Generator().manual_seed(0),
        score=score,
        nominal_rate=0.4,
    )
    method.setup(task, nets)
    method.x = x
    return method


def a_batch(method, indices, views):
    index = torch.tensor(indices)
    x = method.x[index]
    shifted = tuple(x + 0.1 * number for number in range(views))
    return Batch(index, shifted, method.task.labels[index])


def test_ssr_scores_weak_views_and_repeats_small_classes():
    method = a_method("ssr", theta_s=0.0)  # every label is kept
    phase = method.begin("train", 3)
    assert method.scored == (("weak",), 3)
    assert list(phase.feeds) == ["all", "labelled"]  # all samples set the length
    assert phase.feeds["all"].views == ("weak", "strong")
    drawn = phase.feeds["labelled"].indices
    counts = method.labels[drawn].bincount(minlength=C)
    assert counts.tolist() == [counts.max()] * C
    assert set(drawn.tolist()) == set(range(N))
    alone = a_method("ssr", consistency=0.0).begin("train", 3)
    assert list(alone.feeds) == ["labelled"]
    assert alone.steps == N // BATCH


def test_ssr_relabels_from_the_given_labels_every_epoch():
    method = a_method("ssr", theta_r=0.0)
    method.begin("train", 0)
    with torch.no_grad():
        predicted = method.nets["net"].eval()(method.x).argmax(dim=1)
    assert torch.equal(method.labels.values, predicted)
    assert method.end_epoch(0)["train/relabelled"] == pytest.approx(
        float((predicted != method.task.labels).float().mean())
    )
    method.theta_r = 1.0
    method.begin("train", 1)
    assert torch.equal(method.labels.values, method.task.labels)
    trust = method.trust()
    assert ((trust >= 0) & (trust <= 1)).all()


def test_ssr_with_too_few_votes_still_has_a_batch_to_learn_from():
    method = a_method("ssr", theta_s=1.0, neighbours=1)
    phase = method.begin("train", 0)
    assert len(phase.feeds["labelled"].indices) >= BATCH


def test_a_subset_of_ssr_is_scored_and_fed_alone():
    method = a_method("ssr", subset=9, theta_s=0.0)
    phase = method.begin("train", 2)
    drawn = phase.feeds["all"].indices
    assert method.task.labels[drawn].bincount().tolist() == [3, 3, 3]
    assert set(phase.feeds["labelled"].indices.tolist()) == set(drawn.tolist())
    assert method.votes.values.isfinite().sum() == 9
    assert method.trust().isfinite().all()
    assert method.end_epoch(2)["train/selected"] == 1.0


def test_step_of_ssr_by_hand():
    method = a_method("ssr", consistency=0.5)
    phase = method.begin("train", 0)
    method.labels.write(torch.arange(N), (torch.arange(N) + 1) % C)
    labelled, everyone = a_batch(method, [0, 4, 4, 9], 2), a_batch(method, [1, 2, 3, 5], 2)
    state = {key: value.clone() for key, value in method.nets["net"].state_dict().items()}
    generator = method.task.generator.get_state()
    result = method.step(phase, {"all": everyone, "labelled": labelled}, CLOCK)

    net = method.nets["net"]
    net.load_state_dict(state)
    method.task.generator.set_state(generator)
    gamma = torch._standard_gamma(
        torch.full((2,), 4.0, dtype=torch.float64), generator=method.task.generator
    )
    share = float(gamma[0] / gamma.sum())
    share = max(share, 1 - share)
    order = torch.randperm(8, generator=method.task.generator)
    rows = torch.cat(labelled.views)
    target = F.one_hot((labelled.index + 1) % C, C).float().repeat(2, 1)
    logits = net(share * rows + (1 - share) * rows[order])
    mixed = share * target + (1 - share) * target[order]
    by_label = -(mixed * logits.log_softmax(dim=1)).sum(dim=1).mean()
    weak = net.projector.layers(net.encode(everyone.views[0])).detach()
    strong = net.predictor(net.projector.layers(net.encode(everyone.views[1])))
    cosine = (strong * weak).sum(dim=1) / strong.norm(dim=1) / weak.norm(dim=1)
    torch.testing.assert_close(result.loss, by_label - 0.5 * cosine.mean())


def test_ssr_may_start_from_small_weights():
    net = a_method("ssr", initial_std=1e-3).nets["net"]
    for part in (net.head, net.projector.layers[0], net.predictor.layers[3]):
        assert float(part.weight.detach().std()) == pytest.approx(1e-3, rel=0.3)
        assert not part.bias.any()


@sweep("name", ["ssr", "nce"])
def test_models_without_features_are_refused(name, tmp_path):
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    config = resolve({"data": {"spec": "digits"}, "method": {"name": name}})
    with pytest.raises(UserError, match=r"reads the features before the classifier.*Sequential"):
        train(config, out=tmp_path / name, objects=Objects(model=lambda: net))


def test_nce_exchanges_divisions_and_is_as_long_as_its_longer_part(monkeypatch):
    method = a_method("nce", warmup=2, theta_v=0.5)
    scores = iter([torch.linspace(0, 1, N), torch.linspace(1, 0, N)])
    monkeypatch.setattr(nce_module, "label_disagreement", lambda *_: next(scores))
    first, second = method.begin("train/first", 2), method.begin("train/second", 2)
    # The first network scores first, for the second one.
    assert second.feeds["labelled"].indices.tolist() == list(range(15))
    assert first.feeds["labelled"].indices.tolist() == list(range(15, N))
    assert first.steps == 15 // BATCH + 1
    torch.testing.assert_close(method.weights["second"].values[:3], 1 - torch.linspace(0, 1, N)[:3])
    torch.testing.assert_close(method.trust(), torch.full((N,), 0.5))
    assert method.scored == (("none",), 0)
    assert {type(net.neck) for net in method.nets.values()} == {nn.Linear}


def test_nce_corrects_by_sure_labels_alone(monkeypatch):
    method = a_method("nce", warmup=2, theta_c=0.3)
    asked = {}

    def corrected(features, logits, labels, *, unlabelled, candidates, count, threshold):
        asked.update(candidates=candidates, count=count, threshold=threshold)
        return torch.ones_like(unlabelled)

    monkeypatch.setattr(nce_module, "corrected_labels", corrected)
    monkeypatch.setattr(nce_module, "label_disagreement", lambda *_: torch.arange(N) / N)
    method.begin("train/first", 2)
    assert (method.corrections["first"].values == -1).all()  # too few candidates
    monkeypatch.setattr(nce_module, "_LEAST_CANDIDATES", 3)
    method.begin("train/first", 2)
    kept = math.ceil(0.75 * N)
    assert asked["candidates"].tolist() == list(range(N // 2))
    assert (asked["count"], asked["threshold"]) == (20, 0.3)
    table = method.corrections["first"].values
    assert table.tolist() == [-1] * kept + [1] * (N - kept)
    assert method.end_epoch(2)["train/corrected"] == pytest.approx((N - kept) / N / 2)
    assert not a_method("nce", theta_c=0.0).corrects
    assert not a_method("nce", correct_above=0.4).corrects  # the noise rate is known


@sweep("strong", [False, True])
def test_step_of_nce_by_hand(strong):
    method = a_method("nce", warmup=2, alpha=0.0, strong_labelled=strong)
    phase = method.begin("train/first", 2)
    method.weights["first"].write(torch.arange(N), torch.full((N,), 0.7))
    table = torch.full((N,), -1)
    table[[10, 12]] = torch.tensor([2, 0])
    method.corrections["first"].write(torch.arange(N), table)
    labelled, unlabelled = a_batch(method, [0, 4, 9], 3), a_batch(method, [10, 11, 12, 13], 3)
    net = method.nets["first"]
    state = {key: value.clone() for key, value in net.state_dict().items()}
    result = method.step(phase, {"labelled": labelled, "unlabelled": unlabelled}, CLOCK)
    net.load_state_dict(state)
    with torch.no_grad():
        guess = (net(labelled.views[0]).softmax(1) + net(labelled.views[1]).softmax(1)) / 2
    target = 0.7 * F.one_hot(labelled.target, C) + 0.3 * guess
    target = (target**2 / (target**2).sum(dim=1, keepdim=True)).repeat(2, 1)
    logits = net(torch.cat(labelled.views[:2]))
    by_label = -(target * logits.log_softmax(dim=1)).sum(dim=1).mean()
    mean = logits.softmax(dim=1).mean(dim=0)
    prior = sum(math.log(1 / C / float(mean[c])) / C for c in range(C))
    views, goal = unlabelled.views[2], torch.tensor([2, -1, 0, -1])
    if strong:
        views = torch.cat([views, labelled.views[2]])
        goal = torch.cat([goal, labelled.target])
    rows = net(views).log_softmax(dim=1)
    corrected = -sum(rows[i, c] for i, c in enumerate(goal.tolist()) if c >= 0) / len(goal)
    torch.testing.assert_close(result.loss, by_label + prior + corrected)


@functools.cache
def plain_accuracy(folder, seed):
    """The last epoch of plain cross entropy with the same network, budget and weak view."""
    layer = RECIPES["digits/ssr"].layer()
    layer["method"] = {"name": "supervised"}
    config = resolve(layer, seeded(seed))
    return train(config, out=folder / f"plain-{seed}").history[-1]["test/accuracy"]


def seeded(seed):
    return {
        "train": {"seed": seed, "record_every": 0},
        "noise": {"seed": seed},
        "eval": {"every": 100},
        "log": {"trackers": [], "thumbnails": 0},
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("learn")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ssr", "nce"])
def test_five_points_above_plain_training_and_knows_the_wrong_labels(name, folder):
    gains = []
    for seed in (1, 2, 3):
        run = train(RECIPES[f"digits/{name}"].config(seeded(seed)), out=folder / f"{name}-{seed}")
        gains.append(run.history[-1]["test/accuracy"] - plain_accuracy(folder, seed))
        samples = load_run(run.path).samples
        right = samples["clean"] == samples["given"]
        # Of a right and a wrong label, how often the right one is trusted more.
        trust = samples["trust"]
        above = (trust[right][:, None] > trust[~right][None, :]).mean()
        level = (trust[right][:, None] == trust[~right][None, :]).mean()
        assert above + level / 2 > 0.95
    assert np.mean(gains) >= 0.05, gains
