"""Semi-supervised methods: DivideMix and UNICON, each with and without SEM.

Table S6 of the paper has one column for them, DivideMix on Clothing1M; everything else comes from
the released code. Its epochs run from 0 to E and are counted here as E. None of these recipes sets
the noise: the rate is for the user to name, in the protocol of the released codes (``dividemix``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from edgemask.engine.recipes.base import S6, Recipe, method_recipe, sourced, with_sem

__all__ = ["recipes"]

_OURS = "EdgeMask"
_DIVIDEMIX = "the released code of DivideMix (LiJunnan1992/DivideMix, commit d9d3058)"
_UNICON = "the released code of UNICON (nazmul-karim170/UNICON-Noisy-Label, commit 616dc49)"

_SGD: dict[str, Any] = {"optim.name": "sgd", "optim.momentum": 0.9}
_CIFAR: dict[str, Any] = {
    **_SGD,
    "model.name": "preact-resnet18",
    "train.batch_size": 64,
    "optim.lr": 0.02,
    "optim.weight_decay": 5e-4,
    "noise.protocol": "dividemix",
    "method.options.alpha": 4.0,
}
_WARMUP = {"cifar10": 10, "cifar100": 30}
# Without an unlabelled loss, and with less mixing.
_LARGE: dict[str, Any] = {
    **_SGD,
    "method.options.alpha": 0.5,
    "method.options.unlabelled_loss": False,
}
_WEBVISION: dict[str, Any] = {
    **_LARGE,
    "model.name": "timm:inception_resnet_v2",
    "model.pretrained": False,
    "optim.lr": 0.01,
    "optim.schedule.name": "milestones",
    "eval.top5": True,
    "method.options.entropy_penalty": False,
}
_CLOTHING: dict[str, Any] = {
    **_LARGE,
    "model.name": "timm:resnet50",
    "model.pretrained": True,
    "train.batch_size": 32,
    "method.options.subset": 32_000,
    "train.select": "clean_validation",
}
# The column of Table S6.
_CLOTHING_S6: dict[str, Any] = {
    "model.name": "timm:resnet50",
    "model.pretrained": True,
    "train.epochs": 80,
    "train.batch_size": 32,
    "optim.lr": 0.002,
    "optim.schedule.name": "milestones",
    "optim.schedule.options.at": [40],
    "optim.schedule.options.gamma": 0.1,
    "optim.weight_decay": 1e-4,
}

_DIGITS: dict[str, Any] = {
    **_SGD,
    "noise.spec": "sym:0.4",
    "noise.protocol": "paper",
    "model.name": "small-cnn",
    "model.width": 0.5,
    "optim.lr": 0.02,
    "optim.schedule.name": "constant",
    "train.epochs": 8,
    "train.batch_size": 32,
    "method.options.warmup": 3,
}


def recipes() -> Iterator[Recipe]:
    """Make the recipes: each dataset with each method, plain and with the SEM head."""
    for plain in (*_dividemix(), *_unicon(), *_digits()):
        if plain.name.startswith(("webvision", "clothing")):
            rarely = sourced({"train.record_every": 5}, f"{_OURS}: a look at all images is dear")
            plain = plain.but(name=plain.name, settings=rarely)
        yield plain
        yield with_sem(plain)


def _dividemix() -> Iterator[Recipe]:
    for dataset, warmup in _WARMUP.items():
        values = _CIFAR | {
            "train.epochs": 300,
            "optim.schedule.name": "milestones",
            "optim.schedule.options.at": [150],
            "optim.schedule.options.gamma": 0.1,
            "data.views": f"{dataset}/dividemix",
            "method.options.warmup": warmup,
            "method.options.lambda_u": 25.0,
        }
        yield method_recipe(dataset, "dividemix", values, _DIVIDEMIX)
    values = _WEBVISION | {
        "train.epochs": 80,
        "train.batch_size": 32,
        "optim.weight_decay": 5e-4,
        "optim.schedule.options.at": [40],
        "optim.schedule.options.gamma": 0.1,
        "data.options.recipe": "dividemix",
        "method.options.warmup": 1,
    }
    webvision = method_recipe("webvision-mini", "dividemix", values, _DIVIDEMIX)
    yield webvision
    longer = {
        "train.epochs": 100,
        "optim.schedule.options.at": [50],
        "method.options.reg_covar": 1e-3,
    }
    yield webvision.but(
        name="webvision-mini/dividemix-parallel",
        summary="dividemix on webvision-mini with the settings of its two-GPU script",
        settings=sourced(longer, _DIVIDEMIX),
    )
    values = _CLOTHING | {
        "data.views": "clothing1m/dividemix",
        "method.options.warmup": 1,
        "method.options.entropy_penalty": True,
    }
    released = method_recipe("clothing1m", "dividemix", values, _DIVIDEMIX)
    table = released.but(
        name=released.name,
        summary="dividemix on clothing1m, as in Table S6 of the paper",
        settings=sourced(_CLOTHING_S6, S6),
    )
    yield table
    yield table.but(
        name="clothing1m/dividemix-released",
        summary="dividemix on clothing1m with the weight decay of the released code",
        settings=sourced({"optim.weight_decay": 1e-3}, _DIVIDEMIX),
    )


def _unicon() -> Iterator[Recipe]:
    for dataset, warmup in _WARMUP.items():
        values = _CIFAR | {
            "train.epochs": 350,
            "optim.schedule.name": "cosine",
            "optim.schedule.options.period": 280.0,
            "optim.schedule.options.minimum": 0.01,
            "data.views": f"{dataset}/dividemix",
            "method.options.warmup": warmup,
            "method.options.lambda_u": 30.0,
            "method.options.contrastive": 0.025,
            "method.options.contrastive_temperature": 0.05,
        }
        yield method_recipe(dataset, "unicon", values, _UNICON)
    values = _WEBVISION | {
        "train.epochs": 120,
        "train.batch_size": 24,
        "optim.weight_decay": 1e-4,
        "optim.schedule.options.at": [60],
        "optim.schedule.options.gamma": 0.1,
        "data.options.recipe": "unicon",
        "method.options.warmup": 2,
        "method.options.rewarm_every": 25,
        "method.options.rewarm_lr": 1e-3,
        "method.options.second_first": True,
        "method.options.warmup_batch": 4,
    }
    yield method_recipe("webvision-mini", "unicon", values, _UNICON)
    values = _CLOTHING | {
        "train.epochs": 200,
        "optim.lr": 0.005,
        "optim.weight_decay": 1e-3,
        "optim.schedule.name": "cosine",
        "optim.schedule.options.period": 100.0,
        "optim.schedule.options.minimum": 0.002,
        "data.views": "clothing1m/unicon",
        "train.rollback": True,
        "method.options.warmup": 0,
        "method.options.repeats": 2,
        "method.options.repeat_more_after": 100,
    }
    yield method_recipe("clothing1m", "unicon", values, _UNICON)


def _digits() -> Iterator[Recipe]:
    for method in ("dividemix", "unicon"):
        yield method_recipe("digits", method, _DIGITS, f"{_OURS}: a run of seconds")
