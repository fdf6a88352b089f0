"""One mask a step: every row of the table, for every head that draws."""

from __future__ import annotations

import copy
import functools

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

import edgemask as em
from edgemask.heads import HEADS
from head_helpers import MASKING

DRAWING = {name: functools.partial(HEADS[name], 6, 4, seed=1) for name in MASKING}


@pytest.fixture(params=DRAWING)
def head(request: pytest.FixtureRequest) -> nn.Module:
    head = DRAWING[request.param]()
    # DDC is dense until it has seen a gradient
    head(torch.randn(5, 6)).square().sum().backward()
    return head


def state_of(head: nn.Module) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in head.state_dict().items()}


def assert_untouched(head: nn.Module, before: dict[str, torch.Tensor]) -> None:
    for name, value in head.state_dict().items():
        assert torch.equal(value, before[name]), name


def test_a_plain_forward_is_a_step(head: nn.Module) -> None:
    masks = []
    for step in range(4):
        head(torch.randn(5, 6))
        masks.append(head.last_mask.clone())
        assert int(head.steps) == step + 2
    assert any(not torch.equal(masks[0], mask) for mask in masks[1:])


def test_two_views_share_mask_and_step(head: nn.Module) -> None:
    x = torch.randn(5, 6)
    before = int(head.steps)
    with em.one_step(head):
        first = head(x)
        mask, scores = head.step_state.mask, state_of(head).get("scores")
        second, third = head(x), head(torch.randn(5, 6))
        assert head.step_state.mask is mask
    assert torch.equal(first, second)
    assert third.shape == first.shape
    assert int(head.steps) == before + 1
    if scores is not None:
        assert torch.equal(head.scores, scores), "only the first pass may score"


def test_blocks_follow_each_other(head: nn.Module) -> None:
    masks, before = [], int(head.steps)
    for _ in range(4):
        with em.one_step(head):
            head(torch.randn(5, 6)), head(torch.randn(5, 6))
        masks.append(head.last_mask.clone())
    assert int(head.steps) == before + 4
    assert any(not torch.equal(masks[0], mask) for mask in masks[1:])


def test_mix_up_counts_once(head: nn.Module) -> None:
    x, before = torch.randn(8, 6), int(head.steps)
    with em.one_step(head):
        mixed = 0.3 * x + 0.7 * x.flip(0)
        head(x), head(mixed)
    assert int(head.steps) == before + 1


def test_sam_uses_one_mask_though_the_weights_move(head: nn.Module) -> None:
    x, target = torch.randn(8, 6), torch.randint(4, (8,))
    optimiser = torch.optim.SGD(head.parameters(), lr=0.1)
    before = int(head.steps)
    with em.one_step(head):
        F.cross_entropy(head(x), target).backward()
        mask = head.last_mask.clone()
        moves = [0.5 * p.grad / (p.grad.norm() + 1e-12) for p in head.parameters()]
        with torch.no_grad():
            for p, move in zip(head.parameters(), moves, strict=True):
                p.add_(move)
        optimiser.zero_grad()
        F.cross_entropy(head(x), target).backward()
        assert torch.equal(head.last_mask, mask)
        with torch.no_grad():
            for p, move in zip(head.parameters(), moves, strict=True):
                p.sub_(move)
        optimiser.step()
    assert int(head.steps) == before + 1


def test_sam_gradient_is_that_of_the_moved_weights_under_the_mask() -> None:
    head = em.SEMLinear(6, 4, dtype=torch.float64)
    x, target = torch.randn(8, 6, dtype=torch.float64), torch.randint(4, (8,))
    with em.one_step(head):
        head(x)
        with torch.no_grad():
            head.weight.add_(0.1)
        F.cross_entropy(head(x), target).backward()
    w = head.weight.detach().clone().requires_grad_()
    F.cross_entropy(F.linear(x, w * head.last_mask, head.bias.detach()), target).backward()
    torch.testing.assert_close(head.weight.grad, w.grad)


def test_gradient_accumulation_inside_a_block_is_one_step(head: nn.Module) -> None:
    before = int(head.steps)
    head.zero_grad()
    with em.one_step(head):
        for _ in range(3):
            head(torch.randn(4, 6)).square().sum().backward()
    assert int(head.steps) == before + 1
    with em.one_step(head, per="forward"):
        for _ in range(3):
            head(torch.randn(4, 6)).square().sum().backward()
    assert int(head.steps) == before + 4


def test_nested_blocks_are_the_outermost_one(head: nn.Module) -> None:
    before = int(head.steps)
    with em.one_step(head):
        with em.one_step(head):
            head(torch.randn(4, 6))
        mask = head.step_state.mask
        with em.one_step(head):
            head(torch.randn(4, 6))
        head(torch.randn(4, 6))
        assert head.step_state.mask is mask
    assert int(head.steps) == before + 1


def test_no_grad_outside_a_block_predicts(head: nn.Module) -> None:
    x, before = torch.randn(4, 6), state_of(head)
    with torch.no_grad():
        inside = head(x)
    assert_untouched(head, before)
    assert torch.equal(inside, head.eval()(x))


def test_no_grad_inside_a_block_takes_part(head: nn.Module) -> None:
    before = int(head.steps)
    with em.one_step(head):
        x = torch.randn(4, 6)
        with torch.no_grad():
            first = head(x)
        assert torch.equal(head(x), first)
    assert int(head.steps) == before + 1


