"""SEMLinear: a linear layer in every respect but training."""

from __future__ import annotations

import copy
import io
import pickle

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import edgemask as em
from edgemask.errors import UserError
from edgemask.heads.sem import edge_scores, normalise_scores
from head_helpers import (
    LargestTensor,
    edge_activations,
    mask_of,
    normalised,
    raw_scores,
    smoothed,
    uniform_of_next_step,
)


def train(head: em.SEMLinear, steps: int = 3, batch: int = 6) -> None:
    for _ in range(steps):
        head(torch.randn(batch, head.in_features, dtype=head.weight.dtype))


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_starts_as_linear_and_masks_move_no_random_state(bias: bool, dtype: torch.dtype) -> None:
    torch.manual_seed(5)
    plain = nn.Linear(7, 3, bias, dtype=dtype)
    after = torch.get_rng_state()
    torch.manual_seed(5)
    head = em.SEMLinear(7, 3, bias, dtype=dtype, seed=1)
    assert torch.equal(torch.get_rng_state(), after), "a given seed draws nothing"
    torch.manual_seed(5)
    head = em.SEMLinear(7, 3, bias, dtype=dtype)
    assert isinstance(head, nn.Linear)
    assert [n for n, _ in head.named_parameters()] == [n for n, _ in plain.named_parameters()]
    for one, two in zip(head.parameters(), plain.parameters(), strict=True):
        assert torch.equal(one, two)
    x = torch.randn(4, 7, dtype=dtype)
    before = torch.get_rng_state()
    head(x)
    assert torch.equal(torch.get_rng_state(), before), "a mask moved the program's random state"
    head.eval()
    assert torch.equal(head(x), plain(x))


@pytest.mark.parametrize("criterion", ["rms", "second_moment", "mean_abs", "obd"])
def test_steps_equal_literal_algorithm_1(criterion: str) -> None:
    head = em.SEMLinear(5, 3, rho=0.4, beta=0.8, criterion=criterion, dtype=torch.float64, seed=3)
    reference, masked_out = None, 0
    optimiser = torch.optim.SGD(head.parameters(), lr=0.5)
    for step in range(5):
        v = torch.randn(4, 5, dtype=torch.float64)
        uniform = uniform_of_next_step(head)
        w, b = head.weight.detach().clone(), head.bias.detach().clone()
        a = edge_activations(v, w)
        new = normalised(raw_scores(a, criterion, (v @ w.T + b).softmax(1)))
        reference = smoothed(reference, new, 0.8)
        expected = mask_of(reference, uniform, 0.4)

        logits = head(v)
        torch.testing.assert_close(head.scores, reference, rtol=1e-6, atol=1e-9)
        assert torch.equal(head.last_mask, expected)
        torch.testing.assert_close(logits, (a * expected).sum(2) + b, rtol=1e-6, atol=1e-9)
        assert int(head.steps) == step + 1
        assert head.retention == pytest.approx(expected.mean().item())
        optimiser.zero_grad()
        F.cross_entropy(logits, torch.tensor([0, 1, 2, 0])).backward()
        optimiser.step()
        assert torch.equal(head.weight.detach()[expected == 0], w[expected == 0])
        masked_out += int((expected == 0).sum())
    assert masked_out > 0


def test_first_score_is_the_first_batch_s_own() -> None:
    head = em.SEMLinear(6, 4, beta=0.9)
    x = torch.randn(8, 6)
    head(x)
    torch.testing.assert_close(head.scores, normalise_scores(edge_scores(x, head.weight)))


def test_beta_zero_forgets() -> None:
    head, fresh = (em.SEMLinear(6, 4, beta=0.0, seed=1) for _ in range(2))
    fresh.load_state_dict({"weight": head.weight, "bias": head.bias})
    train(head)
    x = torch.randn(8, 6)
    head(x), fresh(x)
    torch.testing.assert_close(head.scores, fresh.scores)


