"""The networks against the same networks written out plainly."""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from edgemask.models import create


def randomised(model: nn.Module) -> nn.Module:
    """Give batch norms statistics and weights that show when one is left out or misplaced."""
    for module in model.modules():
        if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.normal_(module.bias, std=0.3)
            module.running_mean.normal_(std=0.3)
            module.running_var.uniform_(0.5, 1.5)
    return model.eval()


class Layers:
    """Hands out a model's layers in the order of their registration."""

    def __init__(self, model: nn.Module):
        kinds = nn.Conv2d | nn.Linear | nn.BatchNorm1d | nn.BatchNorm2d
        self._layers: Iterator[nn.Module] = (m for m in model.modules() if isinstance(m, kinds))

    def conv(self, x: Tensor, stride: int = 1, padding: int = 1) -> Tensor:
        layer = next(self._layers)
        assert isinstance(layer, nn.Conv2d)
        return F.conv2d(x, layer.weight, layer.bias, stride, padding)

    def norm(self, x: Tensor) -> Tensor:
        layer = next(self._layers)
        assert isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d)
        arguments = (layer.running_mean, layer.running_var, layer.weight, layer.bias)
        return F.batch_norm(x, *arguments, eps=1e-5)

    def linear(self, x: Tensor) -> Tensor:
        layer = next(self._layers)
        assert isinstance(layer, nn.Linear)
        return F.linear(x, layer.weight, layer.bias)

    def assert_used_up(self) -> None:
        assert next(self._layers, None) is None


def check(name: str, forward) -> None:
    model = randomised(create(name, 10, width=0.25)).double()
    x = torch.randn(2, 3, 32, 32, dtype=torch.float64)
    layers = Layers(model)
    with torch.no_grad():
        torch.testing.assert_close(model(x), forward(layers, x))
    layers.assert_used_up()


def six_convolutions(layers: Layers, x: Tensor) -> Tensor:
    for _block in range(3):
        for _layer in range(2):
            x = F.relu(layers.norm(layers.conv(x)))
        x = F.max_pool2d(x, 2)
    return x.flatten(1)


def test_cnn8() -> None:
    def forward(layers: Layers, x: Tensor) -> Tensor:
        x = six_convolutions(layers, x)
        return layers.linear(F.relu(layers.norm(layers.linear(x))))

    check("cnn8", forward)


def test_cnn7() -> None:
    check("cnn7", lambda layers, x: layers.linear(six_convolutions(layers, x)))


def test_cnn7_mlp() -> None:
    def forward(layers: Layers, x: Tensor) -> Tensor:
        x = six_convolutions(layers, x)
        return layers.linear(F.relu(layers.norm(layers.linear(x))))

    check("cnn7-mlp", forward)


def test_cnn9() -> None:
    def forward(layers: Layers, x: Tensor) -> Tensor:
        for padding in (1, 1, 0):
            for _layer in range(3):
                x = F.leaky_relu(layers.norm(layers.conv(x, padding=padding)), 0.01)
            x = F.max_pool2d(x, 2) if padding else x
        return layers.linear(x.mean((2, 3)))

    check("cnn9", forward)


def residual(layers: Layers, x: Tensor, depths: tuple[int, ...], *, deep: bool) -> Tensor:
    x = F.relu(layers.norm(layers.conv(x)))
    for stage, depth in enumerate(depths):
        for number in range(depth):
            stride = 2 if stage and not number else 1
            if deep:
                y = F.relu(layers.norm(layers.conv(x, padding=0)))
                y = F.relu(layers.norm(layers.conv(y, stride)))
                y = layers.norm(layers.conv(y, padding=0))
            else:
                y = F.relu(layers.norm(layers.conv(x, stride)))
                y = layers.norm(layers.conv(y))
            if not number and (stage or deep):
                x = layers.norm(layers.conv(x, stride, padding=0))
            x = F.relu(x + y)
    return layers.linear(F.avg_pool2d(x, 4).flatten(1))


def test_resnet18() -> None:
    check("resnet18", lambda layers, x: residual(layers, x, (2, 2, 2, 2), deep=False))


def test_resnet34() -> None:
    check("resnet34", lambda layers, x: residual(layers, x, (3, 4, 6, 3), deep=False))


def test_resnet50() -> None:
    check("resnet50", lambda layers, x: residual(layers, x, (3, 4, 6, 3), deep=True))


def test_preact_resnet18() -> None:
    def forward(layers: Layers, x: Tensor) -> Tensor:
        x = F.relu(layers.norm(layers.conv(x)))
        for stage in range(4):
            for number in range(2):
                stride = 2 if stage and not number else 1
                x = F.relu(layers.norm(x))
                y = layers.conv(F.relu(layers.norm(layers.conv(x, stride))))
                # The shortcut starts from the activated input, also where it is the identity.
                x = y + (layers.conv(x, stride, padding=0) if stage and not number else x)
        return layers.linear(F.avg_pool2d(x, 4).flatten(1))

    check("preact-resnet18", forward)
