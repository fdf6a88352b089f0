"""Schedules and optimisers against torch's own and against the published rules."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.optim import lr_scheduler

from edgemask.engine.config import OptimConfig, ScheduleConfig
from edgemask.engine.optim import build_optimiser, l1_term, loss_optimiser, set_rate
from edgemask.engine.schedules import build_schedule
from edgemask.errors import UserError
from edgemask.losses import build
from sweeps import sweep


def rates(name, options, epochs=12, **extra):
    schedule = build_schedule(ScheduleConfig(name=name, options=options, **extra), epochs)
    return [schedule.at(epoch, float(epoch)) for epoch in range(epochs)]


def torch_rates(make, epochs=12):
    optimiser = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
    scheduler = make(optimiser)
    result = []
    for _ in range(epochs):
        result.append(optimiser.param_groups[0]["lr"])
        optimiser.step()
        scheduler.step()
    return result


@sweep(
    ("name", "options", "reference"),
    [
        ("cosine", {}, lambda o: lr_scheduler.CosineAnnealingLR(o, 12)),
        ("cosine", {"period": 5.0}, lambda o: lr_scheduler.CosineAnnealingLR(o, 5)),
        ("cosine", {"minimum": 0.1}, lambda o: lr_scheduler.CosineAnnealingLR(o, 12, 0.1)),
        ("step", {"size": 5, "gamma": 0.1}, lambda o: lr_scheduler.StepLR(o, 5, 0.1)),
        ("step", {"size": 1, "gamma": 0.97}, lambda o: lr_scheduler.StepLR(o, 1, 0.97)),
        ("milestones", {"at": [3, 7]}, lambda o: lr_scheduler.MultiStepLR(o, [3, 7], 0.1)),
        (
            "restarts",
            {"period": 3, "growth": 2, "minimum": 0.05},
            lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 3, 2, 0.05),
        ),
    ],
)
def test_schedules_equal_torch(name, options, reference):
    assert rates(name, options) == pytest.approx(torch_rates(reference), abs=1e-12)


def test_linear_decay_of_co_teaching():
    schedule = build_schedule(
        ScheduleConfig(name="linear", options={"start": 80, "beta1": 0.1}), 200
    )
    assert [schedule.at(e, e) for e in (0, 79, 80, 140, 199)] == pytest.approx(
        [1, 1, 1, 0.5, 1 / 120]
    )
    assert [schedule.beta1(e) for e in (0, 79, 80, 199)] == [None, None, 0.1, 0.1]


def test_cosine_after_a_constant_stretch():
    values = rates("cosine", {"start": 4.0}, epochs=8)
    assert values[:5] == [1.0] * 5
    assert values[6] == pytest.approx(0.5)


def test_warm_up_rises_step_by_step():
    schedule = build_schedule(ScheduleConfig(name="constant", warmup=2.0), 10)
    assert [schedule.at(0, 0.0), schedule.at(0, 0.5), schedule.at(1, 1.5), schedule.at(2, 2.0)] == [
        0.0,
        0.25,
        0.75,
        1.0,
    ]


@sweep(
    ("name", "options"),
    [
        ("cosine", {"start": 12.0}),
        ("step", {"size": 0}),
        ("restarts", {"period": 0}),
        ("linear", {"start": 12}),
    ],
)
def test_schedules_that_cannot_be(name, options):
    with pytest.raises(UserError, match=name):
        rates(name, options)


def test_the_rate_and_beta1_reach_the_optimiser():
    config = OptimConfig(name="adam", lr=0.1)
    optimiser = build_optimiser(config, [nn.Parameter(torch.zeros(1))])
    schedule = build_schedule(ScheduleConfig(name="linear", options={"start": 2, "beta1": 0.1}), 4)
    assert set_rate(optimiser, config, schedule, epoch=3, time=3.5) == pytest.approx(0.05)
    assert optimiser.param_groups[0]["betas"] == (0.1, 0.999)
    set_rate(optimiser, config, schedule, epoch=0, time=0.0)
    assert optimiser.param_groups[0]["betas"] == (0.9, 0.999)
    assert set_rate(optimiser, config, schedule, epoch=3, time=3.0, fixed=0.7) == 0.7


@sweep(
    ("name", "kind"),
    [("sgd", torch.optim.SGD), ("adam", torch.optim.Adam), ("adamw", torch.optim.AdamW)],
)
def test_optimisers(name, kind):
    config = OptimConfig(name=name, lr=0.3, weight_decay=0.01, momentum=0.8, nesterov=True)
    optimiser = build_optimiser(config, [nn.Parameter(torch.zeros(1))])
    assert type(optimiser) is kind
    assert optimiser.param_groups[0]["weight_decay"] == 0.01
    if name == "sgd":
        assert optimiser.param_groups[0]["nesterov"] is True


def test_a_loss_brings_its_own_optimiser():
    assert loss_optimiser(build("ce")) is None
    optimiser = loss_optimiser(build("sop", num_samples=5, num_classes=3, lr_u=2.0, lr_v=7.0))
    assert optimiser is not None
    assert [group["lr"] for group in optimiser.param_groups] == [2.0, 7.0]
    assert all(group["momentum"] == 0 for group in optimiser.param_groups)
    with pytest.raises(UserError, match="parameter_groups"):
        loss_optimiser(nn.Linear(2, 2))


def test_l1_is_the_plain_sum_over_what_learns():
    net = nn.Linear(3, 2)
    expected = sum(abs(float(v)) for p in net.parameters() for v in p.detach().flatten())
    assert float(l1_term(net.parameters()).detach()) == pytest.approx(expected, rel=1e-6)
    net.bias.requires_grad_(requires_grad=False)
    expected = sum(abs(float(v)) for v in net.weight.detach().flatten())
    assert float(l1_term(net.parameters()).detach()) == pytest.approx(expected, rel=1e-6)