@pytest.mark.parametrize("bias", [True, False])
def test_rho_zero_is_linear_to_the_last_bit(bias: bool) -> None:
    head = em.SEMLinear(9, 4, bias, rho=0.0, inference="expected")
    plain = nn.Linear(9, 4, bias)
    plain.load_state_dict(dict(head.named_parameters()))
    x = torch.randn(3, 2, 9)
    inputs = [x.clone().requires_grad_() for _ in range(2)]
    out = torch.randn(3, 2, 4)
    for layer, v in zip((head, plain), inputs, strict=True):
        (layer(v) * out).sum().backward()
    assert torch.equal(head(x), plain(x))
    assert torch.equal(inputs[0].grad, inputs[1].grad)
    for one, two in zip(head.parameters(), plain.parameters(), strict=True):
        assert torch.equal(one.grad, two.grad)
    assert head.retention == 1.0
    assert head.last_mask is None


def test_a_plain_checkpoint_loads_strictly_and_starts_afresh() -> None:
    plain = nn.Sequential(nn.Linear(6, 5), nn.Linear(5, 3))
    model = nn.Sequential(nn.Linear(6, 5), em.SEMLinear(5, 3, seed=4))
    model(torch.randn(2, 6))
    assert int(model[1].steps) == 1
    model.load_state_dict(plain.state_dict(), strict=True)
    assert torch.equal(model[1].weight, plain[1].weight)
    assert int(model[1].steps) == 0
    assert not model[1].scores.any()
    assert int(model[1].seed) == 4
    assert model[1].last_mask is None
    with pytest.raises(RuntimeError, match="size mismatch"):
        model.load_state_dict(nn.Sequential(nn.Linear(6, 5), nn.Linear(5, 4)).state_dict())


def test_a_checkpoint_without_one_of_the_states_is_refused() -> None:
    head = em.SEMLinear(5, 3)
    state = head.state_dict()
    del state["scores"]
    with pytest.raises(RuntimeError, match="scores"):
        em.SEMLinear(5, 3).load_state_dict(state)


def test_assigned_checkpoint_of_a_plain_layer_on_meta() -> None:
    with torch.device("meta"):
        head = em.attach(nn.Sequential(nn.Linear(6, 5), nn.Linear(5, 3)), "sem")
    plain = nn.Sequential(nn.Linear(6, 5), nn.Linear(5, 3))
    head.load_state_dict(plain.state_dict(), assign=True)
    assert head(torch.randn(4, 6)).device.type == "cpu"
    assert int(head[1].steps) == 1


def test_to_empty_and_reset_parameters_start_afresh() -> None:
    head = em.SEMLinear(5, 3, device="meta").to_empty(device="cpu")
    head.scores.fill_(7.0), head.steps.fill_(9)
    head.reset_parameters()
    assert not head.scores.any()
    assert int(head.steps) == 0
    head(torch.randn(4, 5))
    assert int(head.steps) == 1


def test_a_run_resumes_bit_by_bit() -> None:
    def run(head: em.SEMLinear, batches: list[torch.Tensor]) -> list[torch.Tensor]:
        return [head(x).detach() for x in batches]

    batches = [torch.randn(8, 12) for _ in range(6)]
    head = em.SEMLinear(12, 5)
    run(head, batches[:3])
    file = io.BytesIO()
    torch.save(head.state_dict(), file)
    file.seek(0)
    resumed = em.SEMLinear(12, 5)
    resumed.load_state_dict(torch.load(file, weights_only=True))
    for one, two in zip(run(head, batches[3:]), run(resumed, batches[3:]), strict=True):
        assert torch.equal(one, two)
    assert torch.equal(head.scores, resumed.scores)
    assert torch.equal(head.last_mask, resumed.last_mask)


def test_the_mask_is_no_buffer() -> None:
    head = em.SEMLinear(4, 3)
    train(head)
    assert set(head.state_dict()) == {"weight", "bias", "scores", "steps", "seed"}


