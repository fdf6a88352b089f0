"""Robust losses on the paper's datasets: CE, ANL, JAL and their rivals, each with and without SEM.

Table S6 of the paper has no optimiser and no gradient limit, and gives ANL and JAL a weight decay
where their released code has an L1 term and none. So a recipe takes Table S6 where it speaks, the
released code of JAL where it is silent, and for ANL and JAL the released regularisation; the
literal reading of the table is the same recipe under ``.../s6``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from edgemask.engine.recipes.base import PAPER, S6, Recipe, Setting, with_sem
from edgemask.losses import preset_settings

__all__ = ["published", "recipes"]

_JAL = "the released code of JAL (cswjl/joint-asymmetric-loss, commit 0f9eb7b773)"
_OURS = "EdgeMask"

# Columns of Table S6.
_TABLE: dict[str, dict[str, Any]] = {
    "cifar10": {
        "model.name": "cnn8",
        "train.epochs": 120,
        "train.batch_size": 128,
        "optim.lr": 0.01,
        "optim.schedule.name": "cosine",
        "optim.weight_decay": 1e-4,
    },
    "cifar100": {
        "model.name": "resnet34",
        "train.epochs": 200,
        "train.batch_size": 128,
        "optim.lr": 0.1,
        "optim.schedule.name": "cosine",
        "optim.weight_decay": 1e-5,
    },
    "webvision-mini": {
        "model.name": "timm:inception_resnet_v2",
        "train.epochs": 250,
        "train.batch_size": 256,
        "optim.lr": 0.4,
        "optim.schedule.name": "step",
        "optim.schedule.options.size": 1,
        "optim.schedule.options.gamma": 0.97,
        "optim.weight_decay": 3e-5,
    },
    "clothing1m": {
        "model.name": "timm:resnet50",
        "model.pretrained": True,
        "train.epochs": 10,
        "train.batch_size": 256,
        "optim.lr": 0.005,
        "optim.schedule.name": "step",
        "optim.schedule.options.size": 5,
        "optim.schedule.options.gamma": 0.1,
        "optim.weight_decay": 1e-3,
    },
}
_TABLE["cifar80n-o"] = _TABLE["cifar100"]

# What the released code adds.
_CODE: dict[str, dict[str, Any]] = {
    "cifar10": {"optim.clip": 5.0, "noise.protocol": "jal"},
    "cifar100": {"optim.clip": 5.0, "noise.protocol": "jal"},
    "cifar80n-o": {"optim.clip": 5.0},
    "webvision-mini": {
        "optim.clip": 5.0,
        "optim.nesterov": True,
        "train.precision": "bf16",
        "eval.top5": True,
    },
    "clothing1m": {"train.precision": "bf16"},
}
_LOSSES = (
    "ce", "mae", "gce", "sce", "nce+rce", "nce+agce", "ls", "focal",
    "anl", "anl-ce", "anl-fl", "jal", "jal-ce", "jal-fl",
)  # fmt: skip
_REGULARISED = frozenset({"anl", "anl-ce", "anl-fl", "jal", "jal-ce", "jal-fl"})


def recipes() -> Iterator[Recipe]:
    """Make the recipes: each dataset with each loss, plain and with the SEM head."""
    for dataset in _TABLE:
        for loss in _LOSSES:
            plain = published(dataset, loss)
            for recipe in (plain, with_sem(plain)):
                yield recipe
                if loss in _REGULARISED:
                    yield _literal(dataset, recipe)


def published(dataset: str, loss: str) -> Recipe:
    """Return a dataset's recipe with one of the losses."""
    settings = {key: Setting(value, S6) for key, value in _TABLE[dataset].items()}
    settings |= {key: Setting(value, _JAL) for key, value in _CODE[dataset].items()}
    settings["optim.name"] = Setting("sgd", _JAL)
    settings["optim.momentum"] = Setting(0.9, _JAL)
    if dataset == "cifar80n-o":
        settings["noise.protocol"] = Setting("nust", "the released code of Jo-SRC")
    settings["data.spec"] = Setting(dataset, PAPER)
    settings["loss.name"] = Setting(loss, PAPER)
    settings["method.name"] = Setting("supervised", PAPER)
    if dataset in ("webvision-mini", "clothing1m"):
        settings["train.record_every"] = Setting(5, "EdgeMask: a look at all images is dear")
    preset = preset_settings(loss, "cifar100" if dataset == "cifar80n-o" else dataset)
    settings["loss.preset"] = Setting(None, _OURS)
    for key, value in preset.params.items():
        settings[f"loss.options.{key}"] = Setting(value, preset.source)
    if loss in _REGULARISED and preset.weight_decay is not None:
        settings["optim.l1"] = Setting(preset.l1, preset.source)
        settings["optim.weight_decay"] = Setting(preset.weight_decay, preset.source)
    summary = f"{loss.upper()} on {dataset}, as in Table S6 of the paper"
    return Recipe(name=f"{dataset}/{loss}", summary=summary, settings=settings)


def _literal(dataset: str, recipe: Recipe) -> Recipe:
    """Read Table S6 to the letter: weight decay for ANL and JAL, and no L1 term."""
    return recipe.but(
        name=f"{recipe.name}/s6",
        summary=f"{recipe.summary}, the weight decay to the letter",
        settings={
            "optim.weight_decay": Setting(_TABLE[dataset]["optim.weight_decay"], S6),
            "optim.l1": Setting(0.0, S6),
        },
    )
