"""The native path against plain torch: same scores, masks, logits and gradients."""

from __future__ import annotations

import contextlib
import multiprocessing
import pickle
import sys
import threading

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.autograd import forward_ad

import edgemask as em
from edgemask.errors import EdgeMaskWarning, UserError
from edgemask.heads import CRITERIA, native

pytest.importorskip("numba")
POLICIES = ["bernoulli", "hard", "bernoulli_fixed(0.3)", "bernoulli_only", "capped(0.3)"]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Counts native steps, so that no test compares plain torch with itself."""
    made: list[int] = []
    original = native.step

    def counted(*args: object) -> object:
        made.append(1)
        return original(*args)

    monkeypatch.setattr(native, "enabled", True)
    monkeypatch.setattr(native, "step", counted)
    return made


def twins(kind: type, *args: object, **options: object) -> tuple[nn.Module, nn.Module]:
    one, two = (kind(*args, seed=-(2**40) + 5, **options) for _ in range(2))
    two.load_state_dict(one.state_dict())
    return one, two


def train(head: nn.Module, batches: list[torch.Tensor], use_native: bool) -> list[torch.Tensor]:
    seen = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native, "enabled", use_native)
        for x in batches:
            x = x.clone().requires_grad_()
            head.zero_grad()
            logits = head(x)
            logits.square().sum().backward()
            grads = [p.grad.clone() for p in head.parameters()]
            seen += [head.last_mask, head.scores.clone(), logits.detach(), x.grad, *grads]
    return seen


def assert_equal_paths(one: nn.Module, two: nn.Module, batches: list[torch.Tensor]) -> None:
    found = [train(one, batches, use_native=True), train(two, batches, use_native=False)]
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5, equal_nan=True)
    assert int(one.steps) == int(two.steps)


def batches(size: int, features: int, *, broken: bool = True) -> list[torch.Tensor]:
    found = [torch.randn(size, features) for _ in range(4)]
    for x in found:
        x[:, -1] = 0.0  # a dead feature
    if broken:
        found[1][0, 0] = float("nan")
        found[3][size - 1, 0] = float("inf")
    return found


@pytest.mark.parametrize("shape", [(8, 5, 7), (16, 10, 64), (4, 1, 33), (3, 30, 2), (1, 4, 6)])
def test_criteria_and_policies(shape: tuple[int, int, int], calls: list[int]) -> None:
    size, classes, features = shape
    for criterion in CRITERIA:
        for policy in POLICIES:
            heads = twins(em.SEMLinear, features, classes, criterion=criterion, policy=policy)
            assert_equal_paths(*heads, batches(size, features))
    assert len(calls) == len(CRITERIA) * len(POLICIES) * 4


def test_first_batches_that_are_broken_and_equal_scores(calls: list[int]) -> None:
    heads = twins(em.SEMLinear, 6, 4)
    good = batches(5, 6, broken=False)
    assert_equal_paths(*heads, [torch.full((5, 6), float("nan")), torch.zeros(5, 6), *good])
    heads = twins(em.SEMLinear, 6, 4)
    for head in heads:
        nn.init.zeros_(head.weight)
    assert_equal_paths(*heads, good)
    assert heads[0].last_mask.all()
    for x in (torch.zeros(0, 6), torch.randn(6)):
        assert heads[0](x).shape == heads[1](x).shape
    assert calls


def test_options_and_other_heads(calls: list[int]) -> None:
    for options in ({"scaling": "inverted(4)"}, {"beta": 0.0}, {"beta": 0.3}, {"bias": False}):
        assert_equal_paths(*twins(em.SEMLinear, 33, 12, **options), batches(8, 33))
    for criterion in ("rms", "second_moment"):
        for options in ({}, {"grid_size": 3, "spline_order": 2}, {"normalise": "layer"}):
            heads = twins(em.SKANLinear, 33, 12, criterion=criterion, **options)
            assert_equal_paths(*heads, batches(8, 33))
    before = len(calls)
    for policy in ("topk(0.5)", "shuffled"):  # which see all edges: always plain torch
        assert_equal_paths(*twins(em.SEMLinear, 33, 12, policy=policy), batches(8, 33))
    assert before == 4 * 4 + 2 * 3 * 4
    assert len(calls) == before


def test_large_heads_on_several_threads(calls: list[int]) -> None:
    threads = torch.get_num_threads()
    heads = twins(em.SEMLinear, 515, 301)
    try:
        torch.set_num_threads(3)
        assert len(native._parts(301, 515)) == 3
        assert_equal_paths(*heads, batches(8, 515))
        assert_equal_paths(*twins(em.SKANLinear, 515, 301), batches(64, 515, broken=False))
    finally:
        torch.set_num_threads(threads)
    assert calls


def test_second_derivatives_and_several_passes(calls: list[int]) -> None:
    results = []
    for use_native in (True, False):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(native, "enabled", use_native)
            torch.manual_seed(3)
            head = em.SEMLinear(12, 5, seed=2)
            x = torch.randn(6, 12, requires_grad=True)
            leaves = [x, head.weight, head.bias]
            with em.one_step(head):
                logits = head(x) + head(x.flip(0))
            first = torch.autograd.grad(logits.sin().sum(), leaves, create_graph=True)
            second = torch.autograd.grad(sum(g.square().sum() for g in first), leaves)
            results.append((logits, *first, *second))
    for one, two in zip(*results, strict=True):
        torch.testing.assert_close(one, two)
    assert len(calls) == 1


def batched_gradients(head: nn.Module, x: torch.Tensor) -> list[torch.Tensor]:
    logits = head(x)
    rows = torch.eye(logits.numel()).view(-1, *logits.shape)[:5]
    return list(torch.autograd.grad(logits, [head.weight, x], rows, is_grads_batched=True))


def forward_mode(head: nn.Module, x: torch.Tensor) -> list[torch.Tensor]:
    with forward_ad.dual_level():
        logits = head(forward_ad.make_dual(x, torch.ones_like(x)))
        return [forward_ad.unpack_dual(logits).tangent]


def tensors_saved_in_another_layout(head: nn.Module, x: torch.Tensor) -> list[torch.Tensor]:
    with torch.autograd.graph.saved_tensors_hooks(
        lambda t: t.detach().clone(), lambda t: t.t().contiguous().t()
    ):
        logits = head(x)
    return list(torch.autograd.grad(logits.sum(), [head.weight, x]))


def two_backward_passes(head: nn.Module, x: torch.Tensor) -> list[torch.Tensor]:
    logits = head(x)
    with torch.no_grad():
        head.weight.add_(1.0)  # an optimiser that moves on: the pass has its own kept weights
    logits.sum().backward(retain_graph=True)
    logits.sum().backward()
    return [head.weight.grad, head.bias.grad, x.grad]


def weights_in_another_layout(head: nn.Module, x: torch.Tensor) -> list[torch.Tensor]:
    head.weight = nn.Parameter(head.weight.detach().t().contiguous().t())
    logits = head(x.t().contiguous().t())
    return [logits, *torch.autograd.grad(logits.sum(), [head.weight, x])]


def counters_of_another_type(head: nn.Module, x: torch.Tensor) -> list[torch.Tensor]:
    head.steps = torch.zeros((), dtype=torch.int32)
    return [head(x), head.steps, head.scores]


def more_dimensions(head: nn.Module, x: torch.Tensor) -> list[torch.Tensor]:
    logits = head(x.view(2, 1, -1, x.shape[1]))
    return [logits, *torch.autograd.grad(logits.sin().sum(), [head.weight, head.bias, x])]


def other_defaults(head: nn.Module, x: torch.Tensor) -> list[torch.Tensor]:
    torch.set_default_dtype(torch.float64)
    try:
        logits = head(x)
        with torch.device("meta") if native.enabled else contextlib.nullcontext():
            again = head(x)
    finally:
        torch.set_default_dtype(torch.float32)
    return [logits, again, *torch.autograd.grad(again.sum(), [head.weight, x])]


def test_uses_of_autograd(calls: list[int]) -> None:
    uses = [batched_gradients, forward_mode, tensors_saved_in_another_layout, two_backward_passes]
    uses += [weights_in_another_layout, counters_of_another_type, more_dimensions, other_defaults]
    for use in uses:
        found = []
        for use_native in (True, False):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(native, "enabled", use_native)
                torch.manual_seed(3)
                head, x = em.SEMLinear(20, 7, seed=2), torch.randn(6, 20, requires_grad=True)
                found.append(use(head, x))
        for one, two in zip(*found, strict=True):
            torch.testing.assert_close(one, two)
    # forward mode and the wrong type are left to plain torch; the last use makes two steps
    assert len(calls) == len(uses) - 2 + 1


def test_parameters_that_do_not_fit_are_errors_as_in_plain_torch(calls: list[int]) -> None:
    x = torch.randn(6, 20)
    head = em.SEMLinear(20, 7)
    head.weight = nn.Parameter(torch.randn(9, 20))
    with pytest.raises(RuntimeError, match="size of tensor"):
        head(x)
    head.weight, head.scores = nn.Parameter(torch.randn(7, 30)), torch.zeros(7, 30)
    with pytest.raises((RuntimeError, UserError), match="shape"):
        head(x)
    head = em.SEMLinear(20, 7)
    with em.one_step(head):
        head(x)
        head.weight = nn.Parameter(torch.randn(9, 20))
        with pytest.raises(RuntimeError, match="size of tensor"):
            head(x)
    skan = em.SKANLinear(20, 7)
    skan.spline_scaler = nn.Parameter(torch.randn(7, 2))
    with pytest.raises((RuntimeError, ValueError)):
        skan(x)
    assert len(calls) == 1


def test_several_passes_of_a_large_head(calls: list[int]) -> None:
    head = em.SEMLinear(515, 301, seed=2)
    x = torch.randn(6, 515)
    with em.one_step(head):
        head(x)
        kept = head.weight.detach() * head.last_mask
        second = head(x)
    torch.testing.assert_close(second, F.linear(x, kept, head.bias))
    assert len(calls) == 1


def test_weights_that_are_not_finite_reach_the_logits_as_in_plain_torch(calls: list[int]) -> None:
    heads = twins(em.SEMLinear, 12, 5, policy="hard", rho=0.99)
    good = batches(6, 12, broken=False)
    assert_equal_paths(*heads, good)
    for head in heads:
        with torch.no_grad():
            head.weight[2, 3] = float("nan")
    assert_equal_paths(*heads, good)
    assert calls


def test_logged_masks_and_saved_tensors_are_never_overwritten(calls: list[int]) -> None:
    head = em.SEMLinear(600, 300, seed=1)
    log, copies = [], []
    for _ in range(10):
        head(torch.randn(8, 600))
        log.append(head.last_mask.detach().numpy())
        copies.append(log[-1].copy())
    assert all((one == two).all() for one, two in zip(log, copies, strict=True))
    assert len({mask.tobytes() for mask in log}) == 10
    x, y = torch.randn(8, 600), torch.randn(8, 600)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t.detach(), lambda t: t):
        first = head(x)
        mask = head.last_mask
        head(y), head(y)
    (gradient,) = torch.autograd.grad(first.sum(), head.weight)
    torch.testing.assert_close(gradient, mask * x.sum(0))
    assert calls


def test_two_python_threads_at_once(calls: list[int]) -> None:
    expected = [train(twins_at(i), batches_at(i), use_native=True) for i in range(2)]
    found: dict[int, list[torch.Tensor]] = {}
    heads, data = [twins_at(i) for i in range(2)], [batches_at(i) for i in range(2)]

    def work(i: int) -> None:
        found[i] = [heads[i](x).detach() for x in data[i]]

    workers = [threading.Thread(target=work, args=(i,)) for i in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for i in range(2):
        logits = expected[i][2 :: len(expected[i]) // 20]
        for one, two in zip(found[i], logits, strict=True):
            assert torch.equal(one, two)
    assert len(calls) == 80


def twins_at(i: int) -> nn.Module:
    torch.manual_seed(i)
    return em.SEMLinear(300, 450, seed=i)


def batches_at(i: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(i)
    return [torch.randn(4, 300, generator=generator) for _ in range(20)]


def _in_child(queue: multiprocessing.Queue) -> None:
    head = twins_at(1)
    queue.put([float(head(x).detach().sum()) for x in batches_at(1)[:3]])


def test_a_forked_process_draws_the_same(calls: list[int]) -> None:
    head = twins_at(1)
    expected = [float(head(x).detach().sum()) for x in batches_at(1)[:3]]
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_in_child, args=(queue,))
    child.start()
    assert queue.get(timeout=120) == expected
    child.join()
    assert calls


def test_without_numba_one_notice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "edgemask.heads.kernels", None)
    monkeypatch.delattr(em.heads, "kernels", raising=False)
    monkeypatch.setattr(native, "enabled", True)
    native._kernels.cache_clear()
    try:
        head = em.SEMLinear(6, 4)
        with pytest.warns(EdgeMaskWarning, match=r"pip install 'edgemask\[fast\]'") as seen:
            head(torch.randn(5, 6)).sum().backward()
        assert len(seen) == 1
        head(torch.randn(5, 6)).sum().backward()  # a second notice would be an error here
        assert int(head.steps) == 2
    finally:
        native._kernels.cache_clear()


@pytest.mark.parametrize("error", [RuntimeError, OSError, pickle.UnpicklingError])
def test_the_folder_of_compiled_code_may_be_missing_full_or_damaged(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    from edgemask.heads import kernels

    real, asked = kernels.numba.cfunc, []

    def cfunc(signature: object, *, cache: bool = False, **options: object) -> object:
        asked.append(cache)
        if cache:
            raise error("cannot cache function: no locator available")
        return real(signature, **options)

    monkeypatch.setattr(kernels.numba, "cfunc", cfunc)
    compile_ = kernels.compiled(kernels._SIZE, kernels._SIZE)(lambda a, b: a + b)
    assert compile_()(2, 3) == 5
    assert asked == [True, False]


def test_steps_and_seeds_of_64_bits(calls: list[int]) -> None:
    heads = twins(em.SEMLinear, 33, 12)  # under a seed that needs them
    for head in heads:
        head.steps.fill_(2**33 + 7)
        head.scores.uniform_(generator=torch.Generator().manual_seed(0))
    assert_equal_paths(*heads, batches(8, 33))
    assert int(heads[0].steps) == 2**33 + 9  # two of the four batches are broken
    assert calls


def test_frozen_weights_and_plain_gradients(calls: list[int]) -> None:
    head = em.SEMLinear(12, 5, seed=2)
    head.weight.requires_grad_(requires_grad=False)
    x = torch.randn(6, 12, requires_grad=True)
    head(x).sum().backward()
    torch.testing.assert_close(x.grad, (head.weight * head.last_mask).sum(0).expand(6, 12))
    assert head.weight.grad is None
    expected = F.linear(x, head.weight * head.last_mask, head.bias)
    with em.one_step(head):
        head(x)
        mask = head.last_mask
        torch.testing.assert_close(head(x), F.linear(x, head.weight * mask, head.bias))
    assert expected.shape == (6, 5)
    assert len(calls) == 2