@pytest.mark.parametrize("way", ["deepcopy", "pickle", "save"])
def test_copies_continue_alone(way: str) -> None:
    head = em.SEMLinear(8, 4, policy="topk(0.5)", inference="expected", scaling="inverted(5)")
    train(head)
    if way == "deepcopy":
        twin = copy.deepcopy(head)
    elif way == "pickle":
        twin = pickle.loads(pickle.dumps(head))
    else:
        file = io.BytesIO()
        torch.save(head, file)
        file.seek(0)
        twin = torch.load(file, weights_only=False)
    assert twin.extra_repr() == head.extra_repr()
    assert twin.last_mask is None
    x = torch.randn(4, 8)
    assert torch.equal(twin(x), head(x))
    before = head.scores.clone()
    train(twin)
    assert torch.equal(head.scores, before)
    assert int(twin.steps) == int(head.steps) + 3


@pytest.mark.parametrize("shape", [(5,), (1, 5), (4, 5), (2, 3, 5), (2, 1, 3, 5)])
def test_leading_dimensions(shape: tuple[int, ...]) -> None:
    torch.manual_seed(1)
    head, flat = em.SEMLinear(5, 3, seed=2), em.SEMLinear(5, 3, seed=2)
    flat.load_state_dict(head.state_dict())
    x = torch.randn(shape)
    out = head(x)
    assert out.shape == (*shape[:-1], 3)
    torch.testing.assert_close(out.view(-1, 3), flat(x.reshape(-1, 5)))
    assert torch.equal(head.scores, flat.scores)


def test_non_contiguous_input() -> None:
    head, twin = em.SEMLinear(5, 3, seed=2), em.SEMLinear(5, 3, seed=2)
    twin.load_state_dict(head.state_dict())
    x = torch.randn(5, 7).T
    torch.testing.assert_close(head(x), twin(x.contiguous()))


@pytest.mark.parametrize("dtype", [torch.float16, torch.float64])
def test_other_types(dtype: torch.dtype) -> None:
    for head in (em.SEMLinear(6, 3, dtype=dtype), em.SEMLinear(6, 3).to(dtype)):
        expected = torch.float64 if dtype == torch.float64 else torch.float32
        assert head.scores.dtype == expected
        out = head(torch.randn(4, 6, dtype=dtype))
        assert out.dtype == dtype
        assert head.last_mask.dtype == expected
        out.sum().backward()
        assert (head.weight.grad[head.last_mask == 0] == 0).all()
        assert 0 < head.retention < 1


def test_half_precision_weights_leave_the_scores_exact() -> None:
    head = em.SEMLinear(6, 3)
    train(head)
    before = head.scores.clone()
    head.half()
    assert torch.equal(head.scores, before)
    assert head.weight.dtype == torch.float16


def test_large_activations_in_half_precision_do_not_overflow() -> None:
    head = em.SEMLinear(6, 3, dtype=torch.float16)
    head(torch.full((4, 6), 300.0, dtype=torch.float16) * torch.rand(4, 6).half())
    assert head.scores.isfinite().all()
    assert int(head.steps) == 1


def test_expected_inference_is_equation_s1() -> None:
    head = em.SEMLinear(10, 4, rho=0.4, inference="expected")
    train(head)
    head.eval()
    x = torch.randn(5, 10)
    factor = torch.where(head.scores >= 0.4, 1.0, head.scores)
    torch.testing.assert_close(head(x), x @ (head.weight * factor).T + head.bias)
    torch.testing.assert_close(head.to_plain()(x), head(x))
    head.inference = "dense"
    assert torch.equal(head(x), F.linear(x, head.weight, head.bias))
    assert head.to_plain().weight is head.weight


def test_expected_inference_before_training_is_dense() -> None:
    head = em.SEMLinear(10, 4, inference="expected").eval()
    x = torch.randn(5, 10)
    torch.testing.assert_close(head(x), F.linear(x, head.weight, head.bias))


def test_expectation_matches_the_masks() -> None:
    head = em.SEMLinear(20, 5, beta=0.0)
    x = torch.randn(16, 20)
    masks = []
    for _ in range(1000):
        head(x)
        masks.append(head.last_mask.clone())
    p = head.keep_probability()
    bound = 4.4 * (p * (1 - p) / 1000).sqrt() + 2.0**-16  # 100 edges, 99.9 % together
    assert ((torch.stack(masks).mean(0) - p).abs() <= bound).all()


