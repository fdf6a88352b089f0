"""Scales: the same cells as in the paper, on a laptop, or in seconds.

A preset turns a system and a column into settings, or says why it cannot.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from edgemask._registry import Registry
from edgemask.engine import RECIPES, merge
from edgemask.errors import UserError
from edgemask.reproduce.spec import Column, System

__all__ = ["PRESETS", "Preset", "UnavailableError", "seeded"]


class UnavailableError(UserError):
    """A cell that a preset does not have, with the reason."""


@dataclass(frozen=True, kw_only=True)
class Preset:
    """A scale."""

    name: str
    summary: str
    layer: Callable[[System, Column], Mapping[str, Any]]
    """Data, model and training of a cell; head, noise and seeds are laid upon it."""
    warning: str = ""
    """A warning that goes with every number."""

    @property
    def __doc__(self) -> str:  # type: ignore[override]
        return self.summary

    def settings(self, system: System, column: Column) -> dict[str, Any]:
        """Return the settings of a cell, without seeds.

        Raises:
            UnavailableError: If the preset has no such cell.
        """
        head = {"name": system.head, "options": dict(system.head_options)}
        method = {"name": system.method, "options": dict(system.method_options)}
        values = merge(
            self.layer(system, column),
            {"head": head, "method": method, "log": {"trackers": []}},
            system.settings,
        )
        other = column.settings.get("head", {}).get("name")
        if other is not None and other != system.head:
            values["head"] = {}
        return merge(values, column.settings)


def seeded(settings: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Give a run its seeds: weights, order, views and masks, and the noise, all paired.

    Released code makes the noise of a trial from seed 123 and up (JAL), or always from 0 (NUST).
    """
    protocol = settings.get("noise", {}).get("protocol")
    noise = {"jal": 123 + seed, "nust": 0}.get(protocol, seed)
    return merge(settings, {"train": {"seed": seed}, "noise": {"seed": noise}})


def _noise(column: Column) -> dict[str, Any]:
    return {"noise": {"spec": column.noise, "protocol": column.protocol}}


def _paper(system: System, column: Column) -> Mapping[str, Any]:
    """Table S6 where it speaks, released code where it is silent."""
    plain = system.method == "supervised"
    name = f"{column.dataset}/{system.loss if plain else system.method}"
    if name not in RECIPES:
        raise UnavailableError(f"there is no recipe {name}")
    return merge(RECIPES[name].layer(), _noise(column))


# Chosen on plain CE alone, so that it first learns and then memorises wrong labels, as at full
# scale. A net this narrow does not get to memorise shifted pictures; flipped ones it does.
_LAPTOP: dict[str, dict[str, Any]] = {
    "cifar10": {
        "data": {"limit": 8000, "views": "cifar10/flip"},
        "model": {"name": "cnn8", "width": 0.25},
        "optim": {"lr": 0.01},
        "train": {"epochs": 30, "record_every": 3},
        "eval": {"every": 3},
    },
    "cifar100": {
        "data": {"limit": 10000, "views": "cifar100/flip"},
        "model": {"name": "cnn8", "width": 0.25},
        "optim": {"lr": 0.05},
        "train": {"epochs": 30, "record_every": 3},
        "eval": {"every": 3},
    },
}
# Methods with a course of their own: their epochs shrink, and what counts in epochs with them.
_SHORT: dict[str, dict[str, Any]] = {
    "coteaching": {"epochs": 30, "start": 15, "options": {"gradual": 5}},
    "jocor": {"epochs": 30, "start": 15, "options": {"gradual": 5}},
    "josrc": {"epochs": 30, "start": 12, "options": {"warmup": 5}},
    "josnc": {"epochs": 30, "start": 5.0, "options": {"warmup": 5}},
    "ca2c": {"epochs": 40, "start": 28.0, "options": {"warmup": 20}},
    "unicon": {"epochs": 30, "start": None, "options": {"warmup": 5}},
    "dividemix": {"epochs": 30, "start": None, "options": {"warmup": 5}},
}


def _laptop(system: System, column: Column) -> Mapping[str, Any]:
    """Real CIFAR, fewer images, a narrower net, minutes a run on one core."""
    values = _paper(system, column)
    if column.dataset not in ("cifar10", "cifar100", "cifar80n-o"):
        raise UnavailableError(f"the laptop preset has CIFAR only, not {column.dataset}")
    short = _SHORT.get(system.method)
    if short is None:
        small = _LAPTOP["cifar10" if column.dataset == "cifar10" else "cifar100"]
        return merge(values, small)
    schedule = {} if short["start"] is None else {"options": {"start": short["start"]}}
    return merge(
        values,
        {
            "data": {"limit": 10000},
            "model": {"width": 0.25},
            "optim": {"schedule": schedule},
            "train": {"epochs": short["epochs"]},
            "method": {"options": short["options"]},
        },
    )


_SMOKE: dict[str, Any] = {
    "data": {"spec": "digits", "limit": 256, "test_limit": 200},
    "model": {"name": "small-cnn", "width": 0.25},
    "optim": {"lr": 0.05, "momentum": 0.9},
    "train": {"epochs": 2, "batch_size": 64},
}


def _smoke(system: System, column: Column) -> Mapping[str, Any]:
    """Digits, seconds a run: it shows that everything runs, and nothing else."""
    if column.noise.startswith("human"):
        raise UnavailableError("the digits have no human labels")
    values = merge(_SMOKE, {"loss": {"name": system.loss}})
    recipe = f"digits/{system.method}"
    if system.method != "supervised" and recipe in RECIPES:
        values = merge(RECIPES[recipe].layer(), _SMOKE, {"optim": {"lr": 2e-3}})
        if "warmup" in values["method"].get("options", {}):
            values["method"]["options"]["warmup"] = 1
    noise = column.noise if column.noise != "none" or column.dataset[:5] == "cifar" else "sym:0.4"
    return merge(values, {"noise": {"spec": noise, "protocol": "paper"}})


PRESETS: Registry[Preset] = Registry(
    "preset",
    {
        "paper": Preset(
            name="paper", summary="Table S6 and the released code, at full scale", layer=_paper
        ),
        "laptop": Preset(
            name="laptop",
            summary="real CIFAR, fewer images, a narrower net: minutes a run on one core",
            layer=_laptop,
        ),
        "smoke": Preset(
            name="smoke",
            summary="digits, seconds a run: the machinery, not the science",
            layer=_smoke,
            warning="Digits for a few epochs: these numbers say nothing about the paper.",
        ),
    },
)
