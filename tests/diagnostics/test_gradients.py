"""The gradient error against two plain backward passes, and the bounds against full Jacobians."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from edgemask.diagnostics import (
    block_parameters,
    gradient_bounds,
    gradient_error,
    jacobian_norms,
    masking_bounds,
)
from edgemask.heads import one_step
from edgemask.losses import build
from edgemask.models import create
from sweeps import sweep


def _network(head: str = "sem"):
    torch.manual_seed(0)
    return create("small-cnn", 4, input_shape=(1, 8, 8), head=head).double().train()


def _batch():
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(12, 1, 8, 8, generator=generator, dtype=torch.float64)
    given = torch.randint(0, 4, (12,), generator=generator)
    clean = torch.randint(0, 4, (12,), generator=generator)
    return x, given, clean


def _two_backwards(net, x, given, clean, criterion):
    """The definition: two training passes with one mask, two calls of backward."""
    gradients = []
    with one_step(net):
        for labels in (given, clean):
            net.zero_grad()
            criterion(net(x), labels).backward()
            gradients.append(torch.cat([p.grad.flatten() for p in block_parameters(net)]))
    noisy, true = gradients
    error = (noisy - true).norm()
    return error, error / true.norm(), F.cosine_similarity(noisy, true, dim=0)


@sweep("head", ["linear", "sem", "skan"])
def test_cross_entropy_needs_one_forward(head):
    x, given, clean = _batch()
    expected = _two_backwards(_network(head), x, given, clean, F.cross_entropy)
    net = _network(head)
    found = gradient_error(net(x), given, clean, block_parameters(net))
    assert (found.error, found.relative, found.cosine) == pytest.approx(
        tuple(map(float, expected)), rel=1e-9
    )
    assert all(p.grad is None for p in net.parameters())


@sweep("name", ["ce", "gce", "jal"])
def test_other_losses_take_two_gradients(name):
    x, given, clean = _batch()
    criterion = build(name, num_classes=4)
    expected = _two_backwards(_network(), x, given, clean, criterion)
    net = _network()
    found = gradient_error(net(x), given, clean, block_parameters(net), criterion=criterion)
    assert (found.error, found.relative, found.cosine) == pytest.approx(
        tuple(map(float, expected)), rel=1e-6
    )


def test_right_labels_and_samples_of_no_class_cause_no_error():
    x, given, _ = _batch()
    net = _network()
    logits = net(x)
    clean = given.clone()
    clean[:5] = -1
    found = gradient_error(logits, given, clean, block_parameters(net))
    assert found.error == 0.0
    assert found.cosine == pytest.approx(1.0)


def test_a_model_without_blocks_is_named():
    with pytest.raises(ValueError, match="MLP has no last"):
        block_parameters(create("mlp", 3, input_shape=(5,)))


def test_jacobian_norms_against_the_full_jacobian():
    torch.manual_seed(0)
    layer = nn.Linear(5, 3).double()
    x = torch.randn(6, 5, dtype=torch.float64)
    features = torch.tanh(layer(x))
    rows = torch.tensor([1, 4])
    expected = []
    for row in rows:
        total = 0.0
        for k in range(3):
            grads = torch.autograd.grad(
                features[row, k], list(layer.parameters()), retain_graph=True
            )
            total += sum(float(g.square().sum()) for g in grads)
        expected.append(total**0.5)
    exact = jacobian_norms(features, list(layer.parameters()), rows)
    assert exact.tolist() == pytest.approx(expected)
    generator = torch.Generator().manual_seed(0)
    drawn = jacobian_norms(
        features, list(layer.parameters()), rows, draws=2000, generator=generator
    )
    # a mean of 2,000 squares of Gaussians: its relative error is below 10 % with certainty > 0.999
    assert drawn.tolist() == pytest.approx(expected, rel=0.1)


def test_the_bounds_hold_and_a_mask_makes_them_smaller():
    x, given, clean = _batch()
    net = _network()
    features = net.embed(x)
    logits = net.head(features)
    mask, weight = net.head.last_mask, net.head.weight.detach()
    parameters = block_parameters(net)
    error = gradient_error(logits, given, clean, parameters).error
    bounds = gradient_bounds(features, weight, mask, given, clean, parameters, samples=12, draws=60)
    assert error < bounds["bound_estimate/masked"] < bounds["bound_estimate/dense"]
    assert bounds["bound/ratio"] == pytest.approx(
        bounds["bound_estimate/masked"] / bounds["bound_estimate/dense"], rel=1e-9
    )
    costs = masking_bounds(features.detach(), weight, mask, net.head.bias)
    assert 0 < costs["obd/masked"] <= costs["obd/bound"]
    assert costs["obd/masked"] <= costs["obd/all"]


def _written_out_bound(features, weight, given, clean, parameters):
    """mean_i |y_i - y~_i| * |W|_F * |dv_i / dtheta|_F, in plain loops over the full Jacobian."""
    total = 0.0
    for row in range(len(given)):
        squares = 0.0
        for value in features[row]:
            grads = torch.autograd.grad(value, parameters, retain_graph=True)
            squares += sum(float(grad.square().sum()) for grad in grads)
        wrong = clean[row] >= 0 and given[row] != clean[row]
        total += (2.0**0.5 if wrong else 0.0) * squares**0.5
    return total / len(given) * float(weight.square().sum()) ** 0.5


@pytest.mark.parametrize("seed", range(5))
def test_what_is_called_a_bound_is_the_bound(seed):
    """An estimate from one random direction and a few samples lies below it in most cases."""
    generator = torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)
    layer = nn.Linear(4, 5).double()
    x = torch.randn(20, 4, generator=generator, dtype=torch.float64)
    features = torch.tanh(layer(x * torch.rand(20, 1, generator=generator) * 4))
    weight = torch.randn(3, 5, generator=generator, dtype=torch.float64)
    mask = (torch.rand(3, 5, generator=generator) > 0.4).double()
    clean = torch.randint(-1, 3, (20,), generator=generator)
    given = torch.randint(3, (20,), generator=generator)
    parameters = list(layer.parameters())
    arguments = (features, weight, mask, given, clean, parameters)
    bounds = gradient_bounds(*arguments)
    dense = _written_out_bound(features, weight, given, clean, parameters)
    masked = _written_out_bound(features, weight * mask, given, clean, parameters)
    assert bounds["bound/dense"] == pytest.approx(dense)
    assert bounds["bound/masked"] == pytest.approx(masked)
    assert bounds["bound/ratio"] == pytest.approx(masked / dense)
    error = gradient_error(features @ (weight * mask).T, given, clean, parameters).error
    assert error <= bounds["bound/masked"]
    for options in ({"samples": 8}, {"draws": 1}, {"samples": 8, "draws": 1}):
        names = set(gradient_bounds(*arguments, generator=generator, **options))
        assert names == {"bound_estimate/masked", "bound_estimate/dense", "bound/ratio"}
    many = gradient_bounds(*arguments, draws=1000, generator=generator)
    # each norm from 1,000 squares of Gaussians: within 10 % with certainty > 0.999
    assert many["bound_estimate/masked"] == pytest.approx(masked, rel=0.1)


def test_without_wrong_labels_the_bounds_are_zero():
    x, given, _ = _batch()
    net = _network()
    features = net.embed(x)
    bounds = gradient_bounds(
        features, net.head.weight, torch.ones(4, 256), given, given, block_parameters(net)
    )
    assert bounds == {"bound/masked": 0.0, "bound/dense": 0.0, "bound/ratio": pytest.approx(1.0)}