@pytest.mark.parametrize("scaling", ["inverted", "inverted(4)"])
def test_inverted_scaling(scaling: str) -> None:
    head = em.SEMLinear(20, 5, beta=0.0, scaling=scaling)
    x = torch.randn(16, 20)
    masks = []
    for _ in range(300):
        head(x)
        masks.append(head.last_mask.clone())
    chance = torch.where(head.scores >= 0.5, 1.0, head.scores)
    factor = 1 / chance if scaling == "inverted" else (1 / chance).clamp_max(4.0)
    for mask in masks:
        assert ((mask == 0) | torch.isclose(mask, factor)).all()
    certain = head.scores >= 0.5
    assert all((mask[certain] == 1).all() for mask in masks)
    assert 0 < head.retention < 1
    torch.testing.assert_close(head.expected_mask()[chance > 0], (chance * factor)[chance > 0])


def test_gradients_with_the_mask_fixed() -> None:
    head = em.SEMLinear(5, 3, dtype=torch.float64)
    x = torch.randn(4, 5, dtype=torch.float64, requires_grad=True)
    with em.one_step(head):
        head(x)

        def layer(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            return torch.func.functional_call(head, {"weight": w, "bias": b}, (x,))

        assert torch.autograd.gradcheck(layer, (x, head.weight, head.bias))
        assert torch.autograd.gradgradcheck(layer, (x, head.weight, head.bias))


@pytest.mark.parametrize("size", [(16, 8), (512, 260)])
def test_a_mask_outlives_its_step_for_as_long_as_it_is_needed(size: tuple[int, int]) -> None:
    head = em.SEMLinear(*size, seed=1)
    x, y = torch.randn(4, size[0]), torch.randn(4, size[0])
    first = head(x)
    kept = head.last_mask
    part, copied = kept[1:], kept.clone()
    second = head(y)
    other = head.last_mask.clone()
    for _ in range(3):
        head(x)
    assert torch.equal(kept, copied)
    assert torch.equal(part, copied[1:])
    (grad,) = torch.autograd.grad(first.sum(), head.weight)
    torch.testing.assert_close(grad, copied * x.sum(0))
    (grad,) = torch.autograd.grad(second.sum(), head.weight)
    torch.testing.assert_close(grad, other * y.sum(0))
    del kept
    for _ in range(3):
        head(x)
    assert torch.equal(part, copied[1:])


@pytest.mark.parametrize("criterion", ["rms", "second_moment", "mean_abs", "obd"])
@pytest.mark.parametrize("policy", ["bernoulli", "topk(0.5)"])
@pytest.mark.parametrize("size", [(64, 40, 48), (8, 260, 512)])
def test_no_tensor_of_the_size_of_a(criterion: str, policy: str, size: tuple[int, ...]) -> None:
    batch, classes, features = size
    head = em.SEMLinear(features, classes, criterion=criterion, policy=policy)
    x = torch.randn(batch, features, requires_grad=True)
    with LargestTensor() as seen:
        head(x).square().sum().backward()
    assert seen.largest <= max(classes * features, batch * features, batch * classes)


def test_options_are_checked_and_shown() -> None:
    for name, value in [("rho", -0.1), ("rho", 1.01), ("rho", float("nan")), ("beta", 1.0)]:
        with pytest.raises(UserError, match=f"{name}=.*expected a number in"):
            em.SEMLinear(4, 3, **{name: value})
    with pytest.raises(UserError, match=r"beta=-0\.5: expected a number in"):
        em.SEMLinear(4, 3, beta=-0.5)
    with pytest.raises(UserError, match="unknown criterion 'l2'"):
        em.SEMLinear(4, 3, criterion="l2")
    with pytest.raises(UserError, match="inference='mean': expected 'dense' or 'expected'"):
        em.SEMLinear(4, 3, inference="mean")
    for wrong in ("inverse", "inverted(0.5)", "inverted(x)"):
        with pytest.raises(UserError, match="scaling must be"):
            em.SEMLinear(4, 3, scaling=wrong)
    text = repr(em.SEMLinear(4, 3, rho=0.3, inference="expected", scaling="inverted(10)"))
    for part in ("in_features=4", "rho=0.3", "beta=0.9", "'rms'", "'expected'", "'inverted(10)'"):
        assert part in text
