"""One way from what a person says to a config, for the command and for Python."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn
from typer.testing import CliRunner

import edgemask as em
from edgemask.engine import compose
from edgemask.errors import UserError
from edgemask.heads import SEMLinear
from edgemask.reproduce import make_points, parse_axis
from sweeps import sweep

QUIET = {"log": {"trackers": []}}


def command(*arguments):
    """Return the config that the command resolves to, or its error."""
    from edgemask.cli.app import app

    result = CliRunner().invoke(app, ["train", *map(str, arguments), "--dry-run", "--json"])
    if result.exit_code == 2:
        return result.stderr.removeprefix("error: ").strip()
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)["config"]


def python(**keywords):
    try:
        return em.fit(dry_run=True, **keywords).config.model_dump()
    except UserError as error:
        return str(error)


# Each entry: the keyword of fit, the flag of the command, and values, right and wrong.
KEYWORDS = {
    "noise": ("--noise", ["sym:0.4", "asym:0.2", "none", "sym:7"]),
    "model": ("--model", ["mlp", "small-cnn", "mlp(hidden=[16])", "cnn88", "mlp(hiden=1)"]),
    "head": ("--head", ["linear", "sem", "sem(rho=0.3)", "kan(grid_size=3)", "sem(rho=x)", "sme"]),
    "loss": ("--loss", ["ce", "gce(q=0.5)", "jal", "gce(p=1)", "a b"]),
    "method": ("--method", ["supervised", "elr", "coteaching", "supervised(mixup=yes)"]),
    "epochs": ("--epochs", [1, 7, 0]),
    "batch_size": ("--batch-size", [32, -1]),
    "lr": ("--lr", [0.1, -1.0]),
    "seed": ("--seed", [0, 3]),
    "validation": ("--validation", [0.1, 1.0]),
    "select": ("--select", ["last", "validation", "best"]),
    "recipe": ("--recipe", ["digits/jal-sem", "digits/ce", "cifar10/jal-sem", "digits/nothing"]),
}
SETS = [
    "model.width=0.5",
    "head.options.rho=0.2",
    "optim.clip=1",
    "optim.lrr=1",
    "head.name=linear",
]


@settings(
    max_examples=40, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
@given(
    st.fixed_dictionaries(
        {}, optional={key: st.sampled_from(values) for key, (_, values) in KEYWORDS.items()}
    ),
    st.lists(st.sampled_from(SETS), max_size=2, unique=True),
)
def test_the_command_and_fit_resolve_to_the_same_config_or_the_same_error(keywords, sets):
    flags = ["--data", "digits"]
    for key, value in keywords.items():
        flags += [KEYWORDS[key][0], value]
    for line in sets:
        flags += ["--set", line]
    assert command(*flags) == python(data="digits", set=sets, **keywords)


def test_a_table_gets_a_model_that_takes_tables_and_the_default_head_is_the_command_s():
    x = np.random.default_rng(0).normal(size=(40, 5)).astype(np.float32)
    config = em.fit(x, np.arange(40) % 2, dry_run=True).config
    assert (config.model.name, config.head.name, config.loss.name) == ("mlp", "linear", "elr")
    config = em.fit("digits", dry_run=True).config
    assert (config.model.name, config.head.name) == ("small-cnn", "linear")
    assert config.model_dump() == command("--data", "digits")


def test_settings_of_the_model_reach_the_model_that_is_chosen_for_the_data():
    config = command("--data", "digits", "--width", 4, "--set", "model.options.hidden=32")
    assert config["model"]["width"] == 4.0
    assert config["model"]["options"] == {"hidden": 32}
    chosen = em.fit("digits", settings={"model": {"width": 4}}, dry_run=True)
    assert chosen.config.model.width == 4.0
    error = command("--data", "digits", "--pretrained")
    assert "no published weights for 'small-cnn'" in error


def test_a_part_under_a_new_name_starts_from_its_own_defaults():
    run = em.fit("digits", recipe="cifar10/jal-sem", head="linear", dry_run=True)
    assert (run.config.head.name, run.config.head.options) == ("linear", {})
    assert run.config.loss.name == em.losses.LOSSES.name_of("jal")


def test_the_l1_term_of_a_recipe_goes_with_its_loss(tmp_path):
    def l1(*words, **keywords):
        keywords["data"] = "digits"  # is always there
        config, _ = compose("cifar10/jal", keywords=keywords, sets=words)
        typed = command(
            "--recipe", "cifar10/jal", *flags(keywords), *(w for s in words for w in ("--set", s))
        )
        assert config.model_dump() == typed
        return config.optim.l1

    def flags(keywords):
        return [word for key, value in keywords.items() for word in (f"--{key}", value)]

    assert l1() == l1(loss="jal-ce") == l1(loss="jal_ce") == 5e-5
    assert l1(loss="gce") == l1("loss.name=gce") == 0.0
    assert l1("optim.l1=1e-3", loss="gce") == 1e-3
    assert l1(loss="anl-ce") == em.losses.preset_settings("anl-ce", "cifar10").l1 > 0
    own = tmp_path / "own.yaml"
    own.write_text("optim: {l1: 0.002}\n")
    assert compose("cifar10/jal", own, {"loss": "gce"})[0].optim.l1 == 0.002
    axes = [parse_axis("loss.name=jal,gce", {})]
    points = make_points({}, axes, "cifar10/jal")
    assert [point.config.optim.l1 for point in points] == [5e-5, 0.0]


def test_layers_go_recipe_file_keywords_settings_set(tmp_path):
    path = tmp_path / "own.yaml"
    path.write_text("train: {epochs: 5, batch_size: 16, seed: 5}\noptim: {lr: 0.3}\n")
    config, _ = compose(
        "digits/ce-sem",
        path,
        {"batch_size": 48, "seed": 6, "head": "sem(rho=0.2, beta=0.5)"},
        {"train.seed": 8, "head.options.beta": 0.7},
        settings={"train": {"seed": 7}, "head": {"options": {"rho": 0.1}}},
    )
    train = config.train
    assert (train.epochs, train.batch_size, train.seed) == (5, 48, 8)
    assert (config.head.options["rho"], config.head.options["beta"]) == (0.1, 0.7)
    assert (config.optim.lr, config.optim.schedule.name) == (0.3, "constant")


class Scaled(nn.Linear):
    """A head with an option."""

    def __init__(self, in_features, out_features, bias=True, *, scale=1.0, device=None, dtype=None):
        super().__init__(in_features, out_features, bias, device=device, dtype=dtype)
        self.scale = scale

    def forward(self, x):
        return super().forward(x) * self.scale


def two_layers(in_features, out_features, bias):
    return nn.Sequential(nn.Linear(in_features, 8), nn.Linear(8, out_features, bias))


class Temperature(nn.Module):
    """A loss with an option."""

    def __init__(self, t: float = 1.0):
        super().__init__()
        self.t = t

    def forward(self, logits, target):
        return nn.functional.cross_entropy(logits / self.t, target)


class Plain(em.methods.Supervised):
    """A method of one's own."""


