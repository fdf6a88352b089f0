"""What holds for every loss."""

from __future__ import annotations

import copy
import io
import math
import pickle

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

from edgemask import losses
from loss_helpers import CLASSES, FOCAL, NAMES, SAMPLES, batch, make
from sweeps import sweep

EXTREMES = {
    "all low": torch.full((1, CLASSES), -1e4),
    "all high": torch.full((1, CLASSES), 1e4),
    "zero": torch.zeros(1, CLASSES),
    "label far ahead": 1e4 * F.one_hot(torch.tensor([0]), CLASSES).float(),
    "label far behind": -1e4 * F.one_hot(torch.tensor([0]), CLASSES).float(),
    "other far ahead": 1e4 * F.one_hot(torch.tensor([1]), CLASSES).float(),
    "apart": 1e4 * torch.tensor([[-1.0, 1.0, -1.0, 1.0, 0.0]]),
    "low and apart": torch.tensor([[-1e4, -9990.0, -9995.0, -9000.0, -1e4]]),
}


@sweep("name", NAMES)
def test_mean_is_mean_of_none(name: str) -> None:
    logits, target, index = batch()
    torch.manual_seed(1)
    each = make(name, reduction="none")
    torch.manual_seed(1)
    mean = make(name)
    values = each(logits, target, index)
    assert values.shape == (8,)
    torch.testing.assert_close(mean(logits, target, index), values.mean(), rtol=1e-12, atol=0)


@sweep("name", NAMES)
def test_soft_equals_hard_on_one_hot(name: str) -> None:
    logits, target, index = batch()
    soft = F.one_hot(target, CLASSES).float()
    torch.manual_seed(1)
    first = make(name, reduction="none")
    torch.manual_seed(1)
    second = make(name, reduction="none")
    hard_values, soft_values = first(logits, target, index), second(logits, soft, index)
    torch.testing.assert_close(soft_values, hard_values, rtol=1e-12, atol=1e-13)
    (hard_grad,) = torch.autograd.grad(hard_values.sum(), logits)
    (soft_grad,) = torch.autograd.grad(soft_values.sum(), logits)
    torch.testing.assert_close(soft_grad, hard_grad, rtol=1e-10, atol=1e-13)


PER_LABEL = [
    "ce",
    "focal",
    "mae",
    "gce",
    "nce",
    "nfl",
    "ngce",
    "nnce",
    "nnfl",
    "agce",
    "aul",
    "ael",
]


@sweep("name", PER_LABEL)
def test_soft_target_is_mean_over_labels(name: str) -> None:
    logits, first, _ = batch()
    second = (first + 1) % CLASSES
    mixed = 0.3 * F.one_hot(first, CLASSES) + 0.7 * F.one_hot(second, CLASSES)
    criterion = make(name, reduction="none")
    expected = 0.3 * criterion(logits, first) + 0.7 * criterion(logits, second)
    torch.testing.assert_close(criterion(logits, mixed.double()), expected)


@sweep("name", [name for name in NAMES if name not in [*FOCAL, "elr", "sop"]])
def test_gradient_in_float64(name: str) -> None:
    logits, target, _ = batch(4, scale=1.5)
    soft = torch.softmax(torch.randn(4, CLASSES, dtype=torch.float64), dim=1)
    criterion = make(name, reduction="none")
    index = torch.arange(4)
    assert torch.autograd.gradcheck(lambda z: criterion(z, target, index), logits)
    assert torch.autograd.gradcheck(lambda z: criterion(z, soft, index), logits)


@sweep("precision", ["float32", "bfloat16", "float16"])
@sweep("autocast", [False, True])
@sweep("name", NAMES)
def test_finite_at_extremes(name: str, precision: str, autocast: bool) -> None:
    criterion = make(name)
    dtype = getattr(torch, precision)
    narrow = torch.bfloat16 if precision == "float32" else dtype
    for case, values in EXTREMES.items():
        for label in range(CLASSES):
            logits = values.to(dtype).clone().requires_grad_()
            target = torch.tensor([label])
            with torch.autocast("cpu", narrow, enabled=autocast):
                value = criterion(logits, target, torch.tensor([label]))
            value.backward()
            assert value.dtype == torch.float32, (case, label)
            assert value.isfinite(), (case, label)
            assert logits.grad is not None
            assert logits.grad.isfinite().all(), (case, label)


