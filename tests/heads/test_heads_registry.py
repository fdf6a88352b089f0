"""Every head of the registry, through one interface."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from torch import nn

import edgemask as em
from edgemask.errors import UserError
from edgemask.heads import HEADS


@pytest.fixture(params=HEADS)
def kind(request: pytest.FixtureRequest) -> type[nn.Module]:
    return HEADS[request.param]


def test_signature_of_a_linear_layer(kind: type[nn.Module]) -> None:
    head = kind(6, 4, True, device="cpu", dtype=torch.float64)  # noqa: FBT003
    assert head.in_features == 6
    assert head.out_features == 4
    assert head(torch.randn(2, 6, dtype=torch.float64)).dtype == torch.float64
    assert kind(6, 4, bias=False)(torch.randn(2, 6)).shape == (2, 4)
    assert "in_features=6" in repr(head)


@pytest.mark.parametrize("shape", [(6,), (1, 6), (5, 6), (2, 3, 6)])
def test_shapes_and_gradients(kind: type[nn.Module], shape: tuple[int, ...]) -> None:
    head = kind(6, 4)
    x = torch.randn(shape, requires_grad=True)
    for _ in range(2):
        out = head(x)
        assert out.shape == (*shape[:-1], 4)
        out.square().sum().backward()
    assert x.grad.isfinite().all()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in head.parameters())


def test_learns(kind: type[nn.Module]) -> None:
    head = kind(12, 3)
    x = torch.randn(60, 12)
    target = x[:, :3].argmax(1)
    optimiser = torch.optim.Adam(head.parameters(), lr=0.05)
    for _ in range(60):
        optimiser.zero_grad()
        nn.functional.cross_entropy(head(x), target).backward()
        optimiser.step()
    assert (head.eval()(x).argmax(1) == target).float().mean() > 0.8


def test_eval_is_deterministic_and_copies_agree(kind: type[nn.Module]) -> None:
    head = kind(6, 4)
    head(torch.randn(5, 6)).sum().backward()
    head.eval()
    x = torch.randn(5, 6)
    expected = head(x)
    assert torch.equal(head(x), expected)
    loaded = kind(6, 4).eval()
    loaded.load_state_dict(head.state_dict())
    for twin in (copy.deepcopy(head), pickle.loads(pickle.dumps(head)), loaded):
        assert torch.equal(twin(x), expected)


def test_predictions_are_those_at_test(kind: type[nn.Module]) -> None:
    head = kind(6, 4)
    head(torch.randn(5, 6)).sum().backward()
    x = torch.randn(5, 6)
    with torch.no_grad():
        first = head(x)
    with em.predicting(head):
        second = head(x)
    third = head.eval()(x)
    assert torch.equal(first, third)
    assert torch.equal(second, third)


@pytest.mark.parametrize("shape", [(2, 5), (2, 12), (5,), (), (2, 1), (6, 3)])
@pytest.mark.parametrize("name", [name for name in HEADS if name != "linear"])
def test_a_wrong_shape_is_named_and_nothing_is_written(name: str, shape: tuple[int, ...]) -> None:
    kind = HEADS[name]
    head = kind(6, 4)
    before = {name: value.clone() for name, value in head.state_dict().items()}
    for mode in (True, False):
        with pytest.raises(UserError, match=rf"{kind.__name__}\(6, 4\) takes .*\(\*, 6\), got"):
            head.train(mode)(torch.randn(shape))
    for name, value in head.state_dict().items():
        assert torch.equal(value, before[name])


def test_an_empty_batch(kind: type[nn.Module]) -> None:
    head = kind(6, 4)
    head(torch.randn(5, 6)).sum().backward()
    before = {name: value.clone() for name, value in head.state_dict().items()}
    out = head(torch.zeros(0, 6))
    assert out.shape == (0, 4)
    out.sum().backward()
    if "scores" in before:
        assert torch.equal(head.scores, before["scores"])
        assert torch.equal(head.steps, before["steps"])
    assert head(torch.zeros(2, 0, 6)).shape == (2, 0, 4)
    assert head.eval()(torch.zeros(0, 6)).shape == (0, 4)


def test_every_head_has_a_summary() -> None:
    assert all(HEADS.summaries().values())
    with pytest.raises(UserError, match="unknown head 'semm'; did you mean 'sem'"):
        HEADS["semm"]
