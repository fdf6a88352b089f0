"""Recipes of the selection methods: the numbers of Table S6 and of the released codes."""

from __future__ import annotations

import pytest

from edgemask.engine.recipes import RECIPES, explain
from sweeps import sweep


@pytest.mark.parametrize("dataset", ["cifar100", "cifar80n-o"])
def test_josnc_on_cifar_is_table_s6(dataset):
    config = RECIPES[f"{dataset}/josnc"].config()
    assert config.model.name == "cnn7-mlp"
    assert (config.train.epochs, config.train.batch_size) == (200, 128)
    assert (config.optim.name, config.optim.lr, config.optim.weight_decay) == ("adam", 1e-3, 0)
    assert config.optim.schedule.name == "cosine"
    assert config.noise.protocol == "nust"
    sources = {key: source for key, _, source in explain(f"{dataset}/josnc")}
    assert sources["optim.lr"] == "the paper, Table S6"
    assert "Jo-SNC" in sources["method.options.smoothing"]


def test_josnc_on_webvision_is_table_s6_and_pretrained_only_as_released():
    config = RECIPES["webvision-mini/josnc"].config()
    assert config.model.name == "timm:inception_resnet_v2"
    assert not config.model.pretrained
    assert (config.train.epochs, config.train.batch_size) == (100, 64)
    assert (config.optim.lr, config.optim.weight_decay) == (0.01, 1e-4)
    assert config.optim.schedule.options["at"] == [20, 40, 60, 80]
    assert config.method.options["features"] == 512
    taus = [config.method.options[key] for key in ("warmup_tau_momentum", "tau_momentum")]
    assert taus == [0.75, 0.99]
    released = RECIPES["webvision-mini/josnc-pretrained"].config()
    assert released.model.pretrained
    assert released.method.options["warmup_heads_only"]
    assert RECIPES["webvision-mini/josnc-resnet50-sem"].config().head.name == "sem"


@sweep(("dataset", "fall"), [("cifar10", 80), ("cifar100", 100)])
@sweep("method", ["coteaching", "jocor"])
def test_small_loss_methods_shorten_adams_memory(method, dataset, fall):
    config = RECIPES[f"{dataset}/{method}"].config()
    assert config.optim.schedule.name == "linear"
    assert config.optim.schedule.options == {"start": fall, "beta1": 0.1}
    assert config.data.views.endswith("/plain")
    assert config.method.options["forget_rate"] is None


def test_small_loss_methods_on_mnist():
    coteaching, jocor = (RECIPES[f"mnist/{name}"].config() for name in ("coteaching", "jocor"))
    for config in (coteaching, jocor):
        assert config.optim.schedule.options == {"start": 80, "beta1": 0.1}
        assert config.data.views == "mnist/plain"
    assert coteaching.model.name == "cnn9"
    assert (jocor.model.name, jocor.model.options["hidden"]) == ("mlp", [256])


def test_ca2c_and_josrc_as_released():
    ca2c = RECIPES["cifar80n-o/ca2c-sem"].config()
    assert (ca2c.train.epochs, ca2c.method.options["warmup"]) == (700, 400)
    assert ca2c.optim.schedule.options["start"] == 500
    assert (ca2c.optim.nesterov, ca2c.optim.lr, ca2c.optim.weight_decay) == (True, 0.02, 5e-4)
    assert ca2c.head.options["rho"] == 0.5
    josrc = RECIPES["cifar100/josrc"].config()
    assert josrc.optim.schedule.options == {"start": 80, "beta1": 0.1}
    clothing = RECIPES["clothing1m/josrc"].config()
    assert (clothing.method.options["smoothing"], clothing.method.options["tau"]) == (0.7, 0.9)
    assert clothing.model.name == "timm:resnet18"
    assert clothing.data.options["with_clean_train"] is False
    released = RECIPES["clothing1m/josrc-released"].config()
    assert released.data.options["with_clean_train"] is True


@pytest.mark.parametrize(("dataset", "weight"), [("cifar10", 0.9), ("cifar100", 0.85)])
def test_jocor_has_the_authors_best_weight(dataset, weight):
    assert RECIPES[f"{dataset}/jocor"].config().method.options["co_lambda"] == weight
