"""Activation maps, calibration and overhead."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from edgemask.diagnostics import (
    activation_map,
    calibration,
    cam,
    count_flops,
    count_parameters,
    grad_cam,
    latency,
    overlay,
)
from edgemask.models import create


def _resnet(head="sem"):
    torch.manual_seed(0)
    return create("resnet18", 5, input_shape=(3, 16, 16), width=0.125, head=head).double()


def test_the_mean_of_cam_is_the_logit():
    net = _resnet()
    x = torch.randn(3, 3, 16, 16, dtype=torch.float64)
    classes = torch.tensor([0, 4, 2])
    maps = cam(net, x, classes)
    logits = net.eval()(x)
    expected = logits.gather(1, classes[:, None]).squeeze(1) - net.head.bias[classes]
    assert torch.allclose(maps.mean((1, 2)), expected)


def test_grad_cam_is_cam_over_the_number_of_places():
    net = _resnet().train()
    x = torch.randn(2, 3, 16, 16, dtype=torch.float64)
    first, second = cam(net, x), grad_cam(net, x)
    assert torch.allclose(second * first[0].numel(), first)
    assert torch.equal(activation_map(net, x), first)
    assert net.training
    assert int(net.head.steps) == 0


@pytest.mark.parametrize(("model", "head"), [("small-cnn", "sem"), ("resnet18", "kan")])
def test_where_cam_is_not_defined_grad_cam_stands_in(model, head):
    shape = (1, 8, 8) if model == "small-cnn" else (3, 16, 16)
    width = 1.0 if model == "small-cnn" else 0.125
    net = create(model, 5, input_shape=shape, width=width, head=head)
    x = torch.randn(2, *shape)
    assert torch.equal(activation_map(net, x), grad_cam(net, x))


class _Smooth(nn.Module):
    """Maps, a smooth neck, a head."""

    def __init__(self):
        super().__init__()
        self.neck = nn.Sequential(nn.Linear(18, 4), nn.Tanh())
        self.head = nn.Linear(4, 3)
        self.conv = nn.Conv2d(1, 2, 1)

    def feature_maps(self, x):
        return torch.sigmoid(self.conv(x))

    def features_from_maps(self, maps):
        return maps.flatten(1)


def test_grad_cam_against_finite_differences():
    torch.manual_seed(0)
    net = _Smooth().double()
    x = torch.randn(1, 1, 3, 3, dtype=torch.float64)
    expected = torch.zeros(3, 3, dtype=torch.float64)
    with torch.no_grad():
        maps = net.feature_maps(x)
        for k in range(2):
            slope = 0.0
            for row in range(3):
                for column in range(3):
                    step = torch.zeros_like(maps)
                    step[0, k, row, column] = 1e-6
                    values = [net.head(net.neck((maps + s * step).flatten(1))) for s in (1, -1)]
                    slope += float(values[0][0, 2] - values[1][0, 2]) / 2e-6
            expected += slope / 9 * maps[0, k]
    assert torch.allclose(activation_map(net, x, torch.tensor([2]))[0], expected, atol=1e-7)


def test_overlay_is_red_where_it_is_hot():
    heat = torch.zeros(4, 4)
    heat[0, 0] = 1.0
    picture = overlay(np.full((16, 16, 1), 128, np.uint8), heat)
    assert picture.shape == (16, 16, 3)
    assert picture.dtype == np.uint8
    red, _, blue = picture[0, 0].astype(int)
    assert red > blue
    red, _, blue = picture[-1, -1].astype(int)
    assert blue > red


def test_calibration_against_a_plain_loop():
    rng = np.random.default_rng(0)
    chances = rng.dirichlet(np.ones(4), 300)
    labels = rng.integers(0, 4, 300)
    predicted = chances.argmax(1)
    sure = chances.max(1)
    total = 0.0
    for low in range(15):
        inside = [i for i in range(300) if low / 15 < sure[i] <= (low + 1) / 15]
        if inside:
            accuracy = np.mean([predicted[i] == labels[i] for i in inside])
            total += len(inside) / 300 * abs(accuracy - np.mean(sure[inside]))
    loss = [-np.log(chances[i, labels[i]]) for i in range(300)]
    squares = [((chances[i] - np.eye(4)[labels[i]]) ** 2).sum() for i in range(300)]
    found = calibration(sure, predicted == labels, loss=loss, squares=squares)
    assert found == pytest.approx(
        {"ece": total, "nll": np.mean(loss), "brier": np.mean(squares)}, rel=1e-9
    )
    with pytest.raises(ValueError, match="one length"):
        calibration([0.5], [True, False])


def test_overhead_of_sem_at_inference_is_nothing():
    plain, sem = _resnet("linear"), _resnet("sem")
    assert count_parameters(plain) == count_parameters(sem)
    flops = count_flops(sem.float(), (3, 16, 16))
    assert flops == count_flops(plain.float(), (3, 16, 16))
    assert sem.training


def test_flops_of_known_layers():
    net = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.Flatten(), nn.Linear(8 * 16, 10))
    assert count_flops(net, (3, 4, 4)) == 2 * (8 * 3 * 9 * 16) + 2 * (128 * 10)


def test_latency_is_measured_in_turns():
    calls = []
    found = latency(
        nn.Identity(),
        nn.Linear(1, 1),
        torch.zeros(1),
        rounds=3,
        run=lambda net, x: calls.append(net),
    )
    assert len(calls) == 8
    assert [type(net).__name__ for net in calls[:4]] == ["Identity", "Linear"] * 2
    assert found.ratio > 0
