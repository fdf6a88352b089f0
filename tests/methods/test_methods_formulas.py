"""One step of each method against its formula, written out sample by sample."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from edgemask.data import Batch
from edgemask.methods import CA2C, Clock, CoTeaching, JoCoR, JoSNC, JoSRC, Task
from edgemask.models import create
from sweeps import sweep

CLASSES, SAMPLES, FEATURES = 4, 40, 5


def task(labels, **changes):
    settings = {
        "num_classes": CLASSES,
        "labels": labels,
        "epochs": 20,
        "batch_size": len(labels),
        "criterion": nn.CrossEntropyLoss(),
        "device": torch.device("cpu"),
        "generator": torch.Generator(),
        "score": lambda *_, **__: {},
        "nominal_rate": 0.4,
        "realised_rate": 0.4,
        "noise_kind": "symmetric",
    }
    return Task(**{**settings, **changes})


def mlp(projector=None):
    model = create("mlp", CLASSES, input_shape=(FEATURES,), hidden=(8,), projector=projector)
    # No batch normalisation, so that a pass has no memory and rows do not touch each other.
    for path, module in list(model.named_modules()):
        if isinstance(module, nn.BatchNorm1d):
            model.set_submodule(path, nn.Identity())
    return model


def ready(method, labels, **changes):
    nets = {name: mlp(method.projector) for name in method.networks}
    nets |= {name: copy.deepcopy(nets[source]) for name, source in method.copies.items()}
    method.setup(task(labels, **changes), nets)
    return method


def batch(views, size=10):
    index = torch.randperm(SAMPLES)[:size]
    labels = torch.randint(CLASSES, (SAMPLES,))
    pictures = tuple(torch.randn(size, FEATURES) for _ in range(views))
    return labels, {"train": Batch(index, pictures, labels[index])}


def step(method, epoch, inputs, phase=None):
    method.start_epoch(epoch)
    described = method.begin(phase or method.phases(epoch)[0], epoch)
    return described, method.step(described, inputs, Clock(epoch, 0, 1))


def log_p(net, x):
    return F.log_softmax(net(x), dim=1).tolist()


def p_of(net, x):
    return F.softmax(net(x), dim=1).tolist()


def ce(log_probs, target):
    return -sum(t * lp for t, lp in zip(target, log_probs, strict=True))


def kl(p, q):
    return sum(a * math.log(a / b) for a, b in zip(p, q, strict=True))


def js(p, q):
    m = [(a + b) / 2 for a, b in zip(p, q, strict=True)]
    return (kl(p, m) + kl(q, m)) / 2 / math.log(2)


def smooth(y, rate):
    return [1 - rate if c == y else rate / (CLASSES - 1) for c in range(CLASSES)]


def test_coteaching_crosses_the_choices():
    labels, inputs = batch(1)
    method = ready(CoTeaching(gradual=10), labels)
    _, result = step(method, 15, inputs)  # the full drop rate: 6 of 10 stay
    _, (x,), y = inputs["train"]
    losses = [[-row[c] for row, c in zip(log_p(method.nets[n], x), y.tolist(), strict=True)]
              for n in ("first", "second")]  # fmt: skip
    easy = [sorted(range(10), key=lambda i, own=own: own[i])[:6] for own in losses]
    expected = [sum(losses[n][i] for i in easy[1 - n]) / 6 for n in (0, 1)]
    assert result.loss.item() == pytest.approx(sum(expected), rel=1e-5)
    # Each network's gradient is that of its own loss on the other's choice, nothing else.
    result.loss.backward()
    for n, name in enumerate(("first", "second")):
        twin = copy.deepcopy(method.nets[name])
        twin.zero_grad()
        F.cross_entropy(twin(x)[easy[1 - n]], y[easy[1 - n]]).backward()
        for mine, theirs in zip(method.nets[name].parameters(), twin.parameters(), strict=True):
            assert torch.allclose(mine.grad, theirs.grad, atol=1e-6)
    # Both choices are noted, by sample.
    index = inputs["train"].index.tolist()
    for row, sample in enumerate(index):
        votes = (row in easy[0]) + (row in easy[1])
        assert method.votes.values[sample].tolist() == [votes, 2]


def test_coteaching_with_all_dropped_learns_nothing_and_is_finite():
    labels, inputs = batch(1, size=1)
    method = ready(CoTeaching(), labels)
    _, result = step(method, 15, inputs)  # int(0.6 * 1) = 0 samples stay
    result.loss.backward()
    assert result.loss.item() == 0
    assert all(p.grad.abs().sum() == 0 for p in method.nets["first"].parameters())


def test_jocor_takes_the_joint_loss_and_one_optimiser():
    labels, inputs = batch(1)
    method = ready(JoCoR(co_lambda=0.7), labels)
    _, result = step(method, 15, inputs)
    _, (x,), y = inputs["train"]
    p1, p2 = p_of(method.nets["first"], x), p_of(method.nets["second"], x)
    joint = []
    for a, b, c in zip(p1, p2, y.tolist(), strict=True):
        joint.append(0.3 * (-math.log(a[c]) - math.log(b[c])) + 0.7 * (kl(a, b) + kl(b, a)))
    assert result.loss.item() == pytest.approx(sum(sorted(joint)[:6]) / 6, rel=1e-4)
    assert method.optimisers() == {"both": ("first", "second")}


@sweep("method", [CoTeaching, JoCoR])
def test_the_drop_rate_is_the_share_of_wrong_labels(method):
    # CIFAR-10 with Asym-40: half of the classes are affected, so that JoCoR's paper drops half.
    labels = torch.zeros(SAMPLES, dtype=torch.long)
    rates = {"nominal_rate": 0.4, "realised_rate": 0.2, "noise_kind": "asymmetric"}
    assert ready(method(), labels, **rates).rate == 0.2
    assert ready(method(noise_rate="nominal"), labels, **rates).rate == 0.4
    assert ready(method(forget_rate=0.3), labels, **rates).rate == 0.3
    # Every class is affected (CIFAR-100): nothing is halved.
    assert ready(method(), labels, noise_kind="asymmetric").rate == 0.4
    # Only one of the two is known.
    assert ready(method(), labels, realised_rate=None).rate == 0.4
    assert (
        ready(method(noise_rate="nominal"), labels, nominal_rate=None, realised_rate=0.1).rate
        == 0.1
    )


def test_ca2c_counts_votes_and_learns_from_them():
    labels, inputs = batch(2)
    method = ready(CA2C(warmup=1), labels)
    index, (x, strong), y = inputs["train"]
    weak = {"train": Batch(index, (x,), y)}
    _, warm = step(method, 0, weak)
    expected, votes = 0.0, torch.zeros(SAMPLES, CLASSES)
    for name in ("partial", "negative"):
        rows = p_of(method.nets[name], x)
        for i, row in enumerate(rows):
            entropy = sum(p * math.log(p) for p in row)
            expected += (-math.log(row[y[i]]) + entropy) / 10
            for c in sorted(range(CLASSES), key=lambda c, row=row: -row[c])[:2]:
                votes[index[i], c] += 1
    assert warm.loss.item() == pytest.approx(expected, rel=1e-4)
    assert torch.equal(method.counts.values, votes)

    _, result = step(method, 1, inputs)
    positive, negative = (log_p(method.nets[n], x) for n in ("partial", "negative"))
    strong_p, strong_n = (log_p(method.nets[n], strong) for n in ("partial", "negative"))
    total = 0.0
    for i in range(10):
        for c in sorted(range(CLASSES), key=lambda c, i=i: -negative[i][c])[:2]:
            votes[index[i], c] += 1
        counts = votes[index[i]].tolist()
        soft = [v / sum(counts) for v in counts]
        hard = counts.index(max(counts))
        pll = max(soft) * (0.99 * -positive[i][hard] + 0.01 * ce(positive[i], soft))
        top = sorted(range(CLASSES), key=lambda c, i=i: -positive[i][c])[:2]
        nl = -sum(math.log(1 - math.exp(negative[i][c])) for c in range(CLASSES) if c not in top)
        own_p = -strong_p[i][positive[i].index(max(positive[i]))]
        own_n = -strong_n[i][negative[i].index(max(negative[i]))]
        total += (0.8 * (pll + nl) + 0.2 * (own_p + own_n)) / 10
    assert result.loss.item() == pytest.approx(total, rel=1e-4)
    assert torch.equal(method.counts.values, votes)
    # After the warm-up the given labels are not used.
    other = {"train": Batch(index, (x, strong), (y + 1) % CLASSES)}
    method.counts.values.copy_(votes)
    again = step(method, 1, other)[1].loss
    method.counts.values.copy_(votes)
    assert again.item() == step(method, 1, inputs)[1].loss.item()


def test_ca2c_trusts_the_label_that_gets_the_votes():
    labels = torch.tensor([0, 1, 2])
    method = ready(CA2C(warmup=1), labels)
    method.counts.values = torch.tensor([[9.0, 1, 0, 0], [9.0, 1, 0, 0], [5.0, 0, 5, 0]])
    assert method.trust().tolist() == pytest.approx([9.5 / 11, 1.5 / 11, 0.5])


@sweep("epoch", [0, 1, 12])
def test_josrc_sorts_and_teaches(epoch):
    labels, inputs = batch(2, size=16)
    # With these weights and this smoothing all three kinds of samples occur.
    method = ready(JoSRC(warmup=2, smoothing=0.2, tau=0.6, tau_end=0.9), labels)
    for weight in method.nets["teacher"].parameters():
        weight.data.mul_(1.5)
    for weight in method.nets["net"].head.parameters():
        weight.data.mul_(4)
    _, result = step(method, epoch, inputs)
    index, (x1, x2), y = inputs["train"]
    p1, p2 = p_of(method.nets["net"], x1), p_of(method.nets["net"], x2)
    t1, t2 = p_of(method.nets["teacher"], x1), p_of(method.nets["teacher"], x2)
    tau = 0.6 * epoch / 2 if epoch < 2 else 0.6 + 0.3 * (epoch - 2) / 18
    kinds, warm, learnt, signed = [], [], 0.0, 0.0
    for i in range(16):
        q = smooth(int(y[i]), 0.2)
        clean = 1 - js(p1[i], q)
        assert method.clean.values[index[i]].item() == pytest.approx(clean, abs=1e-5)
        both = lambda t, i=i: ce(map(math.log, p1[i]), t) + ce(map(math.log, p2[i]), t)  # noqa: E731
        teacher = [(a + b) / 2 for a, b in zip(t1[i], t2[i], strict=True)]
        agree = (kl(p1[i], p2[i]) + kl(p2[i], p1[i])) / math.log(2)
        if clean >= tau:
            kinds.append("clean")
            warm.append(both(q))
            learnt, signed = learnt + both(q), signed + agree
        elif p1[i].index(max(p1[i])) == p2[i].index(max(p2[i])):
            kinds.append("inside")
            learnt, signed = learnt + both(teacher), signed + agree
        else:
            kinds.append("outside")
            flat = [math.exp(v / 10) for v in teacher]
            learnt += both([v / sum(flat) for v in flat])
            signed -= agree
    if epoch < 2:
        assert result.loss.item() == pytest.approx(sum(warm) / len(warm), rel=1e-4)
    else:
        assert set(kinds) == {"clean", "inside", "outside"}
        assert result.loss.item() == pytest.approx((0.5 * learnt + 0.5 * signed) / 16, rel=1e-4)


def test_josrc_with_nothing_clean_in_the_warmup_is_finite():
    labels, inputs = batch(2)
    method = ready(JoSRC(warmup=2, smoothing=0.0, tau=1.0), labels)
    method.start_epoch(1)
    method.threshold = 2.0
    result = method.step(method.begin("warmup", 1), inputs, Clock(1, 0, 1))
    result.loss.backward()
    assert result.loss.item() == 0


def test_teacher_follows_after_the_step():
    labels, inputs = batch(2)
    method = ready(JoSRC(momentum=0.75), labels)
    described, _ = step(method, 3, inputs)
    for weight in method.nets["net"].parameters():
        weight.data.add_(1.0)
    before = [w.detach().clone() for w in method.nets["teacher"].parameters()]
    method.after_step(described, Clock(3, 0, 1))
    for old, new in zip(before, method.nets["teacher"].parameters(), strict=True):
        assert torch.allclose(new, old + 0.25, atol=1e-6)


@sweep("contrast", ["same", "cross"])
@sweep("remembered", ["query", "key"])
def test_josnc_sorts_by_itself_and_its_neighbours(contrast, remembered):
    labels, inputs = batch(2, size=24)
    options = {"smoothing": 0.3, "alpha": 0.5, "beta": 0.7, "gamma": 0.2, "neighbours": 3}
    method = ready(
        JoSNC(
            warmup=1, features=6, top_k=2, queue=30, contrast=contrast, remembered=remembered,
            **options,
        ),
        labels,
    )  # fmt: skip
    net, key = method.nets["net"], method.nets["key"]
    for weight in key.parameters():
        weight.data.mul_(1.3)
    for weight in net.head.parameters():
        weight.data.mul_(3)
    index, (x1, x2), y = inputs["train"]
    # A queue with other samples, and with two of this batch from an epoch ago.
    rows = F.normalize(torch.randn(8, 6), dim=1)
    known = torch.cat([index[:2], torch.tensor([99, 98, 97, 96, 95, 94])])
    stored = torch.randn(8, CLASSES)
    method.memory.push(key=rows, logits=stored, index=known)
    method.tau_clean.values = torch.tensor([0.80, 0.85, 0.90, 0.75])
    method.tau_outside.values = torch.tensor([0.2, 0.4, 0.3, 0.1])
    described, result = step(method, 1, inputs)

    f1, f2 = (net.project(x).tolist() for x in (x1, x2))
    fk = key.project(x1).tolist()
    z1, z2, zk = net(x1).tolist(), net(x2).tolist(), key(x1).tolist()
    p1, p2, t = p_of(net, x1), p_of(net, x2), p_of(key, x1)
    kinds = []
    total = {"cls": 0.0, "pred": [], "feat": 0.0, "ncr": []}
    for i in range(24):
        q, c = smooth(int(y[i]), 0.3), int(y[i])
        own = 1 - js(p1[i], q)
        sharp = [F.softmax(torch.tensor(z[i]) / 0.1, dim=0).clamp(min=1e-38).tolist()
                 for z in (z1, z2)]  # fmt: skip
        outside_score = js(*sharp)
        near = sorted(
            (n for n in range(8) if known[n] != index[i]),
            key=lambda n, i=i: -float(rows[n] @ torch.tensor(f1[i])),
        )[:3]
        answers = F.softmax(stored, dim=1).tolist()
        others = sum(1 - js(answers[n], q) for n in near) / 3
        if own >= method.tau_clean.values[c] or others > method.tau_clean.values[c]:
            kind = "clean" if own >= method.tau_clean.values[c] else "neighbours"
            loss = lambda p, q=q: ce(map(math.log, p), q)  # noqa: E731
        elif outside_score > method.tau_outside.values[c]:
            kind = "outside"
            low = min(t[i])
            loss = lambda p, i=i, low=low: (1 - low) ** 2 * -math.log(1 - p[t[i].index(low)])  # noqa: E731
        else:
            kind = "inside"
            top = sorted(range(CLASSES), key=lambda k, i=i: -t[i][k])[:2]
            u = [math.exp(v / 0.1 if k in top else v) for k, v in enumerate(t[i])]
            target = [v / sum(u) for v in u]
            weight = math.sqrt(sum(t[i][k] for k in top))
            loss = lambda p, w=weight, g=target: w * ce(map(math.log, p), g)  # noqa: E731
        kinds.append(kind)
        total["cls"] += (loss(p1[i]) + loss(p2[i])) / 2 / 24
        view = f1[i] if contrast == "same" else f2[i]
        dot = lambda a, b: sum(v * w for v, w in zip(a, b, strict=True))  # noqa: E731
        good = math.exp(dot(view, fk[i]) / 0.1)
        bad = sum(math.exp(dot(view, row) / 0.1) for row in rows.tolist())
        total["feat"] += -math.log(good / (good + bad)) / 24
        if kind != "outside":
            total["pred"].append((kl(p1[i], p2[i]) + kl(p2[i], p1[i])) / math.log(2))
            weights = [max(float(rows[n] @ torch.tensor(f1[i])), 0) ** 0.3 for n in near]
            if sum(weights) > 0:
                soft = F.softmax(stored / 2, dim=1)
                said = sum(w * soft[n] for w, n in zip(weights, near, strict=True)) / sum(weights)
                student = F.softmax(torch.tensor(z1[i]) / 2, dim=0).tolist()
                total["ncr"].append(4 * kl(student, said.tolist()) / math.log(2))
    assert set(kinds) == {"clean", "neighbours", "inside", "outside"}
    expected = (
        total["cls"]
        + 0.5 * sum(total["pred"]) / len(total["pred"])
        + 0.2 * total["feat"]
        + 0.7 * sum(total["ncr"]) / len(total["ncr"])
    )
    assert result.loss.item() == pytest.approx(expected, rel=1e-3)

    # The keys of the step join the queue after it.
    method.after_step(described, Clock(1, 0, 1))
    assert len(method.memory) == min(8 + 24, method.memory.size)
    place = method.memory["index"].tolist().index(int(index[-1]))
    logits = (z1 if remembered == "query" else zk)[-1]
    assert method.memory["logits"][place].tolist() == pytest.approx(logits, rel=1e-4)
    assert method.memory["key"][place].tolist() == pytest.approx(fk[-1], rel=1e-4)


@sweep("gradient", [True, False])
def test_the_neighbour_term_moves_the_features_where_it_is_asked_to(gradient):
    labels, inputs = batch(2, size=12)
    options = {"alpha": 0.0, "beta": 1.0, "gamma": 0.0, "neighbours": 3}
    method = ready(JoSNC(warmup=0, features=6, neighbour_gradient=gradient, **options), labels)
    net = method.nets["net"]
    rows = F.normalize(torch.randn(8, 6), dim=1)
    stored = torch.randn(8, CLASSES)
    method.memory.push(key=rows, logits=stored, index=torch.arange(90, 98))
    _, result = step(method, 0, inputs)
    result.loss.backward()
    found = [weight.grad.clone() for weight in net.projector.parameters()]
    assert any(bool(g.any()) for g in found) == gradient
    if not gradient:
        return
    # All samples are clean, so that the projector's gradient is that of the term alone.
    net.zero_grad()
    _, (x1, _), _ = inputs["train"]
    features, total, count = net.project(x1), 0.0, 0
    student = F.log_softmax(net(x1).detach() / 2, dim=1)
    for i in range(12):
        similarity = features[i] @ rows.T
        near = similarity.topk(3).indices
        weights = [similarity[n] ** 0.3 for n in near if similarity[n] > 0]
        if weights:
            soft = F.softmax(stored / 2, dim=1)
            said = sum(w * soft[n] for w, n in zip(weights, near, strict=False)) / sum(weights)
            total = total + 4 / math.log(2) * (student[i].exp() * (student[i] - said.log())).sum()
            count += 1
    (total / count).backward()
    for mine, weight in zip(found, net.projector.parameters(), strict=True):
        assert torch.allclose(mine, weight.grad, atol=1e-6)


def test_josnc_with_an_empty_queue_and_few_samples_is_finite():
    labels, inputs = batch(2, size=3)
    method = ready(JoSNC(warmup=0, features=6, neighbours=10), labels)
    _, result = step(method, 0, inputs)
    result.loss.backward()
    assert result.loss.isfinite()
    # All thresholds are 0, so everything is clean.
    assert float(result.logs["clean"]) == 1
    method.tau_clean.values.fill_(2.0)
    method.tau_outside.values.fill_(-1.0)
    _, result = step(method, 0, inputs)
    assert result.loss.isfinite()
    assert float(result.logs["outside"]) == 1


def test_josnc_raises_thresholds_by_class():
    labels, inputs = batch(2)
    method = ready(JoSNC(warmup=1, features=6, tau_momentum=0.9, delta=0.5), labels)
    step(method, 0, inputs)
    index, _, y = inputs["train"]
    clean = method.clean.values[index].tolist()
    means = [
        [v for v, c in zip(clean, y.tolist(), strict=True) if c == label]
        for label in range(CLASSES)
    ]
    # One epoch of warm-up does what ten do in the published run.
    first = [(1 - 0.75**10) * sum(m) / len(m) if m else 0.0 for m in means]
    method.end_epoch(0)
    assert method.tau_clean.values.tolist() == pytest.approx(first, rel=1e-4)
    method.end_epoch(1)
    second = [
        max(tau, 0.9 * tau + 0.1 * 1.5 * sum(m) / len(m)) if m else 0.0
        for tau, m in zip(first, means, strict=True)
    ]
    assert method.tau_clean.values.tolist() == pytest.approx(second, rel=1e-4)
    method.clean.values[index] = 0.0
    method.end_epoch(2)
    assert method.tau_clean.values.tolist() == pytest.approx(second, rel=1e-4)  # never falls


def test_josnc_thresholds_get_as_far_in_a_short_run_as_in_the_published_one():
    labels = torch.randint(CLASSES, (SAMPLES,))
    ends = []
    for epochs, warmup, options in (
        (200, 10, {"warmup_tau_momentum": 0.75, "tau_momentum": 0.975}),
        (200, 10, {}),
        (12, 3, {}),
    ):
        method = ready(JoSNC(warmup=warmup, features=6, **options), labels, epochs=epochs)
        method.clean.values = torch.full((SAMPLES,), 0.6)
        taus = []
        for epoch in range(epochs):
            if epoch == warmup:
                method.clean.values.fill_(0.9)
            method.end_epoch(epoch)
            taus.append(method.tau_clean.values.mean().item())
        ends.append((taus[warmup - 1], taus[-1]))
    assert ends[0] == pytest.approx(ends[1])
    # At the end of the warm-up 94 % of the mean; then 99 % of the way to the new one.
    assert ends[2] == pytest.approx(ends[0], rel=1e-4)
    assert ends[0][0] == pytest.approx(0.6 * (1 - 0.75**10), rel=1e-4)


@sweep("method", [JoSRC, JoSNC])
def test_trust_never_falls_with_the_probability_of_the_label(method):
    labels = torch.zeros(SAMPLES, dtype=torch.long)
    made = ready(method(warmup=1), labels)
    index = torch.arange(SAMPLES)
    # From sure and wrong over unsure to sure and right, against a label smoothed by 0.6.
    logits = torch.zeros(SAMPLES, CLASSES)
    logits[:, 0] = torch.linspace(-8, 8, SAMPLES)
    made.judge(index, logits, labels)
    trust = made.trust()
    assert bool((trust.diff() >= -1e-7).all())
    assert trust[-1] > 0.9 > 0.1 > trust[0]
    # Cleanness, which the method selects by, is highest in between.
    assert made.clean.values.argmax() < SAMPLES - 1


def test_josnc_halves_its_candidates_and_keeps_its_queue_below_the_set():
    labels = torch.zeros(SAMPLES, dtype=torch.long)
    method = ready(JoSNC(warmup=2, top_k=4, top_k_decay=3), labels)
    counts = [method._candidates(epoch) for epoch in (2, 4, 5, 8, 11, 19)]
    assert counts == [4, 4, 2, 1, 1, 1]
    assert method.memory.size == 25


def test_josnc_warms_up_its_heads_alone():
    labels = torch.zeros(SAMPLES, dtype=torch.long)
    method = ready(JoSNC(warmup=2, warmup_heads_only=True), labels)
    assert method.begin("warmup", 0).train == ("net.neck", "net.head", "net.projector")
    assert method.begin("train", 2).train == ("net",)