@pytest.mark.parametrize("in_block", [False, True])
def test_inference_mode_predicts_always(head: nn.Module, in_block: bool) -> None:
    x, before = torch.randn(4, 6), state_of(head)
    with em.one_step(*([head] if in_block else [nn.Identity()])), torch.inference_mode():
        inside = head(x)
    assert_untouched(head, before)
    assert torch.equal(inside, head.eval()(x))
    head.train()(x).sum().backward()


@pytest.mark.parametrize("in_block", [False, True])
def test_eval_predicts_and_writes_nothing(head: nn.Module, in_block: bool) -> None:
    x, before = torch.randn(4, 6), state_of(head)
    head.eval()
    with em.one_step(*([head] if in_block else [nn.Identity()])):
        head(x).sum().backward()
    assert_untouched(head, before)


def test_predicting_inside_a_block(head: nn.Module) -> None:
    x = torch.randn(4, 6)
    dense = copy.deepcopy(head).eval()(x)
    before = int(head.steps)
    with em.one_step(head):
        with em.predicting(head):
            with em.predicting(head):
                assert torch.equal(head(x), dense)
            assert torch.equal(head(x), dense)
        assert int(head.steps) == before
        head(x)
        mask = head.step_state.mask
        with em.predicting(head):
            assert torch.equal(head(x), dense)
        head(x)
        assert head.step_state.mask is mask
    assert int(head.steps) == before + 1
    with em.predicting(head):
        head(x).sum().backward()  # with gradient, as some teachers run
    assert int(head.steps) == before + 1


def test_predictions_in_training_mode_follow_the_inference_rule() -> None:
    head = em.SEMLinear(6, 4, inference="expected")
    head(torch.randn(5, 6))
    x = torch.randn(3, 6)
    with em.predicting(head):
        inside = head(x)
    assert torch.equal(inside, head.eval()(x))
    assert not torch.equal(inside, F.linear(x, head.weight, head.bias))


@pytest.mark.parametrize("block", [em.one_step, em.predicting])
def test_an_exception_leaves_the_state_clean(head: nn.Module, block) -> None:
    def fail() -> None:
        with block(head):
            head(torch.randn(4, 6))
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    before = int(head.steps)
    head(torch.randn(4, 6)), head(torch.randn(4, 6))
    assert int(head.steps) == before + 2
    assert head.step_state.blocks == head.step_state.predicting == 0


def test_a_block_without_a_pass_changes_nothing(head: nn.Module) -> None:
    before = state_of(head)
    with em.one_step(head):
        pass
    assert_untouched(head, before)


def test_several_models_and_models_without_heads() -> None:
    one, two = em.SEMLinear(6, 4), nn.Sequential(nn.Linear(6, 6), em.SEMLinear(6, 4))
    with em.one_step(one, two, nn.Linear(2, 2)):
        for _ in range(2):
            x = torch.randn(4, 6)
            one(x), two(x)
    assert int(one.steps) == int(two[1].steps) == 1
    with em.one_step(nn.Linear(6, 4)) as nothing:
        assert nothing is None


def test_a_head_under_two_names_is_entered_once() -> None:
    head = em.SEMLinear(6, 4)
    with em.one_step(nn.ModuleList([head, head]), head):
        assert head.step_state.blocks == 1


def test_an_unknown_per_is_refused() -> None:
    with pytest.raises(ValueError, match="per must be 'step' or 'forward', got 'batch'"):
        em.one_step(nn.Identity(), per="batch").__enter__()


def test_deepcopy_inside_a_block_is_outside_of_it(head: nn.Module) -> None:
    with em.one_step(head):
        head(torch.randn(4, 6))
        twin = copy.deepcopy(head)
        before = int(twin.steps)
        twin(torch.randn(4, 6)), twin(torch.randn(4, 6))
        assert int(twin.steps) == before + 2
        assert twin.last_mask is not head.last_mask
    assert int(head.steps) == before


@pytest.mark.parametrize("use_buffers", [False, True])
def test_teachers_predict_and_write_nothing(use_buffers: bool) -> None:
    student = nn.Sequential(nn.Linear(6, 6), em.SEMLinear(6, 4))
    teacher = AveragedModel(
        student, multi_avg_fn=get_ema_multi_avg_fn(0.9), use_buffers=use_buffers
    ).train()
    x = torch.randn(5, 6)
    for _ in range(3):
        with em.one_step(student):
            student(x).sum().backward()
            with torch.no_grad():
                teacher(x)
        teacher.update_parameters(student)
    assert int(student[1].steps) == 3
    assert teacher.module[1].last_mask is None
    with em.predicting(teacher):
        torch.testing.assert_close(teacher(x), copy.deepcopy(teacher).eval()(x))
    assert teacher.module[1].last_mask is None
    assert teacher.module[1].scores.min() >= 0
    assert teacher.module[1].scores.max() <= 1


def test_masks_do_not_depend_on_how_much_else_was_drawn() -> None:
    masks = []
    for extra in (0, 100):
        torch.manual_seed(0)
        head = em.SEMLinear(6, 4)
        x = torch.randn(5, 6)
        torch.rand(extra)
        head(x)
        masks.append(head.last_mask.clone())
    assert torch.equal(*masks)
