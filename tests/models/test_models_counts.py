"""Parameter counts and initialisation, against the published code bases."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import nn

from edgemask.models import create
from sweeps import sweep

GREY = {"input_shape": (1, 28, 28)}
CA2C = {"projector": {"kind": "mlp", "out": 128, "bias": False}}
UNICON = {"projector": {"kind": "linear-bn", "out": 128}}


def count(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


@sweep(
    ("name", "classes", "options", "expected"),
    [
        ("cnn8", 10, {}, 1_639_794),
        ("cnn8-mnist", 10, GREY, 422_090),
        ("resnet18", 10, {}, 11_173_962),
        ("resnet34", 10, {}, 21_282_122),
        ("resnet34", 100, {}, 21_328_292),
        ("resnet50", 100, {}, 23_705_252),
        ("preact-resnet18", 10, {}, 11_171_274),
        ("preact-resnet18", 100, {}, 11_217_444),
        ("preact-resnet18", 10, UNICON, 11_171_274 + 512 * 128 + 128 + 2 * 128),
        ("cnn7", 80, {}, 536_140),
        ("cnn7", 100, {}, 541_280),
        ("cnn7-mlp", 80, {}, 689_228),
        ("cnn7-mlp", 100, {}, 699_488),
        ("cnn7-mlp", 80, {"projector": {"kind": "mlp"}}, 821_324),
        ("cnn7-mlp", 100, {"projector": {"kind": "mlp"}}, 831_584),
        ("cnn7-mlp", 80, CA2C, 788_172),
        ("cnn7-mlp", 100, CA2C, 798_432),
    ],
)
def test_parameter_count(name: str, classes: int, options: dict, expected: int) -> None:
    assert count(create(name, classes, **options)) == expected


def test_cnn7_encoder_count() -> None:
    model = create("cnn7-mlp", 10)
    assert count(model) - count(model.neck) - count(model.head) == 515_580


def test_cnn9_count_from_its_layers() -> None:
    channels = [3, 128, 128, 128, 256, 256, 256, 512, 256, 128]
    layers = sum(9 * a * b + 3 * b for a, b in itertools.pairwise(channels))
    assert count(create("cnn9", 10)) == layers + 128 * 10 + 10


@pytest.mark.parametrize("name", ["cnn8", "resnet18"])
def test_robust_loss_initialisation(name: str) -> None:
    """Kaiming-uniform convolutions reach sqrt(6 / fan_in), Xavier-uniform linear layers
    sqrt(6 / (in + out)); both fill the range."""
    model = create(name, 10, width=0.5)
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            bound = math.sqrt(6 / (module.in_channels * math.prod(module.kernel_size)))
        elif isinstance(module, nn.Linear):
            bound = math.sqrt(6 / (module.in_features + module.out_features))
        else:
            continue
        largest = module.weight.abs().max().item()
        assert 0.97 * bound < largest <= bound


def test_mlp_head_initialisation() -> None:
    model = create("cnn7-mlp", 100, projector={"kind": "mlp"})
    linears = [model.neck[0], model.head, model.projector.layers[0], model.projector.layers[3]]
    for linear in linears:
        assert torch.equal(linear.bias, torch.zeros_like(linear.bias))
        # The standard deviation of n >= 51,200 normal draws is within 2 % at over six sigma.
        assert linear.weight.std().item() == pytest.approx(
            math.sqrt(2 / linear.in_features), rel=0.02
        )


@pytest.mark.parametrize("name", ["cnn7", "preact-resnet18"])
def test_other_networks_keep_the_initialisation_of_torch(name: str) -> None:
    """torch draws both kinds within 1 / sqrt(fan_in)."""
    model = create(name, 10)
    for module in model.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            bound = 1 / math.sqrt(module.weight[0].numel())
            assert 0.97 * bound < module.weight.abs().max().item() <= bound
