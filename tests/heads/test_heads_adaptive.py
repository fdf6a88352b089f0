"""A layer that slows down when held-out labels stop getting more likely, and how it is told."""

import copy
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

import edgemask as em
from edgemask.heads import AdaptiveLinear, native
from edgemask.heads.philox import stream_of, uniform

SAMPLES, FEATURES, CLASSES = 400, 5, 3
TEMPERATURES = [2.0**k for k in range(-7, 3)]


def problem(wrong: float = 0.4) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(SAMPLES, FEATURES, generator=generator)
    y = (x @ torch.randn(FEATURES, CLASSES, generator=generator)).argmax(1)
    flip = torch.rand(SAMPLES, generator=generator) < wrong
    return x, torch.where(flip, torch.randint(CLASSES, (SAMPLES,), generator=generator), y)


def held_out(head: AdaptiveLinear) -> torch.Tensor:
    """Find the held-out samples from outside: their logits carry no gradient."""
    head = copy.deepcopy(head)
    head.load_state_dict(head.state_dict())
    x = torch.ones(SAMPLES, FEATURES, dtype=head.weight.dtype, requires_grad=True)
    em.observe(head, torch.arange(SAMPLES), torch.zeros(SAMPLES, dtype=torch.long))
    head(x).sum().backward()
    return (x.grad == 0).all(dim=1)


def test_a_share_of_the_samples_is_held_out_by_their_index():
    head = AdaptiveLinear(FEATURES, CLASSES, held_out=0.2, seed=1)
    held = held_out(head)
    assert 0.12 < held.float().mean() < 0.28
    assert torch.equal(held, held_out(head))
    assert not torch.equal(held, held_out(AdaptiveLinear(FEATURES, CLASSES, held_out=0.2, seed=2)))
    x = torch.ones(10, FEATURES, requires_grad=True)
    order = torch.randperm(SAMPLES)[:10]
    em.observe(head, order, torch.zeros(10, dtype=torch.long))
    head(x).sum().backward()
    assert torch.equal((x.grad == 0).all(dim=1), held[order])


def test_labels_of_held_out_samples_do_not_matter():
    x, y = problem()
    head = AdaptiveLinear(FEATURES, CLASSES, held_out=0.3, seed=0).double()
    twin = copy.deepcopy(head)
    held = held_out(head)
    for layer, labels in ((head, y), (twin, torch.where(held, (y + 1) % CLASSES, y))):
        em.observe(layer, torch.arange(SAMPLES), labels)
        F.cross_entropy(layer(x.double()), labels).backward()
    assert torch.equal(head.weight.grad, twin.weight.grad)
    assert head.weight.grad.abs().max() > 0


def by_hand(head: AdaptiveLinear, x: torch.Tensor, y: torch.Tensor, epochs: int) -> list[float]:
    """Train as the docstring says, with plain loops over held-out samples; return the factors."""
    weight, bias = (p.detach().clone().requires_grad_() for p in (head.weight, head.bias))
    held = held_out(head)
    optimiser = torch.optim.SGD([weight, bias], lr=0.5)
    factor = coming = 1.0
    best, error, factors = math.inf, 1.0, []
    generator = torch.Generator().manual_seed(5)
    for _ in range(epochs):
        losses = np.zeros(len(TEMPERATURES))
        wrong = count = 0
        for batch in torch.randperm(SAMPLES, generator=generator).split(50):
            logits = x[batch] @ weight.T + bias
            for row, sample in enumerate(batch.tolist()):
                if held[sample]:
                    z = logits[row].detach()
                    for k, tau in enumerate(TEMPERATURES):
                        losses[k] -= float(torch.log_softmax(tau * z, 0)[y[sample]])
                    wrong += int(z.argmax() != y[sample])
                    count += 1
            factors.append(factor)
            # the end of a round shows in the next one's first batch, which has the old factor
            used, factor = factor, coming
            kept = ~held[batch]
            loss = F.cross_entropy(used * logits[kept], y[batch][kept], reduction="sum") / 50
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        result = losses.min() / count
        if result < best:
            best, error = result, (wrong + 1) / (count + 2)
            coming = min(1.0, 2 * coming)
        else:
            floor = 0.03 ** min(1.0, 5 * error)
            coming = max(0.5 * coming, min(floor, coming))
    return factors


def test_factors_by_hand():
    x, y = problem()
    x = x.double()
    head = AdaptiveLinear(FEATURES, CLASSES, held_out=0.1, seed=3).double()
    wanted = by_hand(copy.deepcopy(head), x, y, epochs=12)
    optimiser = torch.optim.SGD(head.parameters(), lr=0.5)
    generator = torch.Generator().manual_seed(5)
    factors = []
    for _ in range(12):
        for batch in torch.randperm(SAMPLES, generator=generator).split(50):
            em.observe(head, batch, y[batch])
            logits = head(x[batch])
            factors.append(float((logits / F.linear(x[batch], *head.parameters())).detach()[0, 0]))
            optimiser.zero_grad()
            F.cross_entropy(logits, y[batch]).backward()
            optimiser.step()
    assert min(wanted) < 0.5
    torch.testing.assert_close(factors, wanted)


