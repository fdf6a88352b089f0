"""Early-learning regularisation with an aligned memory, against plain loops."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

SUITE = Path(__file__).parents[2] / "benchmarks" / "suite"


@pytest.fixture
def aligned(monkeypatch):
    monkeypatch.syspath_prepend(str(SUITE))
    import aligned

    return aligned


def test_two_steps_against_plain_loops(aligned):
    torch.manual_seed(0)
    loss = aligned.AlignedELRLoss(4, 3, beta=0.7, lam=3.0)
    labels = torch.tensor([0, 0, 2, 0])
    memory = [[0.0] * 3 for _ in range(4)]
    for order in ([0, 1, 2, 3], [2, 0]):
        logits = torch.randn(len(order), 3)
        value = loss(logits, labels[order], torch.tensor(order))
        probabilities = torch.softmax(logits, 1).tolist()
        for row, i in enumerate(order):
            memory[i] = [
                0.7 * m + 0.3 * p for m, p in zip(memory[i], probabilities[row], strict=True)
            ]
        given = [3 / 4, 0 / 4, 1 / 4]
        total = sum(map(sum, memory))
        remembered = [sum(m[k] for m in memory) / total for k in range(3)]
        factors = [min(max(g / r, 0.2), 5.0) for g, r in zip(given, remembered, strict=True)]
        expected = 0.0
        for row, i in enumerate(order):
            target = [f * m for f, m in zip(factors, memory[i], strict=True)]
            target = [t * sum(memory[i]) / sum(target) for t in target]
            agreement = sum(t * p for t, p in zip(target, probabilities[row], strict=True))
            expected -= math.log(probabilities[row][labels[i]])
            expected += 3.0 * math.log(1.0 - agreement)
        assert value.item() == pytest.approx(expected / len(order), rel=1e-4)


def test_it_is_early_learning_regularisation_where_the_shares_agree(aligned):
    plain, other = (cls(4, 2) for cls in (aligned.ELRLoss, aligned.AlignedELRLoss))
    logits = torch.tensor([[2.0, 0.0], [0.0, 2.0]])
    batch = logits, torch.tensor([0, 1]), torch.tensor([0, 1])
    for _ in range(3):
        torch.testing.assert_close(other(*batch), plain(*batch))
