"""Recipes against Table S6 and the released code, typed in once more from the sources."""

from __future__ import annotations

from edgemask.engine import RECIPES, explain
from edgemask.engine.config import build, to_dict
from edgemask.engine.recipes import DEFAULT, flatten
from edgemask.losses import preset_settings
from sweeps import sweep

# Table S6 of the paper: model, epochs, batch, lr, schedule, weight decay.
TABLE_S6 = {
    "cifar10": ("cnn8", 120, 128, 0.01, "cosine", 1e-4),
    "cifar100": ("resnet34", 200, 128, 0.1, "cosine", 1e-5),
    "cifar80n-o": ("resnet34", 200, 128, 0.1, "cosine", 1e-5),
    "webvision-mini": ("timm:inception_resnet_v2", 250, 256, 0.4, "step", 3e-5),
    "clothing1m": ("timm:resnet50", 10, 256, 0.005, "step", 1e-3),
}


@sweep("dataset", TABLE_S6)
@sweep("suffix", ["", "-sem"])
def test_table_s6(dataset, suffix):
    config = RECIPES[f"{dataset}/ce{suffix}"].config()
    row = (
        config.model.name,
        config.train.epochs,
        config.train.batch_size,
        config.optim.lr,
        config.optim.schedule.name,
        config.optim.weight_decay,
    )
    assert row == TABLE_S6[dataset]
    assert config.optim.l1 == 0
    assert (config.optim.name, config.optim.momentum) == ("sgd", 0.9)
    assert config.head.name == ("sem" if suffix else "linear")
    assert config.data.spec == dataset


def test_schedules_of_the_table():
    webvision = RECIPES["webvision-mini/jal"].config().optim.schedule
    assert webvision.options == {"size": 1, "gamma": 0.97}
    clothing = RECIPES["clothing1m/jal"].config()
    assert clothing.optim.schedule.options == {"size": 5, "gamma": 0.1}
    assert clothing.model.pretrained is True
    assert clothing.optim.clip is None


# The released code of JAL: alpha, beta, a; L1; L2; and the table's reading of L2.
JAL = {
    "cifar10": ((1, 1, 30), 5e-5, 0.0, 1e-4),
    "cifar100": ((5, 1, 20), 5e-6, 0.0, 1e-5),
    "webvision-mini": ((50, 1, 30), 0.0, 3e-5, 3e-5),
    "clothing1m": ((5, 0.1, 5), 0.0, 1e-3, 1e-3),
}


@sweep("dataset", JAL)
def test_jal_is_regularised_as_released_and_s6_is_the_letter(dataset):
    params, l1, l2, letter = JAL[dataset]
    config = RECIPES[f"{dataset}/jal-sem"].config()
    options = config.loss.options
    assert (options["alpha"], options["beta"], options["a"]) == params
    assert (config.optim.l1, config.optim.weight_decay) == (l1, l2)
    literal = RECIPES[f"{dataset}/jal-sem/s6"].config()
    assert (literal.optim.l1, literal.optim.weight_decay) == (0.0, letter)


def test_anl_on_cifar():
    assert RECIPES["cifar10/anl"].config().optim.l1 == 5e-5
    assert RECIPES["cifar100/anl"].config().optim.l1 == 5e-7


def test_the_sem_head_is_the_papers():
    options = RECIPES["cifar100/ce-sem"].config().head.options
    assert (options["rho"], options["beta"]) == (0.5, 0.9)


def test_every_recipe_resolves_and_explains_every_value():
    assert len(RECIPES) > 300
    for name, recipe in RECIPES.items():
        assert recipe.name == name
        rows = explain(name)
        assert {key: value for key, value, _ in rows} == flatten(to_dict(recipe.config())), name
        sources = {key: source for key, _, source in rows}
        for key, setting in recipe.settings.items():
            assert sources[key] == setting.source, (name, key)
            assert len(setting.source) > 5, (name, key)
            assert "{" not in f"{setting.source} {setting.value}", (name, key)
        assert build(recipe.layer()) is not None


def test_sources_name_paper_and_code():
    sources = {key: source for key, _, source in explain("cifar10/jal-sem")}
    assert sources["train.epochs"] == "the paper, Table S6"
    assert "joint-asymmetric-loss" in sources["optim.clip"]
    assert "joint-asymmetric-loss" in sources["loss.options.a"]
    assert sources["eval.batch_size"] == DEFAULT


def test_what_comes_with_the_preset_of_a_loss_names_it():
    rows = {key: (value, source) for key, value, source in explain("digits/jal-sem")}
    preset = preset_settings("jal", "digits")
    for key, value in {"optim.l1": preset.l1, "loss.options.a": preset.params["a"]}.items():
        assert rows[key] == (value, f"the preset of the loss: {preset.source}")
    assert rows["loss.options.scale"][1] == "EdgeMask's default"
    assert {key: s for key, _, s in explain("digits/ce")}["optim.l1"] == "EdgeMask's default"


def test_noise_protocols():
    assert RECIPES["cifar10/ce"].config().noise.protocol == "jal"
    assert RECIPES["cifar80n-o/ce"].config().noise.protocol == "nust"


def test_settings_go_on_top_and_summaries_exist():
    config = RECIPES["cifar10/ce"].config({"train": {"epochs": 3}, "noise": {"spec": "sym:0.2"}})
    assert (config.train.epochs, config.noise.spec) == (3, "sym:0.2")
    assert all(len(text) > 10 for text in RECIPES.summaries().values())