def test_native_and_plain_torch_record_the_same(monkeypatch):
    pytest.importorskip("numba")
    x, y = problem()
    native_head = AdaptiveLinear(FEATURES, CLASSES, held_out=0.1, seed=3)
    plain_head = copy.deepcopy(native_head)
    plain_head.load_state_dict(native_head.state_dict())
    calls = []
    found = native.record_held_out
    monkeypatch.setattr(native, "record_held_out", lambda *a: calls.append(found(*a)) or calls[-1])
    for epoch in range(4):
        generator = torch.Generator().manual_seed(epoch)
        for batch in torch.randperm(SAMPLES, generator=generator).split(50):
            rows = (2.0**epoch * x[batch]).requires_grad_()
            gradients = []
            for head, enabled in ((native_head, True), (plain_head, False)):
                monkeypatch.setattr(native, "enabled", enabled)
                em.observe(head, batch, y[batch])
                gradients.append(torch.autograd.grad(head(rows).square().sum(), rows)[0])
            assert torch.equal(*gradients)
            for name, value in native_head.state_dict().items():
                torch.testing.assert_close(value, plain_head.state_dict()[name], msg=name)
    assert len(calls) == 4 * SAMPLES // 50
    assert all(call is not None for call in calls)
    assert float(native_head.adapted) < 1.0


@pytest.mark.parametrize("label", [-100, CLASSES])
def test_a_label_that_is_no_class_is_refused_in_held_out_samples(label):
    head = AdaptiveLinear(FEATURES, CLASSES, held_out=0.9, seed=3)
    em.observe(head, torch.arange(20), torch.full((20,), label))
    with pytest.raises((RuntimeError, IndexError), match="out of bounds"):
        head(torch.randn(20, FEATURES))


def test_few_wrong_labels_leave_the_factor_near_one():
    x, y = problem(wrong=0.0)
    head = AdaptiveLinear(FEATURES, CLASSES, held_out=0.2, seed=3)
    optimiser = torch.optim.SGD(head.parameters(), lr=0.5)
    for _ in range(60):
        em.observe(head, torch.arange(SAMPLES), y)
        loss = F.cross_entropy(head(x), y)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    error = float(head.best[1])
    assert error < 0.12
    assert float(head.factor) >= 0.03 ** (5 * error) * 0.999


def test_without_observations_the_factor_is_the_stated_one():
    head, x = AdaptiveLinear(FEATURES, CLASSES, unobserved=0.25), torch.randn(4, FEATURES)
    with torch.no_grad():  # before the first step a model predicts as it did
        assert torch.equal(head(x), F.linear(x, head.weight, head.bias))
    for _ in range(3):
        torch.testing.assert_close(head(x), 0.25 * F.linear(x, head.weight, head.bias))
    torch.testing.assert_close(head.eval()(x), 0.25 * F.linear(x, head.weight, head.bias))


def test_predictions_write_nothing_and_leave_an_observation_alone():
    x, y = problem()
    head = AdaptiveLinear(FEATURES, CLASSES, seed=0)
    em.observe(head, torch.arange(SAMPLES), y)
    before = copy.deepcopy(head.state_dict())
    with torch.no_grad():
        head(x[:3])
    with em.predicting(head):
        head(x[:3])
    assert all(torch.equal(value, before[name]) for name, value in head.state_dict().items())
    head(x)
    assert int(head.observed_steps) == 1
    assert float(head.sums[0]) > 0


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_pass_that_backward_repeats_is_counted_once(reentrant):
    x, y = problem()
    head = AdaptiveLinear(FEATURES, CLASSES, held_out=0.2, seed=3).double()
    twin = copy.deepcopy(head)
    for batch in torch.arange(SAMPLES).split(50):
        for layer in (head, twin):
            em.observe(layer, batch, y[batch])
        rows = x[batch].double().requires_grad_()
        with em.one_step(head):
            F.cross_entropy(checkpoint(head, rows, use_reentrant=reentrant), y[batch]).backward()
        F.cross_entropy(twin(rows), y[batch]).backward()
    torch.testing.assert_close(head.weight.grad, twin.weight.grad)
    torch.testing.assert_close(head.sums, twin.sums)


def test_a_run_resumes_and_a_plain_checkpoint_starts_afresh():
    x, y = problem()
    head = AdaptiveLinear(FEATURES, CLASSES, held_out=0.2)
    for _ in range(30):
        em.observe(head, torch.arange(SAMPLES), y)
        head(x)
    assert float(head.factor) < 1.0
    fresh = AdaptiveLinear(FEATURES, CLASSES, held_out=0.2)
    fresh.load_state_dict(head.state_dict())
    for layer in (head, fresh):
        em.observe(layer, torch.arange(SAMPLES), y)
    assert torch.equal(fresh(x), head(x))
    assert all(torch.equal(v, fresh.state_dict()[k]) for k, v in head.state_dict().items())
    fresh.load_state_dict(nn.Linear(FEATURES, CLASSES).state_dict())
    assert int(fresh.observed_steps) == 0
    assert float(fresh.adapted) == 1.0