@sweep("name", NAMES)
def test_float32_agrees_with_float64(name: str) -> None:
    logits, target, index = batch(scale=4.0)
    torch.manual_seed(1)
    wide = make(name)(logits, target, index)
    torch.manual_seed(1)
    narrow = make(name)(logits.float(), target, index)
    assert narrow.item() == pytest.approx(wide.item(), rel=1e-5)


@sweep("name", [name for name in NAMES if losses.LOSSES[name].symmetric])
@given(data=st.data())
def test_symmetric_losses_are_symmetric(name: str, data: st.DataObject) -> None:
    numbers = st.floats(-10, 10, allow_nan=False, width=32)
    row = data.draw(st.lists(numbers, min_size=2, max_size=12))
    classes = len(row)
    criterion = losses.build(name, reduction="none")
    logits = torch.tensor(row, dtype=torch.float64).expand(classes, classes)
    flat = torch.zeros(classes, classes, dtype=torch.float64)
    labels = torch.arange(classes)
    total, constant = criterion(logits, labels).sum(), criterion(flat, labels).sum()
    assert total.item() == pytest.approx(constant.item(), rel=1e-5)


@sweep("name", [name for name in NAMES if not losses.LOSSES[name].symmetric])
def test_other_losses_are_not_symmetric(name: str) -> None:
    criterion = make(name, reduction="none")
    labels = index = torch.arange(CLASSES)
    sure = torch.tensor([4.0, 0, 1, 0, 0], dtype=torch.float64).expand(CLASSES, CLASSES)
    total = criterion(sure, labels, index).sum()
    constant = criterion(torch.zeros_like(sure), labels, index).sum()
    assert total.item() != pytest.approx(constant.item(), rel=1e-4)


@sweep("name", NAMES)
def test_bounded_losses_are_bounded(name: str) -> None:
    criterion = make(name).eval()
    wrong = torch.tensor([[-1.0, 1.0, 0.0, 0.0, 0.0]])
    target = index = torch.tensor([0])
    near, far = (criterion(size * wrong, target, index).item() for size in (100.0, 1e4))
    if losses.LOSSES[name].bounded:
        assert far < 1.1 * near
    else:
        assert far > 20 * near


@sweep("name", NAMES)
def test_right_prediction_costs_less_than_wrong_one(name: str) -> None:
    criterion = make(name).eval()
    logits = 5.0 * F.one_hot(torch.tensor([2, 2]), CLASSES).double()
    values = [criterion(logits, torch.tensor([y, y]), torch.tensor([0, 1])).item() for y in (2, 3)]
    assert values[0] < values[1]


@sweep("name", NAMES)
def test_empty_batch_costs_nothing(name: str) -> None:
    logits = torch.zeros(0, CLASSES, requires_grad=True)
    empty = torch.zeros(0, dtype=torch.long)
    value = make(name)(logits, empty, empty)
    value.backward()
    assert value.item() == 0.0


@sweep("name", NAMES)
def test_survives_copies_pickles_and_checkpoints(name: str) -> None:
    logits, target, index = batch()
    criterion = make(name)
    criterion(logits, target, index)
    twins = [copy.deepcopy(criterion), pickle.loads(pickle.dumps(criterion))]
    buffer = io.BytesIO()
    torch.save(criterion.state_dict(), buffer)
    buffer.seek(0)
    fresh = make(name)
    fresh.load_state_dict(torch.load(buffer, weights_only=True))
    expected = criterion(logits, target, index)
    for twin in [*twins, fresh]:
        assert torch.equal(twin(logits, target, index), expected)


