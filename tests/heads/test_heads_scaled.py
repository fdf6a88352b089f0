"""Logits times a constant: the exact statements about what scale and dropping do under SGD."""

import copy

import torch
import torch.nn.functional as F
from torch import nn

import edgemask as em
from edgemask.heads import DropConnectLinear, ScaledLinear

STEPS = 30


def problem():
    torch.manual_seed(0)
    return torch.randn(STEPS, 16, 6, dtype=torch.float64), torch.randint(3, (STEPS, 16))


def train(body, head, *, weight_rate=1.0, bias_rate=1.0):
    """Train by plain SGD, the head at multiples of the body's rate; return the last logits."""
    x, y = problem()
    groups = [{"params": body.parameters(), "lr": 0.3}]
    groups.append({"params": [head.weight], "lr": 0.3 * weight_rate})
    if head.bias is not None:
        groups.append({"params": [head.bias], "lr": 0.3 * bias_rate})
    optimizer = torch.optim.SGD(groups)
    for batch, labels in zip(x, y, strict=True):
        optimizer.zero_grad()
        F.cross_entropy(head(body(batch).tanh()), labels).backward()
        optimizer.step()
    return head.eval()(body(x[0]).tanh())


def networks(make):
    torch.manual_seed(1)
    body, start = nn.Linear(6, 5).double(), nn.Linear(5, 3).double()
    heads = []
    for one in make:
        head = one().double()
        head.load_state_dict(start.state_dict(), strict=False)
        heads.append((copy.deepcopy(body), head))
    return heads


def test_a_scale_is_a_smaller_start_and_a_slower_head():
    for s in (0.3, 0.1):
        (b1, scaled), (b2, plain) = networks(
            [lambda s=s: ScaledLinear(5, 3, scale=s), lambda: nn.Linear(5, 3)]
        )
        with torch.no_grad():
            plain.weight *= s
            plain.bias *= s
        torch.testing.assert_close(
            train(b1, scaled), train(b2, plain, weight_rate=s * s, bias_rate=s * s)
        )


def test_an_unscaled_mask_is_a_scaled_one_with_a_smaller_start_and_a_slower_head():
    p = 0.7
    q = 1 - p

    def drop(scaling):
        return lambda: DropConnectLinear(5, 3, bias=False, p=p, scaling=scaling, seed=4)

    (b1, unscaled), (b2, scaled) = networks([drop("none"), drop("inverted")])
    with torch.no_grad():
        scaled.weight *= q
    torch.testing.assert_close(train(b1, unscaled), train(b2, scaled, weight_rate=q * q))


def test_what_is_deployed_gives_the_same_logits():
    model = nn.Sequential(nn.Linear(6, 5), nn.Linear(5, 3))
    em.attach(model, "scaled", scale=0.2)
    x = torch.randn(4, 6)
    wanted = model(x)
    em.detach(model)
    assert type(model[1]) is nn.Linear
    torch.testing.assert_close(model(x), wanted)