def test_detached_it_predicts_the_same():
    x, y = problem()
    model = em.attach(nn.Sequential(nn.Linear(FEATURES, 4), nn.ReLU(), nn.Linear(4, 3)), "adaptive")
    for _ in range(20):
        em.observe(model, torch.arange(SAMPLES), y)
        model(x)
    wanted = model.eval()(x)
    em.detach(model)
    assert type(model[2]) is nn.Linear
    torch.testing.assert_close(model(x), wanted)
    exported = torch.export.export(
        em.attach(nn.Sequential(nn.Linear(6, 3)), "adaptive").eval(), (torch.randn(4, 6),)
    )
    assert exported.module()(torch.randn(4, 6)).shape == (4, 3)


def test_half_precision_counts_in_float32():
    x, y = problem()
    head = AdaptiveLinear(FEATURES, CLASSES, held_out=0.2, seed=3).bfloat16()
    em.observe(head, torch.arange(SAMPLES), y)
    assert head(x.bfloat16()).dtype == torch.bfloat16
    assert {head.adapted.dtype, head.best.dtype, head.sums.dtype} == {torch.float32}
    assert float(head.sums[0]) == int(held_out(head.float()).sum())


def test_compiled_as_one_graph():
    torch._dynamo.reset()
    x, y = problem()
    head = AdaptiveLinear(FEATURES, CLASSES, held_out=0.2, seed=3)
    twin = copy.deepcopy(head)
    compiled = torch.compile(head, backend="aot_eager", fullgraph=True)
    for _ in range(5):
        for layer in (head, twin):
            em.observe(layer, torch.arange(SAMPLES), y)
        torch.testing.assert_close(compiled(x), twin(x))
    assert float(head.factor) == float(twin.factor) < 1.0


def test_a_table_of_seen_samples_that_is_full_ends_the_round():
    head = AdaptiveLinear(FEATURES, CLASSES, held_out=0.5, seed=0)
    ended = 0
    for start in range(0, 40_000, 1000):
        before = float(head.sums[0])
        em.observe(head, torch.arange(start, start + 1000), torch.zeros(1000, dtype=torch.long))
        head(torch.randn(1000, FEATURES))
        ended += float(head.sums[0]) < before
    assert 2 <= ended <= 10


def test_what_it_does_not_take_is_refused():
    with pytest.raises(em.UserError, match=r"least=0.0: expected a number in \(0, 1\]"):
        AdaptiveLinear(4, 3, least=0.0)
    with pytest.raises(em.UserError, match="held_out=1"):
        AdaptiveLinear(4, 3, held_out=1.0)
    head = AdaptiveLinear(4, 3)
    with pytest.raises(em.UserError, match="target must hold one integer per sample"):
        em.observe(head, torch.arange(4), torch.rand(4, 3))
    with pytest.raises(em.UserError, match="index must hold one integer per sample"):
        em.observe(head, torch.rand(4), torch.zeros(4, dtype=torch.long))
    em.observe(head, torch.arange(4), torch.zeros(4, dtype=torch.long))
    with pytest.raises(em.UserError, match="one row per sample"):
        head(torch.randn(5, 4))


def test_other_heads_ignore_what_is_observed():
    model, x = em.attach(nn.Sequential(nn.Linear(4, 3)), "sem", seed=0), torch.randn(8, 4)
    twin = copy.deepcopy(model)
    em.observe(model, torch.arange(8), torch.zeros(8, dtype=torch.long))
    assert torch.equal(model(x), twin(x))
    em.observe(nn.Linear(4, 3), torch.arange(8), torch.zeros(8, dtype=torch.long))


def test_the_choice_shares_nothing_with_masks_of_the_same_seed():
    head = AdaptiveLinear(20, 20, held_out=0.5, seed=7)
    held = held_out(AdaptiveLinear(FEATURES, CLASSES, held_out=0.5, seed=7))
    seed, step = torch.tensor(7), torch.tensor(0)
    mask = uniform(seed, step, 20, 20, stream_of(20, 20, "mask")).flatten() < 0.5
    assert abs(float((held == mask).float().mean()) - 0.5) < 0.1
    assert int(head.seed) == 7


def test_fit_observes_and_the_factor_falls_on_wrong_labels(tmp_path):
    run = em.fit(
        "digits", noise="sym:0.4", head="adaptive", epochs=12, out=tmp_path / "run", seed=1
    )
    head = run.model.head
    assert float(head.factor) < 0.3
    assert float(head.best[1]) > 0.3
    assert run.history[-1]["head/factor"] == float(head.factor)
    assert "head/retention" not in run.history[-1]  # nothing is masked
