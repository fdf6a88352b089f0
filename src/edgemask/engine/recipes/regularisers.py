"""Regularised training: CDR, ELR and SOP, each with and without SEM.

The paper trains CDR like plain cross entropy (Table S6) and also with suppression in the classifier
alone (Table S1); the settings of its authors are ``.../cdr-released``. ELR and SOP are as their
authors released them, with another recipe for asymmetric noise. No recipe sets the noise but those
on digits: CDR needs its rate, the others need to know nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from edgemask.engine.recipes import robust_losses
from edgemask.engine.recipes.base import PAPER, Recipe, method_recipe, sourced, with_sem
from edgemask.losses import preset_settings
from edgemask.losses.presets import Preset

__all__ = ["recipes"]

_OURS = "EdgeMask"
_CDR = "the released code of CDR (xiaoboxia/CDR, commit 6665a8b)"
_CDR_CODE: dict[str, Any] = {
    "model.name": "resnet50",
    "train.epochs": 200,
    "train.batch_size": 64,
    "optim.name": "sgd",
    "optim.lr": 0.01,
    "optim.momentum": 0.9,
    "optim.weight_decay": 1e-3,
    "optim.schedule.name": "milestones",
    "optim.schedule.options.at": [40, 80],
    "optim.schedule.options.gamma": 0.1,
    "data.validation": 0.1,
    "train.select": "validation",
    "method.options.rule": "code",
}
# On CIFAR-10 ELR has the views and constants of DivideMix.
_ELR_VIEWS = {"cifar10": "cifar10/dividemix", "cifar100": "cifar100/elr"}
_DIGITS: dict[str, Any] = {
    "noise.spec": "sym:0.4",
    "noise.protocol": "paper",
    "model.name": "small-cnn",
    "model.width": 0.5,
    "optim.name": "sgd",
    "optim.momentum": 0.9,
    "optim.lr": 0.02,
    "optim.schedule.name": "constant",
    "train.epochs": 15,
    "train.batch_size": 32,
}
_DIGITS_OPTIONS: dict[str, dict[str, Any]] = {
    "cdr": {"method.options.views": "none", "method.options.l1": 1e-3},
    "elr": {"method.options.views": "none"},
    "sop": {"loss.options.lr_u": 10.0},
}


def recipes() -> Iterator[Recipe]:
    """Make the recipes: each dataset with each method, plain and with the SEM head."""
    for plain in (*_cdr(), *_elr(), *_sop(), *_digits()):
        yield plain
        yield with_sem(plain)


def _cdr() -> Iterator[Recipe]:
    for dataset in ("cifar10", "cifar100"):
        same = robust_losses.published(dataset, "ce")
        here = same.but(
            name=f"{dataset}/cdr",
            summary=f"cdr on {dataset}, trained like CE in Table S6 of the paper",
            settings={
                **sourced({"method.name": "cdr", "method.options.scope": "network"}, PAPER),
                **sourced(
                    {"method.options.rule": "paper", "optim.weight_decay": 0.0},
                    "the paper of CDR: L1 decay in place of L2",
                ),
                **sourced(
                    {"method.options.l1": 1e-5},
                    f"{_OURS}: no source gives it; of the size of JAL's and ANL's L1 terms",
                ),
            },
        )
        yield here
        yield here.but(
            name=f"{dataset}/cdr-head",
            summary=f"cdr on {dataset}, in the classifier alone (Table S1 of the paper)",
            settings=sourced({"method.options.scope": "head"}, "the paper, Table S1"),
        )
        released = method_recipe(dataset, "cdr", _CDR_CODE, _CDR, loss="ce")
        yield released.but(
            name=f"{dataset}/cdr-released",
            summary=f"cdr on {dataset} as released",
            settings={},
        )
    fashion = {
        "train.epochs": 100,
        "train.batch_size": 32,
        "optim.schedule.options.at": [10, 20],
    }
    values = _CDR_CODE | fashion
    yield method_recipe("fashion-mnist", "cdr", values, _CDR, loss="ce").but(
        name="fashion-mnist/cdr-released",
        summary="cdr on fashion-mnist as released",
        settings={},
    )


def _elr() -> Iterator[Recipe]:
    noises: dict[str, tuple[Literal["symmetric", "asymmetric"], ...]] = {
        "cifar10": ("symmetric", "asymmetric"),
        "cifar100": ("symmetric",),
    }
    for dataset, kinds in noises.items():
        for noise in kinds:
            values = {
                "model.name": "resnet34",
                "data.validation": 0.1,
                "data.views": _ELR_VIEWS[dataset],
                "train.select": "validation",
            }
            yield _published(dataset, preset_settings("elr", dataset, noise=noise), noise, values)


def _sop() -> Iterator[Recipe]:
    kinds: tuple[Literal["symmetric", "asymmetric"], ...] = ("symmetric", "asymmetric")
    for noise in kinds:
        values = {"model.name": "preact-resnet18", "data.views": "cifar100/sop"}
        yield _published("cifar100", preset_settings("sop", "cifar100", noise=noise), noise, values)


def _published(dataset: str, preset: Preset, noise: str, values: dict[str, Any]) -> Recipe:
    """Turn the published settings of a loss into a recipe of the method that stands on it."""
    values = _training(preset) | values | {"noise.protocol": "dividemix"}
    values |= {f"loss.options.{key}": value for key, value in preset.params.items()}
    recipe = method_recipe(dataset, preset.loss, values, preset.source, loss=preset.loss)
    if noise == "symmetric":
        return recipe
    return recipe.but(
        name=f"{recipe.name}-asym",
        summary=f"{recipe.summary} with asymmetric noise",
        settings={},
    )


def _training(preset: Preset) -> dict[str, Any]:
    """Return the optimiser, its schedule and the length of the run."""
    lr, low = preset.lr, preset.min_lr
    if lr is None:
        return {}
    share = (low or 0.0) / lr
    schedules: dict[str | None, dict[str, Any]] = {
        "cosine": {"minimum": share},
        "cosine-restarts": {"period": preset.step_size, "minimum": share},
        "milestones": {"at": list(preset.milestones), "gamma": preset.gamma},
    }
    name = "restarts" if preset.schedule == "cosine-restarts" else preset.schedule
    options = schedules[preset.schedule]
    return {
        "optim.name": preset.optimiser,
        "optim.lr": lr,
        "optim.momentum": preset.momentum,
        "optim.weight_decay": preset.weight_decay,
        "optim.schedule.name": name,
        **{f"optim.schedule.options.{key}": value for key, value in options.items()},
        "train.epochs": preset.epochs,
        "train.batch_size": preset.batch_size,
    }


def _digits() -> Iterator[Recipe]:
    for method, options in _DIGITS_OPTIONS.items():
        loss = "ce" if method == "cdr" else method
        source = f"{_OURS}: a run of seconds"
        yield method_recipe("digits", method, _DIGITS | options, source, loss=loss)
