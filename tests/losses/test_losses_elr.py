"""Early-learning regularisation: the aligned memory against plain loops, gradients by autograd."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from edgemask.losses import ELRLoss
from edgemask.losses.functional import elr_probabilities, elr_regulariser
from sweeps import sweep


@sweep("dtype", [torch.float32, torch.float64])
@sweep("align", [1.0, 5.0])
@sweep("full_at", [0.0, 0.3, 0.9])
def test_what_goes_beyond_the_published_loss_is_its_plain_loop(
    align: float, full_at: float, dtype: torch.dtype
) -> None:
    torch.manual_seed(0)
    loss = ELRLoss(4, 3, beta=0.7, lam=3.0, align=align, full_at=full_at)
    labels = torch.tensor([0, 0, 2, 0])
    memory = [[0.0] * 3 for _ in range(4)]
    given, remembered, wrong = [0.0] * 3, [0.0] * 3, 0.0
    for order in ([0, 1, 2, 3], [2, 0], [1], [3, 2]):
        logits = torch.randn(len(order), 3, dtype=dtype)
        value = loss(logits, labels[order], torch.tensor(order))
        probabilities = torch.softmax(logits, 1).tolist()
        fade = 1 - len(order) / 4
        given, remembered = ([x * fade for x in sums] for sums in (given, remembered))
        wrong *= fade
        for row, i in enumerate(order):
            memory[i] = [
                0.7 * m + 0.3 * p for m, p in zip(memory[i], probabilities[row], strict=True)
            ]
            given[int(labels[i])] += 1.0
            remembered = [r + m for r, m in zip(remembered, memory[i], strict=True)]
            wrong += memory[i].index(max(memory[i])) != int(labels[i])
        factors = [
            min(max(g / sum(given) * sum(remembered) / r, 1 / align), align)
            for g, r in zip(given, remembered, strict=True)
        ]
        lam = 3.0 * min(1.0, wrong / sum(given) / full_at) if full_at else 3.0
        expected = 0.0
        for row, i in enumerate(order):
            target = [f * m for f, m in zip(factors, memory[i], strict=True)]
            target = [t * sum(memory[i]) / sum(target) for t in target]
            agreement = sum(t * p for t, p in zip(target, probabilities[row], strict=True))
            expected -= math.log(probabilities[row][labels[i]])
            expected += lam * math.log(1.0 - agreement)
        assert value.item() == pytest.approx(expected / len(order), rel=1e-4)


def test_aligning_changes_nothing_where_the_shares_agree() -> None:
    plain, aligned = ELRLoss(4, 2), ELRLoss(4, 2, align=5.0)
    batch = torch.tensor([[2.0, 0.0], [0.0, 2.0]]), torch.tensor([0, 1]), torch.tensor([0, 1])
    for _ in range(3):
        torch.testing.assert_close(aligned(*batch), plain(*batch))


def _targets(soft: bool) -> Tensor:
    return torch.softmax(2 * torch.randn(6, 4), dim=1) if soft else torch.randint(4, (6,))


@sweep(
    "options",
    [
        {},
        {"align": 3.0},
        {"align": 3.0, "full_at": 0.9},
        {"reduction": "none"},
        {"weight": [1.0, 2.0, 0.5, 3.0]},
    ],
)
@sweep("soft", [False, True])
def test_its_gradient_is_what_autograd_finds(options: dict, soft: bool) -> None:
    torch.manual_seed(1)
    loss = ELRLoss(6, 4, lam=2.0, min_prob=0.05, **options)
    index = torch.arange(6)
    for _ in range(2):
        loss(torch.randn(6, 4), _targets(soft), index)
    loss.eval()
    logits = (3 * torch.randn(6, 4, dtype=torch.float64)).requires_grad_()
    assert logits.softmax(1).min() < 0.05 < logits.softmax(1).max()
    target = _targets(soft)
    assert torch.autograd.gradcheck(lambda z: loss(z, target, index), logits, atol=1e-6)


@sweep("soft", [False, True])
def test_it_is_cross_entropy_and_the_regulariser(soft: bool) -> None:
    torch.manual_seed(2)
    logits, target, index = torch.randn(6, 4, requires_grad=True), _targets(soft), torch.arange(6)
    loss = ELRLoss(6, 4, lam=2.0)
    value = loss(logits, target, index)
    probabilities = elr_probabilities(torch.log_softmax(logits, dim=1))
    expected = torch.nn.functional.cross_entropy(logits, target)
    expected = expected + 2.0 * elr_regulariser(probabilities, loss.ensemble).mean()
    torch.testing.assert_close(value, expected)
    grads = [torch.autograd.grad(v, logits)[0] for v in (value, expected)]
    torch.testing.assert_close(*grads)


def test_ignored_samples_leave_memory_and_shares_alone() -> None:
    torch.manual_seed(3)
    logits = torch.randn(4, 3, requires_grad=True)
    some, all_of_them = (ELRLoss(4, 3, align=5.0, full_at=0.5) for _ in range(2))
    value = some(logits, torch.tensor([0, -100, 2, -100]), torch.arange(4))
    rows = torch.tensor([0, 2])
    expected = all_of_them(logits[rows], rows, rows)
    torch.testing.assert_close(value, expected)
    for name, buffer in all_of_them.named_buffers():
        torch.testing.assert_close(some.get_buffer(name), buffer)
    grads = [torch.autograd.grad(v, logits)[0] for v in (value, expected)]
    torch.testing.assert_close(*grads)


def test_the_shares_are_kept_and_the_published_loss_has_none() -> None:
    assert set(ELRLoss(4, 3).state_dict()) == {"ensemble"}
    torch.manual_seed(4)
    batch = torch.randn(4, 3), torch.tensor([0, 0, 1, 2]), torch.arange(4)
    first, second = ELRLoss(4, 3, align=5.0), ELRLoss(4, 3, align=5.0)
    first(*batch)
    second.load_state_dict(first.state_dict())
    assert torch.equal(first(*batch), second(*batch))


def test_one_hot_targets_are_labels() -> None:
    torch.manual_seed(5)
    hard, soft = (ELRLoss(6, 3, align=5.0, full_at=0.9) for _ in range(2))
    for _ in range(3):
        logits, target = torch.randn(6, 3), torch.randint(3, (6,))
        one_hot = torch.nn.functional.one_hot(target, 3).float()
        index = torch.arange(6)
        torch.testing.assert_close(soft(logits, one_hot, index), hard(logits, target, index))
    torch.testing.assert_close(soft.sums, hard.sums)


def test_a_batch_with_more_rows_than_samples_forgets_what_was_before() -> None:
    torch.manual_seed(6)
    loss = ELRLoss(2, 3, align=5.0)
    for _ in range(2):
        target = torch.tensor([0, 1, 1])
        loss(torch.randn(3, 3), target, torch.tensor([0, 1, 1]))
    assert loss.sums[:3].tolist() == [1.0, 2.0, 0.0]
