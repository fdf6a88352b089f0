"""Tables S5 and S6: what SEM costs, and the settings of all runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from edgemask.reproduce.paper.systems import sem, system
from edgemask.reproduce.spec import Column, Experiment, numbers

__all__ = ["SETTINGS", "experiments"]

# Table S6 as printed, by the recipe that it stands for. The paper writes "20th & 40th ..." for a
# tenfold smaller rate from these epochs on, and StepLR (s, gamma) for gamma every s epochs.
_CIFAR10: dict[str, Any] = {
    "model.name": "8-layer CNN",
    "train.epochs": 120,
    "train.batch_size": 128,
    "optim.lr": 0.01,
    "optim.schedule.name": "Cosine",
    "optim.weight_decay": 1e-4,
}
_CIFAR100: dict[str, Any] = {
    "model.name": "ResNet-34",
    "train.epochs": 200,
    "train.batch_size": 128,
    "optim.lr": 0.1,
    "optim.schedule.name": "Cosine",
    "optim.weight_decay": 1e-5,
}
SETTINGS: dict[str, dict[str, Any]] = {
    "cifar10/ce": _CIFAR10,
    "cifar10/anl": _CIFAR10,
    "cifar10/jal": _CIFAR10,
    "cifar100/ce": _CIFAR100,
    "cifar100/anl": _CIFAR100,
    "cifar100/jal": _CIFAR100,
    "cifar100/josnc": {
        "model.name": "7-layer CNN",
        "train.epochs": 200,
        "train.batch_size": 128,
        "optim.lr": 0.001,
        "optim.schedule.name": "Cosine",
        "optim.weight_decay": 0.0,
    },
    "webvision-mini/jal": {
        "model.name": "InceptionResNetV2",
        "train.epochs": 250,
        "train.batch_size": 256,
        "optim.lr": 0.4,
        "optim.schedule.name": "StepLR (1, 0.97)",
        "optim.weight_decay": 3e-5,
    },
    "webvision-mini/josnc": {
        "model.name": "InceptionResNetV2",
        "train.epochs": 100,
        "train.batch_size": 64,
        "optim.lr": 0.01,
        "optim.schedule.name": "20th & 40th & 60th & 80th",
        "optim.weight_decay": 1e-4,
    },
    "clothing1m/jal": {
        "model.name": "ResNet-50(pt)",
        "train.epochs": 10,
        "train.batch_size": 256,
        "optim.lr": 0.005,
        "optim.schedule.name": "StepLR (5, 0.1)",
        "optim.weight_decay": 1e-3,
    },
    "clothing1m/dividemix": {
        "model.name": "ResNet-50(pt)",
        "train.epochs": 80,
        "train.batch_size": 32,
        "optim.lr": 0.002,
        "optim.schedule.name": "40th",
        "optim.weight_decay": 1e-4,
    },
}


def experiments() -> Iterator[Experiment]:
    """Make the tables."""
    columns = (
        Column(key="parameters", title="parameters (M)"),
        Column(key="flops", title="FLOPs (G)"),
        Column(key="latency", title="latency (ms)"),
    )
    yield Experiment(
        name="tables5",
        title="Table S5: parameters, FLOPs and latency of ResNet-34 for CIFAR-100",
        rows=(system("resnet34", "ResNet34"), sem("resnet34-sem", "ResNet34-SEM")),
        columns=columns,
        paper=numbers(
            [column.key for column in columns],
            {"resnet34": "21.33 0.5818 1.95", "resnet34-sem": "21.33 0.5819 2.16"},
        ),
        measure="overhead",
    )
    yield Experiment(
        name="tables6",
        title="Table S6: settings of the paper and of the recipes",
        rows=(),
        columns=(),
        measure="settings",
    )
