"""SSR, NCE and ProMix: what they feed, what a step minimises, edge cases, accuracy."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import edgemask.methods.neighborhood as neighborhood_module
from edgemask.data import Batch
from edgemask.engine import Objects, load_run, resolve, train
from edgemask.engine.recipes import RECIPES
from edgemask.errors import UserError
from edgemask.methods import METHODS, Clock, Task
from edgemask.methods.parts.fmix import fmix, low_frequency_mask
from edgemask.models import create
from sweeps import sweep

NEIGHBORHOOD = "neighborhood-collective-estimation"
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
    kept = method.kept_labels() > 0
    assert torch.equal(kept & (predicted != method.task.labels), torch.zeros_like(kept))
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
    given = method.labels.values == method.task.labels
    assert set(method.kept_labels().nonzero().flatten().tolist()) == {
        i for i in drawn.tolist() if given[i]
    }


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


@sweep("name", ["ssr", NEIGHBORHOOD, "promix"])
def test_models_without_features_are_refused(name, tmp_path):
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    config = resolve({"data": {"spec": "digits"}, "method": {"name": name}})
    with pytest.raises(UserError, match=r"reads the features before the classifier.*Sequential"):
        train(config, out=tmp_path / name, objects=Objects(model=lambda: net))


def test_neighborhood_exchanges_divisions_and_is_as_long_as_its_longer_part(monkeypatch):
    method = a_method(NEIGHBORHOOD, warmup=2, theta_v=0.5)
    scores = iter([torch.linspace(0, 1, N), torch.linspace(1, 0, N)])
    monkeypatch.setattr(neighborhood_module, "label_disagreement", lambda *_: next(scores))
    first, second = method.begin("train/first", 2), method.begin("train/second", 2)
    # The first network scores first, for the second one.
    assert second.feeds["labelled"].indices.tolist() == list(range(15))
    assert first.feeds["labelled"].indices.tolist() == list(range(15, N))
    assert first.steps == 15 // BATCH + 1
    torch.testing.assert_close(method.weights["second"].values[:3], 1 - torch.linspace(0, 1, N)[:3])
    torch.testing.assert_close(method.trust(), torch.full((N,), 0.5))
    assert method.scored == (("none",), 0)
    assert {type(net.neck) for net in method.nets.values()} == {nn.Linear}


def test_neighborhood_corrects_by_sure_labels_alone(monkeypatch):
    method = a_method(NEIGHBORHOOD, warmup=2, theta_c=0.3)
    asked = {}

    def corrected(features, logits, labels, *, unlabelled, candidates, count, threshold):
        asked.update(candidates=candidates, count=count, threshold=threshold)
        return torch.ones_like(unlabelled)

    monkeypatch.setattr(neighborhood_module, "corrected_labels", corrected)
    monkeypatch.setattr(neighborhood_module, "label_disagreement", lambda *_: torch.arange(N) / N)
    method.begin("train/first", 2)
    assert (method.corrections["first"].values == -1).all()  # too few candidates
    monkeypatch.setattr(neighborhood_module, "_LEAST_CANDIDATES", 3)
    method.begin("train/first", 2)
    kept = math.ceil(0.75 * N)
    assert asked["candidates"].tolist() == list(range(N // 2))
    assert (asked["count"], asked["threshold"]) == (20, 0.3)
    table = method.corrections["first"].values
    assert table.tolist() == [-1] * kept + [1] * (N - kept)
    assert method.end_epoch(2)["train/corrected"] == pytest.approx((N - kept) / N / 2)
    assert not a_method(NEIGHBORHOOD, theta_c=0.0).corrects
    assert not a_method(NEIGHBORHOOD, correct_above=0.4).corrects  # the noise rate is known


@sweep("strong", [False, True])
def test_step_of_neighborhood_by_hand(strong):
    method = a_method(NEIGHBORHOOD, warmup=2, alpha=0.0, strong_labelled=strong)
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
    prior = sum(math.log(1 / C / float(mean[c].detach())) / C for c in range(C))
    views, goal = unlabelled.views[2], torch.tensor([2, -1, 0, -1])
    if strong:
        views = torch.cat([views, labelled.views[2]])
        goal = torch.cat([goal, labelled.target])
    rows = net(views).log_softmax(dim=1)
    corrected = -sum(rows[i, c] for i, c in enumerate(goal.tolist()) if c >= 0) / len(goal)
    torch.testing.assert_close(result.loss, by_label + prior + corrected)


def test_promix_chooses_by_class_and_each_network_for_itself():
    method = a_method("promix", warmup=2, rho=0.4)
    method.begin("train", 2)
    for name, net in method.nets.items():
        with torch.no_grad():
            losses = F.cross_entropy(net.eval()(method.x), method.task.labels, reduction="none")
        chosen = method.selected[name].values.bool()
        for label in range(C):
            members = method.task.labels == label
            quota = min(math.ceil(0.4 * N / C), int(members.sum()))
            best = losses[members].sort().values[:quota]
            assert sorted(losses[members & chosen].tolist()) == pytest.approx(best.tolist())
        assert type(net.auxiliary) is nn.Linear
    assert method.trust() is None  # nothing was trained on


def cross_entropy(logits, target):
    """The cross entropy of each row by its definition."""
    pairs = zip(logits.detach(), target, strict=True)
    return [-float((t * z.log_softmax(0)).sum()) for z, t in pairs]


def test_step_of_promix_by_hand():
    method = a_method(
        "promix", warmup=1, alpha=0.0, fmix=False, tau=0.4, ramp=10.0, guess_epochs=5, debias=0.5
    )
    phase = method.begin("train", 5)
    prior = {key: torch.tensor([0.5, 0.3, 0.2]) for key in method.priors}
    prior["second/others"] = torch.tensor([0.1, 0.1, 0.8])
    for key, values in prior.items():
        method.priors[key].values = values
    batch = a_batch(method, list(range(0, 24, 2)), 2)
    states = {
        name: {key: value.clone() for key, value in net.state_dict().items()}
        for name, net in method.nets.items()
    }
    result = method.step(phase, {"train": batch}, CLOCK)
    for name, net in method.nets.items():
        net.load_state_dict(states[name])

    outputs = {}
    for name, net in method.nets.items():
        weak, strong = (net.embed(view) for view in batch.views)
        outputs[name] = [
            part(features) for part in (net.head, net.auxiliary) for features in (weak, strong)
        ]
    p = {name: out[0].detach().softmax(dim=1) for name, out in outputs.items()}
    total, sizes = 0.0, []
    for name, net in method.nets.items():
        trusted = [
            bool(method.selected[name].values[i]) or float(p[name][row, y]) > 0.4
            for row, (i, y) in enumerate(zip(batch.index, batch.target, strict=True))
        ]
        p1, p2 = p["first"], p["second"]
        sure = [
            row
            for row in range(12)
            if not trusted[row]
            and p1[row].argmax() == p2[row].argmax()
            and min(p1[row].max(), p2[row].max()) > 0.4
        ]
        sure.sort(key=lambda row: -float(p1[row].max() + p2[row].max()))
        room = int(0.9 * 12) - sum(trusted)
        chosen = [row for row in range(12) if trusted[row] or row in sure[: max(room, 0)]]
        others = [row for row in range(12) if row not in chosen]
        sizes.append(len(chosen))
        bias = 0.5 * prior[f"{name}/chosen"].log()
        guess = (outputs[name][0] - bias).argmax(dim=1)
        labels = torch.tensor([batch.target[r] if trusted[r] else guess[r] for r in range(12)])
        target = F.one_hot(labels, C).float()[chosen]
        gain = 0.5
        for weak, strong in (outputs[name][:2], outputs[name][2:]):
            total += np.mean(cross_entropy(weak[chosen] + bias, target))
            total += gain * np.mean(cross_entropy(strong[chosen] + bias, target))
        # With alpha 0 nothing is mixed: the chosen images once more, for either classifier.
        again = [part(net.embed(batch.views[0][chosen])) for part in (net.head, net.auxiliary)]
        total += gain * sum(np.mean(cross_entropy(z + bias, target)) for z in again)
        bias = 0.5 * prior[f"{name}/others"].log()
        q = (outputs[name][0] - bias).softmax(dim=1).detach()[others] ** 2
        q = q / q.sum(dim=1, keepdim=True)
        # 100 of 600 epochs are 1.7 of 10: the weight is at its end.
        if others:
            total += 0.1 * np.mean(cross_entropy(outputs[name][2][others] + bias, q))
            total += 0.1 * gain * np.mean(cross_entropy(outputs[name][3][others] + bias, q))
    assert float(result.loss.detach()) == pytest.approx(total, abs=1e-4)
    assert float(result.logs["selected"]) == pytest.approx(np.mean(sizes) / 12)

    method.prior_momentum = 0.9
    method.after_step(phase, CLOCK)
    values = method.priors["first/chosen"].values
    assert float(values.sum()) == pytest.approx(1, abs=1e-5)
    assert not torch.equal(values, prior["first/chosen"])
    trust = method.trust()
    assert ((trust >= 0) & (trust <= 1)).all()


@sweep("rho", [0.0, 1.0])
def test_promix_with_hardly_any_or_all_labels_chosen_stays_finite(rho, tmp_path):
    config = RECIPES["digits/promix"].config(
        seeded(1),
        {"data": {"limit": 80, "test_limit": 20}, "train": {"epochs": 2}},
        {"method": {"options": {"rho": rho, "warmup": 1, "tau": 1.0, "guess_epochs": 0}}},
    )
    run = train(config, out=tmp_path / str(rho))
    assert math.isfinite(run.history[-1]["train/loss"])


def test_fmix_joins_images_in_large_shapes():
    x = torch.stack([torch.full((1, 16, 16), float(i)) for i in range(6)])
    target = torch.eye(6)
    generator = torch.Generator().manual_seed(4)
    mixed, goal, share, pairs = fmix(x, target, alpha=1.0, generator=generator)
    for i in range(6):
        assert set(mixed[i].unique().tolist()) <= {float(i), float(pairs[i])}
        torch.testing.assert_close(goal[i], share * target[i] + (1 - share) * target[pairs[i]])
    first = next(i for i in range(6) if pairs[i] != i)
    assert float((mixed[first] == first).float().mean()) == pytest.approx(share, abs=1 / 256)
    # Neighbouring pixels are nearly always on the same side.
    masks = torch.stack([low_frequency_mask(0.5, (32, 32), generator) for _ in range(20)])
    assert float((masks[:, 1:] != masks[:, :-1]).float().mean()) < 0.08
    with pytest.raises(UserError, match="fmix=false"):
        fmix(torch.zeros(4, 3), torch.eye(4), alpha=1.0, generator=generator)


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


@pytest.mark.long
@pytest.mark.parametrize("name", ["ssr", NEIGHBORHOOD, "promix"])
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
