"""Losses by name and published settings."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import math
import pickle
import re
import tomllib
from pathlib import Path
from typing import get_args

import pytest
import torch

from edgemask import losses
from edgemask._options import Range, check_options
from edgemask.errors import UserError
from edgemask.losses.presets import published
from edgemask.losses.published import SOURCES
from loss_helpers import NAMES
from sweeps import sweep

DATASETS = ("cifar10", "cifar100", "webvision", "clothing1m")
# loss: its arguments, then their values for the four datasets in the table of the JAL code.
JAL_TABLE = {
    "gce": ("q", 0.7, 0.7, 0.6, 0.6),
    "sce": ("alpha beta", (0.1, 1), (6, 0.1), (10, 1), (10, 1)),
    "nce+rce": ("alpha beta", (1, 1), (10, 0.1), (50, 0.1), (10, 1)),
    "nfl+rce": ("alpha beta", (1, 1), (10, 0.1), None, None),
    "nce+mae": ("alpha beta", (1, 1), (10, 0.1), None, None),
    "agce": ("a q", (0.6, 0.6), (0.6, 0.6), (1e-5, 0.5), (1e-5, 0.5)),
    "aul": ("a q", (5.5, 3), (5.5, 3), None, None),
    "ael": ("a", 2.5, 2.5, None, None),
    "nce+agce": (
        "alpha beta a q",
        (1, 4, 6, 1.5),
        (10, 0.1, 1.8, 3),
        (50, 0.1, 2.5, 3),
        (50, 0.1, 2.5, 3),
    ),
    "nce+aul": ("alpha beta a q", (1, 4, 6.3, 1.5), (10, 0.015, 6, 3), None, None),
    "nce+ael": ("alpha beta a", (1, 4, 5), (10, 0.1, 1.5), None, None),
    "anl-ce": ("alpha beta", (5, 5), (10, 1), (20, 1), (5, 0.1)),
    "anl-fl": ("alpha beta", (5, 5), (10, 1), (20, 1), (5, 0.1)),
    "jal-ce": ("alpha beta a", (1, 1, 30), (5, 1, 20), (50, 1, 30), (5, 0.1, 5)),
    "jal-fl": ("alpha beta a", (1, 1, 30), (5, 1, 20), (50, 1, 30), (5, 0.1, 5)),
    "ldr": ("margin temperature", (0.1, 10), (0.1, 1), (0.1, 1), (0.1, 1)),
    "logit-clipping": ("delta", 2.5, 0.5, None, None),
}
CLIPPED = {"gce", "sce", "nce+rce", "nfl+rce", "anl-ce", "anl-fl", "logit-clipping"}


@sweep("name", JAL_TABLE)
def test_default_is_the_table_of_the_jal_code(name: str) -> None:
    keys, *columns = JAL_TABLE[name]
    for dataset, column in zip(DATASETS, columns, strict=True):
        if column is None:
            continue
        values = column if isinstance(column, tuple) else (column,)
        expected = dict(zip(keys.split(), values, strict=True))
        if name in CLIPPED:
            expected["min_prob"] = 1e-8
        criterion = losses.preset(name, dataset)
        settings = criterion.settings
        assert settings is not None
        assert settings.params == expected
        assert settings.published
        assert "joint-asymmetric-loss" in settings.source
        assert settings.commit == "0f9eb7b773"
        assert {key: getattr(criterion, key) for key in expected} == expected


@sweep(
    ("name", "dataset", "source", "expected"),
    [
        ("anl", "cifar10", "anl", {"alpha": 5, "beta": 5, "min_prob": 1e-7}),
        ("anl-ce", "mnist", None, {"alpha": 1, "beta": 1, "min_prob": 1e-7}),
        (
            "anl-ce-er",
            "cifar100",
            None,
            {"alpha": 10, "beta": 1, "entropy": 0.01, "min_prob": 1e-7},
        ),
        ("gce", "webvision", "anl", {"q": 0.7, "min_prob": 1e-7}),
        ("mae", "cifar10", None, {"scale": 2}),
        ("mae", "cifar10", "apl", {"scale": 1}),
        ("nce+mae", "cifar100", "apl", {"alpha": 10, "beta": 1}),
        ("nfl+mae", "webvision", None, {"alpha": 50, "beta": 1}),
        ("nce+rce", "mnist", None, {"alpha": 1, "beta": 10, "min_prob": 1e-7}),
        ("ngce", "cifar10", None, {"q": 0.1, "min_prob": 1e-7}),
        ("sce", "cifar100", "alf", {"alpha": 1, "beta": 1, "min_prob": 1e-7}),
        ("nce+rce", "cifar100", "alf", {"alpha": 10, "beta": 1, "min_prob": 1e-7}),
        ("ael", "mnist", None, {"a": 3.5}),
        ("aul", "mnist", "alf", {"a": 3, "q": 0.1}),
    ],
)
def test_other_sources(
    name: str, dataset: str, source: str | None, expected: dict[str, float]
) -> None:
    settings = losses.preset_settings(name, dataset, source=source)
    assert settings.params == expected
    assert settings.published
    losses.preset(name, dataset, source=source)


@sweep(
    ("name", "dataset", "source", "l1", "l2"),
    [
        ("ce", "cifar10", None, 0, 1e-4),
        ("ce", "cifar100", None, 0, 1e-5),
        ("ce", "webvision", None, 0, 3e-5),
        ("ce", "clothing1m", None, 0, 1e-3),
        ("anl", "cifar10", None, 5e-5, 0),
        ("anl", "cifar100", None, 5e-7, 0),
        ("anl", "webvision", None, 0, 3e-5),
        ("anl", "webvision", "anl", 5e-6, 0),
        ("anl", "clothing1m", None, 0, 1e-3),
        ("anl", "mnist", None, 1e-6, 0),
        ("jal", "cifar10", None, 5e-5, 0),
        ("jal-fl", "cifar100", None, 5e-6, 0),
        ("jal", "webvision", None, 0, 3e-5),
        ("jal", "clothing1m", None, 0, 1e-3),
        ("nce+rce", "mnist", "apl", 0, 1e-2),
        ("agce", "mnist", "alf", 0, 1e-3),
    ],
)
def test_penalties(name: str, dataset: str, source: str | None, l1: float, l2: float) -> None:
    settings = losses.preset_settings(name, dataset, source=source)
    assert (settings.l1, settings.weight_decay) == (l1, l2)


def test_training_settings() -> None:
    cifar = losses.preset_settings("jal", "cifar10")
    assert (cifar.optimiser, cifar.lr, cifar.momentum, cifar.nesterov) == ("sgd", 0.01, 0.9, False)
    assert (cifar.epochs, cifar.batch_size, cifar.grad_clip) == (120, 128, 5.0)
    assert (cifar.schedule, cifar.min_lr) == ("cosine", 0.0)
    web = losses.preset_settings("jal", "WebVision-mini")
    assert (web.lr, web.epochs, web.batch_size, web.nesterov) == (0.4, 250, 256, True)
    assert (web.schedule, web.step_size, web.gamma) == ("step", 1, 0.97)
    assert losses.preset_settings("anl", "webvision", source="anl").batch_size == 512
    clothes = losses.preset_settings("jal", "clothing1m")
    assert (clothes.lr, clothes.epochs, clothes.grad_clip) == (5e-3, 10, None)
    assert (clothes.step_size, clothes.gamma) == (5, 0.1)


def test_losses_with_a_memory() -> None:
    elr = losses.preset("elr", "cifar10", num_samples=100)
    assert (elr.num_samples, elr.num_classes, elr.beta, elr.lam) == (100, 10, 0.7, 3.0)
    elr = losses.preset("elr", "cifar10", noise="asymmetric", num_samples=100)
    assert (elr.beta, elr.lam) == (0.9, 1.0)
    assert elr.settings is not None
    assert elr.settings.milestones == (40, 80)
    sop = losses.preset("sop", "cifar100", noise="asymmetric", num_samples=100)
    assert (sop.num_classes, sop.lr_u, sop.lr_v) == (100, 0.1, 100.0)
    with pytest.raises(UserError, match="'elr' needs num_samples="):
        losses.preset("elr", "cifar10")
    with pytest.raises(UserError, match="'elr' needs num_classes="):
        losses.preset("elr", "my-data", num_samples=10)


@sweep(
    ("name", "dataset", "classes", "used"),
    [
        ("jal", "digits", None, "cifar10"),
        ("jal", None, None, "cifar10"),
        ("jal", "imagefolder:My_photos/", 200, "cifar100"),
        ("jal", "cifar80n-o", 80, "cifar100"),
        ("jal", "cifar100n", None, "cifar100"),
        ("nce+rce", "fashion-mnist", None, "mnist"),
        ("sop", "digits", 10, "cifar100"),
        ("nfl+rce", "clothing1m", None, "cifar10"),
        ("ael", "webvision", None, "cifar100"),
    ],
)
def test_data_without_published_numbers(
    name: str, dataset: str | None, classes: int | None, used: str
) -> None:
    settings = losses.preset_settings(name, dataset, num_classes=classes)
    assert settings.published_for == used
    assert not settings.published
    assert settings.dataset == dataset
    assert "stand-in" in settings.source
    assert used in settings.source


def test_loss_without_published_numbers() -> None:
    criterion = losses.preset("tgce", "cifar10")
    assert criterion.settings is not None
    assert criterion.settings.published_for is None
    assert not criterion.settings.published
    assert "defaults of its definition" in criterion.settings.source
    assert criterion.settings.lr == 0.01


@sweep("name", NAMES)
@sweep("dataset", [*DATASETS, "mnist", "digits", None])
def test_every_loss_has_a_preset_for_everything(name: str, dataset: str | None) -> None:
    criterion = losses.preset(name, dataset, num_classes=10, num_samples=20)
    value = criterion(torch.randn(4, 10), torch.arange(4), torch.arange(4))
    assert value.isfinite()
    assert criterion.settings is not None
    assert criterion.settings.weight_decay is not None


def test_every_published_entry_builds() -> None:
    count = 0
    for source, noise, entry in published():
        kind = "symmetric" if noise == "any" else noise
        criterion = losses.preset(
            entry.loss, entry.dataset, source=source, noise=kind, num_samples=5
        )
        assert criterion.settings == entry
        count += 1
    assert count > 100


def test_settings_travel_with_the_loss() -> None:
    criterion = losses.preset("jal", "cifar10", a=10, reduction="none")
    assert criterion.a == 10.0
    assert criterion.reduction == "none"
    assert copy.deepcopy(criterion).settings == criterion.settings
    assert pickle.loads(pickle.dumps(criterion)).settings == criterion.settings
    assert losses.build("jal").settings is None
    with pytest.raises(dataclasses.FrozenInstanceError):
        criterion.settings.l1 = 1.0  # type: ignore[misc, union-attr]


def test_published_numbers_cannot_be_changed_by_a_caller() -> None:
    losses.preset_settings("jal", "cifar10").params["a"] = 0.0  # type: ignore[index]
    assert losses.preset_settings("jal", "cifar10").params["a"] == 30.0


def test_mistakes_are_named() -> None:
    with pytest.raises(UserError, match="unknown loss 'jall'; did you mean 'jal'"):
        losses.preset("jall", "cifar10")
    with pytest.raises(UserError, match="unknown source of presets 'jol'"):
        losses.preset("jal", "cifar10", source="jol")
    with pytest.raises(UserError, match="'apl' has no numbers for the loss 'jal-ce'; it has: ce"):
        losses.preset("jal", "cifar10", source="apl")
    with pytest.raises(UserError, match="noise='pair'"):
        losses.preset("jal", "cifar10", noise="pair")  # type: ignore[arg-type]
    with pytest.raises(
        UserError,
        match="'gce' has no option 'p'; it has: q, scale, weight, ignore_index, reduction",
    ):
        losses.build("gce", p=0.7)
    with pytest.raises(UserError, match="GCELoss: q='big': expected a number"):
        losses.build("gce", q="big")
    with pytest.raises(UserError, match=re.escape("q=2: expected a number in (0, 1]")):
        losses.build("gce", q=2)
    with pytest.raises(UserError, match="reduction='sum'"):
        losses.build("ce", reduction="sum")


@sweep(
    ("name", "options"),
    [
        ("agce", {"a": 0.0}),
        ("aul", {"a": 1.0}),
        ("ael", {"a": -1.0}),
        ("amse", {"a": 0.5}),
        ("anorm", {"a": 1.0}),
        ("rce", {"min_target": 0.0}),
        ("nnce", {"min_prob": 0.0}),
        ("nfl", {"gamma": -1.0}),
        ("jal", {"beta": -1.0}),
        ("ls", {"rate": 1.5}),
        ("ldr", {"temperature": 0.0}),
        ("ce+lc", {"delta": 0.0}),
        ("tgce", {"k": 1.0}),
        ("tgce", {"num_samples": None, "pruned": True}),
        ("elr", {"beta": 1.0, "num_samples": 1, "num_classes": 2}),
        ("elr", {"num_samples": 0, "num_classes": 2}),
        ("sop", {"num_samples": 1, "num_classes": 1}),
    ],
)
def test_values_outside_the_definition(name: str, options: dict[str, float]) -> None:
    key, value = next(iter(options.items()))
    if name == "sop":
        key, value = "num_classes", 1
    with pytest.raises(UserError, match=f"{key}={value}: expected"):
        losses.build(name, **options)


def test_a_config_is_checked_against_the_signature() -> None:
    gce = losses.LOSSES["gce"]
    with pytest.raises(UserError, match=re.escape("loss.options.q=5: expected a number in (0, 1]")):
        check_options(gce, {"q": 5}, "loss.options")
    with pytest.raises(UserError, match=re.escape("loss.options.q='abc': expected a number")):
        check_options(gce, {"q": "abc"}, "loss.options")
    with pytest.raises(UserError, match=r"loss\.options\.p: no such key"):
        check_options(gce, {"p": 1}, "loss.options")
    assert check_options(gce, {"q": 1, "weight": [1, 2]}, "loss.options") == {
        "q": 1.0,
        "min_prob": 1e-7,
        "scale": 1.0,
        "weight": [1.0, 2.0],
        "ignore_index": -100,
        "reduction": "mean",
    }


@sweep("name", NAMES)
def test_every_number_has_a_range(name: str) -> None:
    entry = losses.LOSSES[name]
    for key, parameter in inspect.signature(entry).parameters.items():
        if not isinstance(parameter.default, float):
            continue
        assert any(isinstance(each, Range) for each in get_args(parameter.annotation)), key
        needed = {"num_samples": 1, "num_classes": 2} if entry.needs_index else {}
        for wrong in (math.nan, math.inf, "abc", True):
            with pytest.raises(UserError, match=f"{key}=.*: expected"):
                entry(**needed, **{key: wrong})


def test_the_l1_penalty_comes_with_the_loss() -> None:
    for name, dataset, l1 in [
        ("jal", "cifar10", 5e-5),
        ("jal-fl", "cifar100", 5e-6),
        ("anl", "cifar100", 5e-7),
        ("jal", "clothing1m", 0.0),
        ("gce", "cifar10", 0.0),
    ]:
        criterion = losses.preset(name, dataset)
        assert criterion.l1 == losses.preset_settings(name, dataset).l1 == l1
        assert copy.deepcopy(criterion).l1 == pickle.loads(pickle.dumps(criterion)).l1 == l1
    assert losses.build("jal").l1 == losses.JALCELoss().l1 == 0.0


def test_every_file_of_settings_names_its_source() -> None:
    files = sorted((Path(losses.__file__).parent / "settings").glob("*.toml"))
    assert {file.stem for file in files} == set(SOURCES)
    for file in files:
        table = tomllib.loads(file.read_text())
        assert table["source"] == f"code of {file.stem.upper()}"
        assert table["url"].startswith("https://github.com/")
        assert re.fullmatch("[0-9a-f]{7,}", table["commit"])
        assert set(table["losses"]) | set(table["own_losses"]) <= set(losses.LOSSES)
        datasets = {key.split("/")[0] for rows in table["losses"].values() for key in rows}
        assert datasets <= {key.split("/")[0] for key in table["training"]}


def test_short_names_mean_the_first_of_their_family() -> None:
    assert losses.LOSSES["jal"] is losses.LOSSES["jal-ce"]
    assert losses.LOSSES["anl"] is losses.LOSSES["anl-ce"]
    assert losses.LOSSES["ls"] is losses.LabelSmoothingLoss
    assert losses.LOSSES["tgce"] is losses.TruncatedGCELoss
    assert losses.LOSSES["ce+lc"] is losses.LOSSES["logit_clipping"] is losses.LogitClipLoss
    assert losses.preset_settings("jal", "cifar10").loss == "jal-ce"


def test_snippets_of_the_page_run(capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).parents[2] / "docs" / "losses.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(blocks) == 5
    exec(compile("\n".join(blocks), "losses.md", "exec", dont_inherit=True), {})
    printed = capsys.readouterr().out
    assert "{'alpha': 5.0, 'beta': 1.0, 'a': 20.0}" in printed
    assert "code of JAL, cifar100 settings" in printed
