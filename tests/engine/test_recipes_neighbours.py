"""Recipes of SSR, Neighborhood Collective Estimation and ProMix against the published numbers."""

from __future__ import annotations

from edgemask.engine.recipes import RECIPES
from edgemask.engine.schedules import build_schedule
from sweeps import sweep

NEIGHBORHOOD = "neighborhood-collective-estimation"

# epochs, batch, lr, weight decay; options of the method
SSR = {"theta_s": 1.0, "neighbours": 200, "consistency": 1.0}
RELEASED = {
    "cifar10/ssr": (300, 128, 0.02, 5e-4, SSR | {"theta_r": 0.9, "alpha": 4.0}),
    "cifar100/ssr-50": (300, 128, 0.02, 5e-4, SSR | {"theta_r": 0.8, "alpha": 4.0}),
    "webvision-mini/ssr": (150, 32, 0.01, 1e-4, SSR | {"theta_r": 0.95, "projection": 256}),
    "clothing1m/ssr": (150, 32, 0.002, 1e-3, SSR | {"theta_r": 0.99, "subset": 32_000}),
    f"cifar10/{NEIGHBORHOOD}": (300, 128, 0.02, 5e-4, {"theta_v": 0.75, "theta_c": 0.002}),
    f"cifar10/{NEIGHBORHOOD}-asym": (300, 128, 0.02, 5e-4, {"theta_v": 0.5, "theta_c": 0.0005}),
    f"cifar100/{NEIGHBORHOOD}": (
        *(300, 128, 0.02, 5e-4),
        {"theta_v": 0.9, "theta_c": 0.01, "warmup": 30, "strong_labelled": False},
    ),
    f"cifar100/{NEIGHBORHOOD}-50": (
        *(300, 128, 0.02, 5e-4),
        {"theta_c": 0.005, "strong_labelled": True, "correct_above": 0.2},
    ),
    f"webvision-mini/{NEIGHBORHOOD}": (80, 32, 0.01, 5e-4, {"theta_v": 0.9, "theta_c": 0.0}),
    "cifar10/promix": (600, 256, 0.05, 5e-4, {"rho": 0.5, "tau": 0.99, "debias": 0.8}),
    "cifar10/promix-20": (600, 256, 0.05, 5e-4, {"rho": 0.7, "warmup": 10}),
    "cifar100/promix": (600, 256, 0.05, 5e-4, {"rho": 0.5, "tau": 0.95, "debias": 0.5}),
    "cifar100/promix-20": (600, 256, 0.05, 5e-4, {"rho": 0.7, "warmup": 30}),
}


@sweep("name", RELEASED)
def test_released_settings(name):
    config = RECIPES[name].config()
    *numbers, options = RELEASED[name]
    optim = config.optim
    assert [config.train.epochs, config.train.batch_size, optim.lr, optim.weight_decay] == numbers
    assert config.method.options | options == config.method.options
    assert (optim.name, optim.momentum) == ("sgd", 0.9)
    assert RECIPES[f"{name}-sem"].config().head.name == "sem"


def factors(name, *epochs):
    config = RECIPES[name].config()
    schedule = build_schedule(config.optim.schedule, config.train.epochs)
    return [round(schedule.at(epoch, float(epoch)), 4) for epoch in epochs]


def test_learning_rates():
    assert factors("cifar10/ssr", 0, 150, 300) == [1, 0.51, 0.02]
    assert factors("clothing1m/ssr", 49, 50, 100) == [1, 0.1, 0.01]
    assert factors(f"cifar100/{NEIGHBORHOOD}", 149, 150) == [1, 0.1]
    assert factors("cifar100/promix", 0, 300, 600) == [1, 0.5005, 0.001]


def test_views_and_networks():
    assert RECIPES["webvision-mini/ssr"].config().data.options["recipe"] == "ssr"
    assert RECIPES["cifar100/promix"].config().data.views == "cifar100/promix"
    assert RECIPES["clothing1m/ssr"].config().data.views == "clothing1m/unicon"
    assert RECIPES[f"webvision-mini/{NEIGHBORHOOD}"].config().model.options["neck"] == "none"
    assert RECIPES["clothing1m/ssr"].config().method.options["initial_std"] == 0.001
