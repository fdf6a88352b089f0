"""ELR, SOP and pruned GCE against plain loops, and what they do with a wrong index."""

from __future__ import annotations

import math

import pytest
import torch

from edgemask import losses
from loss_helpers import batch, make
from sweeps import sweep


def plain_softmax(row: list[float]) -> list[float]:
    top = max(row)
    exps = [math.exp(x - top) for x in row]
    return [x / sum(exps) for x in exps]


def test_elr_is_its_plain_loop() -> None:
    beta, lam, classes = 0.7, 3.0, 4
    criterion = losses.ELRLoss(6, classes, beta=beta, lam=lam)
    memory = [[0.0] * classes for _ in range(6)]
    for step in range(12):
        draw = torch.Generator().manual_seed(step)
        logits = 4 * torch.randn(3, classes, generator=draw, dtype=torch.float64)
        target = torch.randint(classes, (3,), generator=draw)
        index = torch.randperm(6, generator=draw)[:3]
        total = 0.0
        for row, y, i in zip(logits.tolist(), target.tolist(), index.tolist(), strict=True):
            p = plain_softmax(row)
            q = [min(max(x, 1e-4), 1 - 1e-4) for x in p]
            memory[i] = [
                beta * m + (1 - beta) * x / sum(q) for m, x in zip(memory[i], q, strict=True)
            ]
            inner = sum(m * x for m, x in zip(memory[i], q, strict=True))
            total += -math.log(p[y]) + lam * math.log(1 - inner)
        value = criterion(logits.requires_grad_(), target, index)
        assert value.item() == pytest.approx(total / 3, rel=1e-6)
    torch.testing.assert_close(criterion.ensemble.double(), torch.tensor(memory).double())


def test_elr_gradient_holds_the_ensemble_fixed() -> None:
    logits, _, _ = batch(4, scale=1.5)
    ensemble = torch.softmax(torch.randn(4, 5, dtype=torch.float64), dim=1)

    def regulariser(z: torch.Tensor) -> torch.Tensor:
        p = losses.functional.elr_probabilities(torch.log_softmax(z, dim=1))
        return losses.functional.elr_regulariser(p, ensemble)

    assert torch.autograd.gradcheck(regulariser, logits)
    p = torch.softmax(logits, dim=1)
    inner = (ensemble * p).sum(dim=1, keepdim=True)
    (grad,) = torch.autograd.grad(regulariser(logits).sum(), logits)
    torch.testing.assert_close(grad, -(p * (ensemble - inner)) / (1 - inner))


def test_elr_writes_only_when_it_trains() -> None:
    logits, target, index = batch()
    criterion = make("elr")
    criterion(logits, target, index)
    before = criterion.ensemble.clone()
    assert before[index].abs().sum() > 0
    with torch.no_grad():
        criterion(-logits, target, index)
    criterion.eval()(logits * 2, target, index)
    assert torch.equal(criterion.ensemble, before)
    criterion.train()(logits * 2, target, index)
    assert not torch.equal(criterion.ensemble, before)


def test_elr_resumes_exactly() -> None:
    steps = [batch(seed=seed, dtype=torch.float32) for seed in range(6)]
    whole, first, second = make("elr"), make("elr"), make("elr")
    for step in steps:
        expected = whole(*step)
    for step in steps[:3]:
        first(*step)
    second.load_state_dict(first.state_dict())
    for step in steps[3:]:
        value = second(*step)
    assert torch.equal(value, expected)
    assert torch.equal(second.ensemble, whole.ensemble)


def test_repeated_samples_are_not_fatal() -> None:
    logits, target, _ = batch(4)
    for name in ("elr", "sop"):
        value = make(name)(logits, target, torch.tensor([7, 7, 3, 7]))
        assert value.isfinite()


def test_sop_is_its_plain_loop() -> None:
    classes = 4
    criterion = losses.SOPLoss(6, classes, init_std=0.6)
    logits = 2 * torch.randn(3, classes, dtype=torch.float64)
    other = 2 * torch.randn(3, classes, dtype=torch.float64)
    target, index = torch.tensor([0, 3, 1]), torch.tensor([5, 0, 2])
    total, mean = 0.0, [0.0] * classes
    rows = zip(logits.tolist(), other.tolist(), target.tolist(), index.tolist(), strict=True)
    for row, second, y, i in rows:
        p, r = plain_softmax(row), plain_softmax(second)
        u, v = criterion.u[i].item(), criterion.v[i].tolist()
        plus = [min(u * u, 1.0) if k == y else 0.0 for k in range(classes)]
        minus = [0.0 if k == y else min(x * x, 1.0) for k, x in enumerate(v)]
        raw = [max(p[k] + plus[k] - minus[k], 1e-4) for k in range(classes)]
        corrected = [max(x / sum(raw), 1e-4) for x in raw]
        guess = max(range(classes), key=p.__getitem__)
        total -= math.log(corrected[y])
        total += sum(((k == guess) + plus[k] - minus[k] - (k == y)) ** 2 for k in range(classes))
        total += 0.9 * sum(a * math.log(a / b) for a, b in zip(p, r, strict=True))
        mean = [m + x / 3 for m, x in zip(mean, corrected, strict=True)]
    expected = total / 3 - 0.1 * sum(math.log(max(m, 1e-4)) for m in mean) / classes
    value = criterion(logits, target, index, second=other)
    assert value.item() == pytest.approx(expected, rel=1e-6)


