"""Recipes of DivideMix, UNICON, CDR, ELR and SOP against the published numbers."""

from __future__ import annotations

import pytest

from edgemask.engine.recipes import RECIPES, explain
from edgemask.engine.schedules import build_schedule
from sweeps import sweep


def values(name):
    return {key: value for key, value, _ in explain(name)}


def test_dividemix_on_clothing1m_is_the_column_of_table_s6():
    rows = {key: (value, source) for key, value, source in explain("clothing1m/dividemix-sem")}
    table = {
        "model.name": "timm:resnet50",
        "model.pretrained": True,
        "train.epochs": 80,
        "train.batch_size": 32,
        "optim.lr": 0.002,
        "optim.weight_decay": 1e-4,
    }
    for key, value in table.items():
        assert rows[key] == (value, "the paper, Table S6"), key
    config = RECIPES["clothing1m/dividemix-sem"].config()
    schedule = build_schedule(config.optim.schedule, config.train.epochs)
    assert [round(schedule.at(e, float(e)), 6) for e in (0, 39, 40, 79)] == [1, 1, 0.1, 0.1]
    assert config.head.name == "sem"
    assert config.method.options["unlabelled_loss"] is False
    assert config.method.options["subset"] == 32_000
    assert values("clothing1m/dividemix-released")["optim.weight_decay"] == 1e-3


# epochs, batch, lr, weight decay, alpha, warm-up
RELEASED = {
    "cifar10/dividemix": (300, 64, 0.02, 5e-4, 4.0, 10),
    "cifar100/dividemix": (300, 64, 0.02, 5e-4, 4.0, 30),
    "webvision-mini/dividemix": (80, 32, 0.01, 5e-4, 0.5, 1),
    "cifar10/unicon": (350, 64, 0.02, 5e-4, 4.0, 10),
    "cifar100/unicon": (350, 64, 0.02, 5e-4, 4.0, 30),
    "cifar80n-o/unicon": (350, 64, 0.02, 5e-4, 4.0, 30),
    "webvision-mini/unicon": (120, 24, 0.01, 1e-4, 0.5, 2),
    "clothing1m/unicon": (200, 32, 0.005, 1e-3, 0.5, 0),
}


@sweep("name", RELEASED)
def test_released_settings(name):
    config = RECIPES[name].config()
    found = (
        config.train.epochs,
        config.train.batch_size,
        config.optim.lr,
        config.optim.weight_decay,
        config.method.options["alpha"],
        config.method.options["warmup"],
    )
    assert found == RELEASED[name]
    assert config.optim.momentum == 0.9
    assert not config.optim.nesterov


def test_unicon_on_cifar80n_o_is_that_of_cifar100_with_the_noise_of_table_3():
    config, source = RECIPES["cifar80n-o/unicon-sem"].config(), values("cifar100/unicon")
    assert (config.data.spec, config.noise.protocol) == ("cifar80n-o", "nust")
    assert config.data.views == source["data.views"] == "cifar100/dividemix"
    assert config.model.name == source["model.name"]
    assert config.method.options["contrastive"] == 0.025


def test_the_rate_of_unicon_rises_again_as_released():
    config = RECIPES["cifar10/unicon"].config()
    schedule = build_schedule(config.optim.schedule, config.train.epochs)
    rate = [config.optim.lr * schedule.at(epoch, float(epoch)) for epoch in (0, 280, 350)]
    assert rate == pytest.approx([0.02, 2e-4, 0.0031], abs=1e-4)


@pytest.mark.parametrize("suffix", ["", "-sem"])
def test_on_clothing1m_clean_images_choose_the_weights_as_released(suffix):
    for name in ("dividemix", "dividemix-released", "unicon"):
        rows = {
            key: (value, source) for key, value, source in explain(f"clothing1m/{name}{suffix}")
        }
        choice, source = rows["train.select"]
        assert choice == "clean_validation"
        assert "released code of" in source
        assert rows["train.rollback"][0] is (name == "unicon")
        assert rows["data.views"][0] == f"clothing1m/{name.split('-')[0]}"


def test_unicon_on_large_sets_as_released():
    options = RECIPES["clothing1m/unicon"].config().method.options
    assert (options["repeats"], options["repeat_more_after"]) == (2, 100)
    assert (options["second_first"], options["warmup_batch"]) == (False, 2)
    config = RECIPES["webvision-mini/unicon"].config()
    options = config.method.options
    assert (options["repeats"], options["repeat_more_after"]) == (1, None)
    assert options["second_first"] is True
    assert options["warmup_batch"] * config.train.batch_size == 96


def test_dividemix_on_webvision_by_its_second_script():
    config = RECIPES["webvision-mini/dividemix-parallel"].config()
    assert (config.train.epochs, config.optim.schedule.options["at"]) == (100, [50])
    assert config.method.options["reg_covar"] == 1e-3


@sweep("name", ["cifar10/elr", "cifar10/elr-asym", "cifar100/elr-sem"])
def test_noisy_samples_choose_the_weights_of_elr_and_cdr_as_released(name):
    for recipe in (name, "cifar10/cdr-released"):
        config = RECIPES[recipe].config()
        assert (config.data.validation, config.train.select) == (0.1, "validation")
    assert RECIPES["cifar100/sop"].config().train.select == "last"
    assert RECIPES["cifar100/sop"].config().data.views == "cifar100/sop"


def test_cdr_is_trained_like_plain_cross_entropy():
    plain, cdr = values("cifar100/ce"), values("cifar100/cdr")
    for key in ("model.name", "train.epochs", "optim.lr", "optim.clip", "loss.name"):
        assert cdr[key] == plain[key], key
    assert cdr["method.options.rule"] == "paper"
    assert values("cifar100/cdr-head")["method.options.scope"] == "head"
    released = values("cifar10/cdr-released")
    assert released["method.options.rule"] == "code"
    assert released["optim.weight_decay"] == 1e-3
    assert released["train.batch_size"] == 64
    fashion = values("fashion-mnist/cdr-released")
    assert (fashion["train.epochs"], fashion["train.batch_size"]) == (100, 32)
    assert fashion["optim.schedule.options.at"] == [10, 20]


def test_elr_and_sop_are_as_released():
    symmetric, asymmetric = values("cifar10/elr"), values("cifar10/elr-asym")
    assert (symmetric["loss.options.beta"], symmetric["loss.options.lam"]) == (0.7, 3.0)
    assert (asymmetric["loss.options.beta"], asymmetric["loss.options.lam"]) == (0.9, 1.0)
    assert (symmetric["train.epochs"], asymmetric["train.epochs"]) == (150, 120)
    config = RECIPES["cifar10/elr"].config()
    schedule = build_schedule(config.optim.schedule, 150)
    assert schedule.at(10, 10.0) == 1.0
    assert 0.02 * schedule.at(9, 9.0) == pytest.approx(0.02 * 0.05 + 0.019 * 0.0245, abs=1e-4)
    sop = values("cifar100/sop-asym")
    assert (sop["loss.options.lr_u"], sop["loss.options.lr_v"]) == (0.1, 100.0)
    assert (sop["train.epochs"], sop["model.name"]) == (300, "preact-resnet18")
