"""What methods remember: queues, tables by class, momentum copies, rates."""

from __future__ import annotations

from collections import deque

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from edgemask.errors import UserError
from edgemask.methods.parts import Memory
from edgemask.methods.parts.memory import ClassTable, RingQueue, class_means, update_ema
from edgemask.methods.parts.schedules import drop_rate, known_rate, threshold, warmup_epochs
from edgemask.methods.parts.selection import trust_from_probability


@given(st.integers(1, 6), st.lists(st.integers(0, 9), max_size=8))
def test_queue_holds_what_a_deque_holds(size, pushes):
    queue = RingQueue(size, {"key": torch.empty(1), "index": torch.empty((), dtype=torch.long)})
    model: deque[int] = deque(maxlen=size)
    number = 0
    for count in pushes:
        rows = list(range(number, number + count))
        number += count
        queue.push(key=torch.tensor(rows).float().view(-1, 1), index=torch.tensor(rows).long())
        model.extend(rows)
        assert sorted(queue["index"].tolist()) == sorted(model)
        assert queue["key"].flatten().tolist() == queue["index"].tolist()
    assert len(queue) == len(model)


def test_queue_goes_on_after_a_checkpoint():
    def fresh():
        return RingQueue(4, {"key": torch.empty(2)})

    first, second = fresh(), fresh()
    first.push(key=torch.randn(3, 2))
    second.load_state_dict(first.state_dict())
    more = torch.randn(3, 2)
    first.push(key=more)
    second.push(key=more)
    assert torch.equal(first["key"], second["key"])
    assert isinstance(first, Memory)
    with pytest.raises(ValueError, match=r"\(4, 2\).*\(5, 2\)"):
        RingQueue(5, {"key": torch.empty(2)}).load_state_dict(first.state_dict())
    with pytest.raises(ValueError, match="logits"):
        first.push(logits=more)


def test_class_means_by_loops():
    values, labels = torch.rand(50), torch.randint(4, (50,))
    values[3] = torch.nan
    means = class_means(values, labels, 5)
    for label in range(4):
        own = [float(v) for v, y in zip(values, labels, strict=True) if y == label and v == v]
        assert float(means[label]) == pytest.approx(np.mean(own), rel=1e-5)
    assert means[4].isnan()


def test_class_table_never_falls():
    table = ClassTable(3)
    table.raise_to(torch.tensor([0.5, 0.2, torch.nan]))
    table.raise_to(torch.tensor([0.4, 0.3, torch.nan]))
    assert table.values.tolist() == pytest.approx([0.5, 0.3, 0.0])
    other = ClassTable(3)
    other.load_state_dict(table.state_dict())
    assert torch.equal(other[torch.tensor([2, 0])], table.values[[2, 0]])
    assert isinstance(table, Memory)


def test_average_follows_parameters_and_takes_buffers():
    source = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    average = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    source(torch.randn(8, 2))
    before = [p.detach().clone() for p in average.parameters()]
    update_ema(average, source, 0.9)
    for old, new, theirs in zip(before, average.parameters(), source.parameters(), strict=True):
        expected = 0.9 * old + 0.1 * theirs
        assert torch.allclose(new, expected, atol=1e-6)
    assert torch.equal(average[1].running_mean, source[1].running_mean)
    assert average[1].num_batches_tracked == 1


@pytest.mark.parametrize("exponent", [1.0, 2.0])
def test_released_drop_rate_is_numpys_linspace(exponent):
    table = np.full(200, 0.45)
    table[:10] = np.linspace(0, 0.45**exponent, 10)
    # The released loop trains epochs 1 to 199.
    mine = [drop_rate(e, 0.45, gradual=10, exponent=exponent, form="released") for e in range(199)]
    # Its last gradual step is rate^exponent, one epoch before the rate itself.
    expected = table[1:].tolist()
    assert mine[:8] == pytest.approx(expected[:8])
    assert mine[9:] == pytest.approx(expected[9:])
    assert mine[8] == pytest.approx(expected[8])


def test_drop_rate_of_the_paper():
    rates = [drop_rate(e, 0.5, gradual=10, exponent=2) for e in range(6)]
    assert rates == pytest.approx([0, 0.05, 0.2, 0.45, 0.5, 0.5])
    assert drop_rate(0, 0.5, gradual=0) == 0.5


def test_threshold_of_josrc():
    rise = [threshold(e, start=0.75, end=0.95, warmup=4, epochs=8) for e in range(8)]
    assert rise == pytest.approx([0, 0.1875, 0.375, 0.5625, 0.75, 0.8, 0.85, 0.9])


def test_a_rate_that_nobody_knows():
    assert known_rate("jocor", "forget_rate", None, 0.3) == 0.3
    assert known_rate("jocor", "forget_rate", 0.1, 0.3) == 0.1
    with pytest.raises(UserError, match=r"jocor has to know.*method\.options\.forget_rate"):
        known_rate("jocor", "forget_rate", None, None)
    with pytest.raises(UserError, match=r"\[0, 1\), got 1\.5"):
        known_rate("jocor", "forget_rate", 1.5, None)


def test_length_of_a_warmup():
    assert warmup_epochs("x", None, 200, (10, 200)) == 10
    assert warmup_epochs("x", None, 5, (10, 200)) == 1
    assert warmup_epochs("x", None, 1, (10, 200)) == 0
    assert warmup_epochs("x", 0, 5, (10, 200)) == 0
    with pytest.raises(UserError, match=r"x: warmup must lie in \[0, 5\)"):
        warmup_epochs("x", 5, 5, (10, 200))


def test_trust_from_probability_tells_two_groups_apart():
    values = torch.cat([torch.linspace(0.9, 1.0, 60), torch.linspace(0.3, 0.5, 40)])
    trust = trust_from_probability(values)
    assert float(1 - trust.mean()) == pytest.approx(0.4, abs=0.02)
    assert trust_from_probability(torch.tensor([0.5, torch.nan])) is None