def test_sop_parts_learn_from_the_right_terms() -> None:
    """The fit moves u and the network; the distance to the label moves u and v, not the network."""
    logits = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    target = torch.tensor([0, 3, 1])
    u = torch.rand(3, 1, dtype=torch.float64, requires_grad=True)
    v = torch.rand(3, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(
        lambda z, w: losses.functional.sop(z, target, w, v)[0], (logits, u)
    )
    value, _ = losses.functional.sop(logits, target, u, v)
    (slope,) = torch.autograd.grad(value.sum(), v)
    label = torch.nn.functional.one_hot(target, 4)
    guess = torch.nn.functional.one_hot(logits.argmax(1), 4)
    distance = guess + u.square() * label - v.square() * (1 - label) - label
    torch.testing.assert_close(slope, -4 * distance * v * (1 - label))


def test_sop_parameters_learn_with_their_own_rates() -> None:
    criterion = losses.SOPLoss(10, 5, lr_u=0.5, lr_v=2.0, init_std=0.1)
    groups = criterion.parameter_groups()
    assert [group["lr"] for group in groups] == [0.5, 2.0]
    assert [group["params"][0] for group in groups] == [criterion.u, criterion.v]
    optimiser = torch.optim.SGD(groups, lr=0.02, momentum=0.9, weight_decay=1e-3)
    assert all(g["momentum"] == g["weight_decay"] == 0 for g in optimiser.param_groups)
    before = criterion.u.detach().clone(), criterion.v.detach().clone()
    logits, target, _ = batch(3, dtype=torch.float32)
    criterion(logits, target, torch.tensor([1, 4, 9])).backward()
    optimiser.step()
    touched = torch.zeros(10, dtype=torch.bool)
    touched[[1, 4, 9]] = True
    for old, new in zip(before, (criterion.u, criterion.v), strict=True):
        assert torch.equal((old != new).any(dim=1), touched)


def test_sparse_gradients_of_sop_move_the_same_rows_by_the_same_bits() -> None:
    tables = []
    for sparse in (False, True):
        torch.manual_seed(0)
        criterion = losses.SOPLoss(10, 5, lr_u=0.5, lr_v=2.0, init_std=0.1)
        criterion.sparse_gradients = sparse
        optimiser = torch.optim.SGD(criterion.parameter_groups())
        for seed, index in ((3, [1, 4, 9]), (4, [9, 0, 1])):
            logits, target, _ = batch(seed, dtype=torch.float32)
            optimiser.zero_grad()
            criterion(logits[:3], target[:3], torch.tensor(index)).backward()
            assert criterion.v.grad.is_sparse == sparse
            optimiser.step()
        tables.append((criterion.u.detach(), criterion.v.detach()))
    for dense, rows in zip(*tables, strict=True):
        assert torch.equal(dense, rows)


def test_pruned_gce_keeps_its_decisions() -> None:
    criterion = losses.TruncatedGCELoss(pruned=True, num_samples=10, reduction="none")
    logits = torch.tensor([[3.0, 0.0], [0.0, 3.0], [0.0, 0.5]], dtype=torch.float64)
    target, index = torch.tensor([0, 0, 0]), torch.tensor([2, 5, 7])
    full = losses.GCELoss(min_prob=0.0, reduction="none")(logits, target)
    torch.testing.assert_close(criterion(logits, target, index), full)
    criterion.prune(logits, target, index)
    assert criterion.kept.nonzero().flatten().tolist() == [0, 1, 2, 3, 4, 6, 8, 9]
    constant = (1 - 0.5**0.7) / 0.7
    later = criterion(-logits, target, index)
    assert later[1:].tolist() == pytest.approx([constant, constant])
    assert later[0].item() == pytest.approx((1 - (1 / (1 + math.exp(3))) ** 0.7) / 0.7)
    with pytest.raises(ValueError, match="pruned=True"):
        losses.TruncatedGCELoss().prune(logits, target, index)


@sweep("name", ["elr", "sop", "tgce"])
def test_wrong_index_is_named(name: str) -> None:
    logits, target, _ = batch(3)
    criterion = make(name, pruned=True) if name == "tgce" else make(name)
    assert criterion.needs_index
    with pytest.raises(ValueError, match="pass index="):
        criterion(logits, target)
    with pytest.raises(ValueError, match=r"index 64 is out of range.*num_samples=64"):
        criterion(logits, target, torch.tensor([0, 1, 64]))
    with pytest.raises(ValueError, match="index -1 is out of range"):
        criterion(logits, target, torch.tensor([0, 1, -1]))
    with pytest.raises(TypeError, match="expected integers"):
        criterion(logits, target, torch.tensor([0.0, 1.0, 2.0]))
    with pytest.raises(ValueError, match=r"index of shape \(2,\)"):
        criterion(logits, target, torch.tensor([0, 1]))


@pytest.mark.parametrize("name", ["elr", "sop"])
def test_wrong_class_count_is_named(name: str) -> None:
    with pytest.raises(ValueError, match=r"logits of 3 classes.*num_classes=5"):
        make(name)(torch.zeros(1, 3), torch.tensor([0]), torch.tensor([0]))
