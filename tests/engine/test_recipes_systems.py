"""Recipes of ELR+, DISC and CLIPCleaner against their released settings."""

from __future__ import annotations

from edgemask.engine.recipes import RECIPES, explain
from edgemask.engine.schedules import build_schedule
from sweeps import sweep

# network, epochs, batch, lr, weight decay, momentum
RELEASED = {
    "cifar10/elr-plus": ("preact-resnet18", 200, 128, 0.02, 5e-4, 0.9),
    "cifar100/elr-plus": ("preact-resnet18", 250, 128, 0.02, 5e-4, 0.9),
    "webvision-mini/elr-plus": ("timm:inception_resnet_v2", 100, 32, 0.02, 5e-4, 0.9),
    "clothing1m/elr-plus": ("timm:resnet50", 15, 64, 0.002, 1e-3, 0.9),
    "cifar10/disc": ("resnet18", 200, 128, 0.1, 1e-3, 0.0),
    "cifar100/disc-instance": ("resnet34", 200, 128, 0.1, 1e-3, 0.0),
    "webvision-mini/disc": ("timm:inception_resnet_v2", 100, 32, 0.1, 5e-4, 0.0),
    "clothing1m/disc": ("timm:resnet50", 100, 32, 0.01, 5e-4, 0.0),
    "cifar100/clipcleaner": ("preact-resnet18", 300, 128, 0.02, 5e-4, 0.9),
    "webvision-mini/clipcleaner": ("timm:inception_resnet_v2", 150, 64, 0.02, 5e-4, 0.9),
}
# When the rate falls to a tenth.
FALLS = {
    "cifar10/elr-plus": [150],
    "cifar100/elr-plus": [200],
    "webvision-mini/elr-plus": [50],
    "clothing1m/elr-plus": [7],
    "cifar10/disc": [80, 160],
    "cifar100/disc-instance": [80, 160],
    "webvision-mini/disc": [60, 80],
    "clothing1m/disc": [50, 80],
    "cifar100/clipcleaner": [200, 250],
    "webvision-mini/clipcleaner": [80, 120],
}
METHOD_OPTIONS = {
    "cifar10/elr-plus": {"beta": 0.7, "lam": 3, "mixup": 1, "momentum": 0.997, "average": "ramp"},
    "cifar10/elr-plus-asym": {"beta": 0.9, "lam": 1},
    "cifar100/elr-plus": {"beta": 0.9, "lam": 7},
    "webvision-mini/elr-plus": {"lam": 3, "mixup": 1.5, "average": "mean", "ramp": 0},
    "clothing1m/elr-plus": {"momentum": 0.9999, "average": "mean", "subset": 192_000},
    "cifar10/disc": {"warmup": 20, "momentum": None, "hard_weight": None, "alpha": 5, "q": 0.7},
    "cifar10/disc-instance": {"warmup": 15},
    "webvision-mini/disc": {"warmup": 15, "momentum": 0.99, "subset": None},
    "clothing1m/disc": {"warmup": 10, "momentum": 0.95, "subset": 32_000},
    "cifar10/clipcleaner": {"consistency": 0.8, "keep": 0.8, "relabel": 0.8, "alpha": 1},
    "cifar10/clipcleaner-instance": {"keep": 1.0, "relabel": 1.0},
    "webvision-mini/clipcleaner": {"consistency": 1, "keep": 0.7, "relabel": 1, "alpha": 0.5},
}


@sweep("name", RELEASED)
def test_released_settings(name):
    config = RECIPES[name].config()
    train, optim = config.train, config.optim
    found = (config.model.name, train.epochs, train.batch_size, optim.lr, optim.weight_decay)
    assert (*found, optim.momentum) == RELEASED[name]
    assert optim.schedule.options == {"at": FALLS[name], "gamma": 0.1}
    assert "released code" in {key: source for key, _, source in explain(name)}["optim.lr"]


@sweep("name", METHOD_OPTIONS)
def test_released_options(name):
    for recipe in (name, f"{name}-sem"):
        options = RECIPES[recipe].config().method.options
        found = {key: options[key] for key in METHOD_OPTIONS[name]}
        assert found == METHOD_OPTIONS[name]


def test_disc_with_much_noise_is_trained_with_adam():
    config = RECIPES["cifar100/disc-80"].config()
    assert (config.optim.name, config.optim.lr) == ("adam", 1e-3)
    schedule = build_schedule(config.optim.schedule, 200)
    assert [schedule.at(e, float(e)) for e in (0, 120, 160)] == [1.0, 1.0, 0.5]
    assert config.optim.schedule.options["beta1"] == 0.1


def test_noisy_or_clean_samples_choose_the_weights_of_elr_plus_as_released():
    config = RECIPES["cifar100/elr-plus"].config()
    assert (config.data.validation, config.train.select) == (0.1, "validation")
    assert RECIPES["clothing1m/elr-plus"].config().train.select == "clean_validation"
    assert RECIPES["webvision-mini/elr-plus"].config().train.select == "last"