def small_net():
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 10))


def test_heads_losses_methods_and_models_by_class_function_and_object(tmp_path):
    few = {"data": {"limit": 64, "test_limit": 32}, **QUIET}
    run = em.fit(
        "digits",
        head=Scaled,
        loss=Temperature,
        method=Plain,
        epochs=1,
        settings=few,
        set={"head.options.scale": 0.5, "loss.options.t": 2.0, "method.options.mixup": 0.1},
        out=tmp_path / "classes",
    )
    assert type(run.model.head) is Scaled
    assert run.model.head.scale == 0.5
    assert run.config.loss.options == {"t": 2.0}
    run = em.fit(
        "digits",
        model=small_net,
        head=two_layers,
        loss=Temperature(3.0),
        method="coteaching",
        epochs=1,
        settings=few,
        out=tmp_path / "functions",
    )
    assert len(run.model.nets) == 2
    assert isinstance(run.model.nets[0][-1], nn.Sequential)
    assert run.config.loss.options == {"t": 3.0}
    run = em.fit(
        "digits", model=small_net(), head=SEMLinear, epochs=1, settings=few, out=tmp_path / "m"
    )
    assert isinstance(run.model[-1], SEMLinear)


@sweep(
    ("keywords", "words"),
    [
        ({"model": small_net(), "method": "coteaching"}, "trains 2 networks.*function"),
        ({"model": small_net(), "set": ["model.width=2"]}, r"model\.width=2.*object"),
        ({"loss": Temperature(), "set": ["loss.options.t=5"]}, r"loss\.options\.t.*object"),
        ({"head": Scaled, "set": ["head.options.scael=5"]}, r"head\.options\.scael.*'scale'"),
        ({"set": ["head.name=object:Gone"]}, "pass it again"),
        ({"labels": [0, 1]}, "labels: the dataset 'digits'"),
        ({"class_names": ["a"]}, "class_names: the dataset 'digits'"),
        ({"device": "tpu"}, "device must be"),
    ],
)
def test_what_cannot_take_effect_is_refused(keywords, words):
    with pytest.raises(UserError, match=words):
        em.fit("digits", dry_run=True, **keywords)


def test_a_later_name_replaces_an_object():
    run = em.fit("digits", head=Scaled, loss=Temperature(), dry_run=True, set=["head.name=sem"])
    assert run.config.head.name == "sem"
    assert run.config.loss.name == "object:Temperature"


def test_a_published_l1_comes_with_the_loss_and_gives_way_to_ones_own():
    published = em.losses.preset_settings("jal", "cifar10").l1
    assert published > 0
    assert em.fit("digits", loss="jal", dry_run=True).config.optim.l1 == published
    assert em.fit("digits", loss="jal", set=["optim.l1=0"], dry_run=True).config.optim.l1 == 0.0
    assert em.fit("digits", loss="ce", dry_run=True).config.optim.l1 == 0.0
    criterion = Temperature()
    criterion.l1 = 0.25
    assert em.fit("digits", loss=criterion, dry_run=True).config.optim.l1 == 0.25
    own = em.fit("digits", loss=criterion, set={"optim.l1": 0.5}, dry_run=True)
    assert own.config.optim.l1 == 0.5


def test_a_plan_writes_nothing_and_moves_no_random_state(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = torch.random.get_rng_state()
    compose(keywords={"head": "kan", "loss": "elr", "method": "elr", "model": "mlp"})
    assert torch.equal(torch.random.get_rng_state(), before)
    run = em.fit("digits", dry_run=True)
    assert run.plan["training samples"] == 1438
    assert not list(tmp_path.iterdir())
    with pytest.raises(UserError, match="not finished"):
        _ = run.summary


def test_a_layer_of_a_sequential_is_named_by_its_number():
    x = np.zeros((4, 3), dtype=np.float32)
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    run = em.fit(x, [0, 1, 0, 1], model=model, head="sem", set=["head.at=2"], dry_run=True)
    assert run.config.head.at == "2"
