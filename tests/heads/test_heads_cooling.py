"""Logits that are made smaller step by step: the factor of each step, and what is a step."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

import edgemask as em
from edgemask.heads import CoolingLinear, ScaledLinear


def plain(head: CoolingLinear, x: torch.Tensor, factor: float) -> torch.Tensor:
    return factor * F.linear(x, head.weight, head.bias)


def test_factors_of_the_steps_by_hand():
    head, x = CoolingLinear(5, 3, least=0.25, half_at=2), torch.randn(4, 5)
    for factor in (1.0, 1 / 1.5, 1 / 2, 1 / 2.5, 1 / 3, 1 / 3.5, 0.25, 0.25):
        torch.testing.assert_close(head(x), plain(head, x, factor))
        with torch.no_grad():
            torch.testing.assert_close(head(x), plain(head, x, factor))
        with em.predicting(head):
            torch.testing.assert_close(head(x), plain(head, x, factor))
        torch.testing.assert_close(copy.deepcopy(head).eval()(x), plain(head, x, factor))
    assert int(head.steps) == 8


def test_the_gradient_is_that_of_the_scaled_logits():
    torch.manual_seed(0)
    head = CoolingLinear(5, 3, half_at=1).double()
    other = ScaledLinear(5, 3, scale=0.5).double()
    other.load_state_dict(em.plain_state_dict(head))
    x = torch.randn(6, 5, dtype=torch.float64)
    head(x)  # the first step, at full scale
    for layer in (head, other):
        layer(x).logsumexp(1).sum().backward()
    torch.testing.assert_close(head.weight.grad, other.weight.grad)
    torch.testing.assert_close(head.bias.grad, other.bias.grad)


def test_several_passes_of_one_step_share_a_factor():
    head, x = CoolingLinear(5, 3, half_at=1), torch.randn(4, 5)
    head(x)
    with em.one_step(head):
        first, second = head(x), head(x)
    assert torch.equal(first, second)
    torch.testing.assert_close(first, plain(head, x, 0.5))
    assert int(head.steps) == 2


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_pass_that_backward_repeats_has_its_factor(reentrant):
    torch.manual_seed(0)
    head = CoolingLinear(5, 3, half_at=1).double()
    twin = copy.deepcopy(head)
    for _ in range(3):
        x = torch.randn(6, 5, dtype=torch.float64, requires_grad=True)
        with em.one_step(head):
            checkpoint(head, x, use_reentrant=reentrant).square().sum().backward()
        twin(x).square().sum().backward()
    assert int(head.steps) == int(twin.steps) == 3
    torch.testing.assert_close(head.weight.grad, twin.weight.grad)


def test_a_run_resumes_and_a_plain_checkpoint_starts_afresh():
    head, x = CoolingLinear(5, 3), torch.randn(4, 5)
    for _ in range(40):
        head(x)
    fresh = CoolingLinear(5, 3)
    fresh.load_state_dict(head.state_dict())
    assert torch.equal(fresh(x), head(x))
    fresh.load_state_dict(nn.Linear(5, 3).state_dict())
    assert int(fresh.steps) == 0
    assert float(fresh.factor) == 1.0


def test_detached_it_predicts_the_same():
    model = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))
    em.attach(model, "cooling", least=0.2, half_at=1)
    x = torch.randn(4, 6)
    for _ in range(3):
        model(x)
    wanted = model.eval()(x)
    em.detach(model)
    assert type(model[2]) is nn.Linear
    torch.testing.assert_close(model(x), wanted)
    exported = torch.export.export(
        em.attach(nn.Sequential(nn.Linear(6, 3)), "cooling").eval(), (x,)
    )
    assert exported.module()(x).shape == (4, 3)


def test_compiled_as_one_graph():
    torch._dynamo.reset()
    head = CoolingLinear(5, 3, half_at=2)
    twin = copy.deepcopy(head)
    compiled = torch.compile(head, backend="aot_eager", fullgraph=True)
    for _ in range(3):
        x = torch.randn(4, 5)
        torch.testing.assert_close(compiled(x), twin(x))
    assert int(head.steps) == 3


def test_what_it_does_not_take_is_refused():
    with pytest.raises(em.UserError, match=r"least=0.0: expected a number in \(0, 1\]"):
        CoolingLinear(4, 3, least=0.0)
    with pytest.raises(em.UserError, match="half_at=-1: expected a number above 0"):
        CoolingLinear(4, 3, half_at=-1)
    with pytest.raises(em.UserError, match="seed"):
        em.attach(nn.Sequential(nn.Linear(4, 3)), "cooling", seed=1)


def test_random_numbers_of_torch_do_not_move():
    before = torch.get_rng_state()
    torch.manual_seed(3)
    one = nn.Linear(4, 3).weight
    after = torch.get_rng_state()
    torch.manual_seed(3)
    two = CoolingLinear(4, 3).weight
    assert torch.equal(one, two)
    assert torch.equal(torch.get_rng_state(), after)
    torch.set_rng_state(before)
