"""CDR: which gradients are suppressed, and by how much, against plain loops."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from edgemask.errors import UserError
from edgemask.methods import CDR, Phase, Task
from edgemask.methods.cdr import suppress
from edgemask.models import create
from sweeps import sweep

PHASE = Phase(name="train", train=("net",))


def a_net() -> nn.Module:
    net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(144, 5))
    net(torch.randn(6, 1, 8, 8)).square().mean().backward()
    return net


def a_task(rate: float | None = 0.4) -> Task:
    return Task(
        num_classes=5,
        labels=torch.zeros(6, dtype=torch.long),
        epochs=3,
        batch_size=2,
        criterion=nn.CrossEntropyLoss(),
        device=torch.device("cpu"),
        generator=torch.Generator(),
        score=lambda *_args, **_kwargs: {},
        nominal_rate=rate,
    )


def expected_gradients(parameters, tau, l1):
    """The rule of the paper in plain Python: rank all |g w|, keep the largest (1 - tau) m."""
    entries = [
        (abs(w * g), number, place)
        for number, p in enumerate(parameters)
        for place, (w, g) in enumerate(
            zip(p.flatten().tolist(), p.grad.flatten().tolist(), strict=True)
        )
    ]
    entries.sort(reverse=True)
    kept = {(n, i) for _, n, i in entries[: int((1 - tau) * len(entries))]}
    result = []
    for number, p in enumerate(parameters):
        pairs = zip(p.flatten().tolist(), p.grad.flatten().tolist(), strict=True)
        row = [
            ((1 - tau) * g if (number, place) in kept else 0.0) + l1 * ((w > 0) - (w < 0))
            for place, (w, g) in enumerate(pairs)
        ]
        result.append(torch.tensor(row).view_as(p))
    return result


@sweep(("tau", "l1"), [(0.4, 0.0), (0.8, 1e-2), (0.05, 1e-3)])
def test_suppression_against_a_plain_loop(tau, l1):
    # Biases before batch normalisation have a gradient of rounding only; leave them out.
    parameters = [p for p in a_net().parameters() if p.ndim > 1]
    expected = expected_gradients(parameters, tau, l1)
    suppress(parameters, tau, l1=l1)
    for p, want in zip(parameters, expected, strict=True):
        torch.testing.assert_close(p.grad, want, rtol=1e-5, atol=1e-9)


def test_without_noise_nothing_is_suppressed():
    net = a_net()
    before = [p.grad.clone() for p in net.parameters()]
    suppress(net.parameters(), 0.0)
    for p, gradient in zip(net.parameters(), before, strict=True):
        assert torch.equal(p.grad, gradient)


def test_ties_at_zero_keep_everything_and_a_share_of_nothing_keeps_nothing():
    p = nn.Parameter(torch.ones(10))
    p.grad = torch.tensor([1.0] * 3 + [0.0] * 7)
    suppress([p], 0.5)
    assert p.grad.tolist() == [0.5] * 3 + [0.0] * 7
    p.grad = torch.ones(10)
    suppress([p], 0.95)
    assert not p.grad.any()
    p.grad = None
    suppress([p], 0.5)
    assert p.grad is None


def test_a_step_of_plain_sgd_is_the_rule_of_the_paper():
    net = a_net()
    method = CDR(l1=0.01)
    method.setup(a_task(), {"net": net})
    expected = expected_gradients(list(net.parameters()), 0.4, 0.01)
    before = [p.detach().clone() for p in net.parameters()]
    method.after_backward(PHASE, None)
    torch.optim.SGD(net.parameters(), lr=0.1).step()
    for p, old, gradient in zip(net.parameters(), before, expected, strict=True):
        torch.testing.assert_close(p.detach(), old - 0.1 * gradient)


def test_the_released_code_leaves_biases_and_normalisation_alone():
    net = a_net()
    before = {name: p.grad.clone() for name, p in net.named_parameters()}
    method = CDR(rule="code", l1=0.5)
    method.setup(a_task(), {"net": net})
    matrices = [p for p in net.parameters() if p.ndim in (2, 4)]
    expected = expected_gradients(matrices, 0.4, 0.0)
    method.after_backward(PHASE, None)
    for p, want in zip(matrices, expected, strict=True):
        torch.testing.assert_close(p.grad, want)
    for name, p in net.named_parameters():
        if p.ndim == 1:
            assert torch.equal(p.grad, before[name])


@sweep("head", ["linear", "sem", "kan"])
def test_the_classifier_alone(head):
    net = create("small-cnn", 5, input_shape=(1, 8, 8), width=0.25, head=head)
    net(torch.randn(8, 1, 8, 8)).square().mean().backward()
    before = copy.deepcopy({name: p.grad for name, p in net.named_parameters()})
    method = CDR(scope="head")
    method.setup(a_task(), {"net": net})
    method.after_backward(PHASE, None)
    for name, p in net.named_parameters():
        assert torch.equal(p.grad, before[name]) == (not name.startswith("head"))


def test_what_is_refused():
    with pytest.raises(UserError, match="CDR: rule='both': expected 'paper' or 'code'"):
        CDR(rule="both")
    with pytest.raises(UserError, match="scope='fc'"):
        CDR(scope="fc")
    with pytest.raises(UserError, match=r"l1=-1\.0: expected a number of at least 0"):
        CDR(l1=-1.0)
    with pytest.raises(UserError, match=r"method\.options\.tau"):
        CDR().setup(a_task(rate=None), {"net": a_net()})
    CDR(tau=0.3).setup(a_task(rate=None), {"net": a_net()})
