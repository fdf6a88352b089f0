"""Activation checkpointing: the recomputed pass uses the mask of the pass that it repeats."""

from __future__ import annotations

import functools

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import edgemask as em
from edgemask.heads import HEADS
from head_helpers import MASKING

MADE = {name: functools.partial(HEADS[name], 8, 4, seed=1, dtype=torch.float64) for name in MASKING}


def network(kind: str) -> nn.Module:
    torch.manual_seed(7)
    body = nn.Sequential(nn.Linear(6, 8, dtype=torch.float64), nn.Tanh(), nn.Linear(8, 8).double())
    return nn.Sequential(body, MADE[kind]())


def batches(count: int = 3) -> list[torch.Tensor]:
    g = torch.Generator().manual_seed(8)
    return [torch.randn(5, 6, generator=g, dtype=torch.float64) for _ in range(count)]


def run(model: nn.Module, x: torch.Tensor, reentrant: bool | None) -> torch.Tensor:
    x = x.clone().requires_grad_()
    if reentrant is None:
        return model(x).square().sum()
    return checkpoint(model, x, use_reentrant=reentrant).square().sum()


def gradients(model: nn.Module) -> list[torch.Tensor]:
    return [p.grad.clone() for p in model.parameters() if p.grad is not None]


def assert_same(one: nn.Module, two: nn.Module) -> None:
    for a, b in zip(gradients(one), gradients(two), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-12)
    for (name, a), b in zip(one.state_dict().items(), two.state_dict().values(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-12, msg=name)


@pytest.mark.parametrize("kind", MADE)
def test_without_a_block(kind: str) -> None:
    plain, saved = network(kind), network(kind)
    for x in batches():
        run(plain, x, None).backward()
        run(saved, x, reentrant=False).backward()
    assert_same(plain, saved)
    assert int(saved[1].steps) == 3


@pytest.mark.parametrize("kind", MADE)
@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("close_first", [False, True])
def test_within_a_block(kind: str, reentrant: bool, close_first: bool) -> None:
    plain, saved = network(kind), network(kind)
    for x in batches():
        for model, mode in ((plain, None), (saved, reentrant)):
            with em.one_step(model):
                loss = run(model, x, mode) + run(model, x.flip(0) * 2, mode)
                if not close_first:
                    loss.backward()
            if close_first:
                loss.backward()
    assert_same(plain, saved)
    assert int(saved[1].steps) == 3


def test_sam_within_a_block() -> None:
    plain, saved = network("sem"), network("sem")
    for model, mode in ((plain, None), (saved, False)):
        with em.one_step(model):
            run(model, batches()[0], mode).backward()
            with torch.no_grad():
                for p in model.parameters():
                    p.add_(0.05)
            model.zero_grad()
            run(model, batches()[0], mode).backward()
    assert_same(plain, saved)


def test_only_the_head_is_checkpointed() -> None:
    plain, saved = network("sem"), network("sem")
    for x in batches():
        plain(x).square().sum().backward()
        checkpoint(saved[1], saved[0](x), use_reentrant=False).square().sum().backward()
    assert_same(plain, saved)


def test_two_forwards_then_one_backward_is_an_error_that_names_the_block() -> None:
    model = network("sem")
    one, two, _ = batches()
    loss = run(model, one, reentrant=False) + run(model, two, reentrant=False)
    with pytest.raises(RuntimeError, match=r"with edgemask\.one_step\(model\):"):
        loss.backward()


def test_two_forwards_on_one_input_are_an_error_as_well() -> None:
    # the first pass's mask is gone, and only the input could have told the passes apart
    model = network("sem")
    (x,) = batches(1)
    loss = run(model, x, reentrant=False) + run(model, x, reentrant=False)
    with pytest.raises(RuntimeError, match="one_step"):
        loss.backward()


def test_the_same_batch_step_after_step_is_fine() -> None:
    plain, saved = network("sem"), network("sem")
    (x,) = batches(1)
    for _ in range(4):
        run(plain, x, None).backward()
        run(saved, x, reentrant=False).backward()
    assert_same(plain, saved)


def test_a_pass_of_an_older_block_is_an_error() -> None:
    model = network("sem")
    one, two, _ = batches()
    with em.one_step(model):
        old = run(model, one, reentrant=False)
    with em.one_step(model), pytest.raises(RuntimeError, match="one_step"):
        (old + run(model, two, reentrant=False)).backward()


def test_backward_twice_through_one_pass() -> None:
    plain, saved = network("sem"), network("sem")
    (x,) = batches(1)
    for model, mode in ((plain, None), (saved, False)):
        loss = run(model, x, mode)
        loss.backward(retain_graph=True)
        loss.backward()
    assert_same(plain, saved)


def test_reentrant_without_a_block_is_an_error() -> None:
    model = network("sem")
    loss = run(model, batches()[0], reentrant=True)
    with pytest.raises(RuntimeError, match="one_step"):
        loss.backward()
    assert int(model[1].steps) == 0


def test_an_error_leaves_the_head_usable() -> None:
    model = network("sem")
    one, two, three = batches()
    with pytest.raises(RuntimeError):
        (run(model, one, reentrant=False) + run(model, two, reentrant=False)).backward()
    run(model, three, reentrant=False).backward()
    assert int(model[1].steps) == 3