@sweep("name", ["ce", "nfl+rce", "jal-ce", "anl-ce-er", "ldr", "ce+lc", "sop"])
@sweep("weight", [None, [1.0, 2.0, 3.0, 4.0, 5.0]])
def test_compiles_into_one_graph(name: str, weight: list[float] | None) -> None:
    logits, target, index = batch(dtype=torch.float32)
    target[0] = -100
    criterion = make(name, weight=weight)
    torch._dynamo.reset()  # all losses share the code of forward, and few versions of it are kept
    compiled = torch.compile(criterion, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(logits, target, index), criterion(logits, target, index))


@sweep("name", NAMES)
def test_facts_are_stated(name: str) -> None:
    entry = losses.LOSSES[name]
    assert entry.equation
    assert entry.reference
    assert entry.__doc__
    assert "reduction='mean'" in repr(make(name))


def test_ldr_where_all_logits_underflow_is_the_limit() -> None:
    limit = 10 * (math.log(4 * math.exp(0.01) + 1) - math.log(5))
    low = torch.full((1, 5), -1e4, requires_grad=True)
    value = losses.LDRLoss()(low, torch.tensor([1]))
    assert value.item() == pytest.approx(limit, rel=1e-5)
    # softplus(z) → e^z, so the scores become K·softmax(z), however low the logits are.
    z = torch.tensor([[0.3, -1.0, 2.0]], dtype=torch.float64)
    near, far = (losses.LDRLoss()(z - shift, torch.tensor([0])) for shift in (60.0, 1e4))
    s = 3 * torch.softmax(z, dim=1)[0]
    gaps = torch.tensor([0.0, 0.1, 0.1], dtype=torch.float64) + s - s[0]
    expected = 10 * (torch.logsumexp(gaps / 10, 0) - math.log(3))
    assert near.item() == pytest.approx(expected.item(), rel=1e-12)
    assert far.item() == pytest.approx(expected.item(), rel=1e-9)


def test_mistakes_are_named() -> None:
    criterion = losses.CELoss()
    logits = torch.zeros(3, 4)
    with pytest.raises(ValueError, match="label 4 in target: expected 0 to 3"):
        criterion(logits, torch.tensor([0, 1, 4]))
    with pytest.raises(ValueError, match="label -1"):
        criterion(logits, torch.tensor([0, -1, 2]))
    with pytest.raises(
        ValueError, match=r"int64 and shape \(2,\): expected integer labels of shape \(3,\)"
    ):
        criterion(logits, torch.tensor([0, 1]))
    with pytest.raises(
        ValueError, match=r"float32 and shape \(3,\).*soft targets of shape \(3, 4\)"
    ):
        criterion(logits, torch.zeros(3))
    with pytest.raises(TypeError, match="bool"):
        criterion(logits, torch.zeros(3, dtype=torch.bool))
    with pytest.raises(ValueError, match="at least 2 classes"):
        criterion(torch.zeros(3, 1), torch.zeros(3, dtype=torch.long))
    with pytest.raises(TypeError, match="logits of dtype"):
        criterion(torch.zeros(3, 4, dtype=torch.long), torch.tensor([0, 1, 2]))


def test_torch_agrees_on_cross_entropy_and_label_smoothing() -> None:
    logits, target, _ = batch(SAMPLES)
    soft = torch.softmax(torch.randn(SAMPLES, CLASSES, dtype=torch.float64), dim=1)
    for labels in (target, soft):
        torch.testing.assert_close(losses.CELoss()(logits, labels), F.cross_entropy(logits, labels))
        smooth = losses.LabelSmoothingLoss(0.2)(logits, labels)
        torch.testing.assert_close(smooth, F.cross_entropy(logits, labels, label_smoothing=0.2))
    for same in (target.to(torch.int32), F.one_hot(target, CLASSES)):
        torch.testing.assert_close(losses.CELoss()(logits, same), F.cross_entropy(logits, target))


@given(rate=st.floats(-8, 1))
def test_label_smoothing_of_any_rate_is_cross_entropy_with_that_target(rate: float) -> None:
    logits, target, _ = batch()
    smooth = (1 - rate) * F.one_hot(target, CLASSES).double() + rate / CLASSES
    expected = -(smooth * F.log_softmax(logits, dim=1)).sum(dim=1).mean()
    torch.testing.assert_close(losses.LabelSmoothingLoss(rate)(logits, target), expected)
