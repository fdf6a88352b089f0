"""Class weights, ignored labels and dense logits: against torch and against plain loops."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from edgemask import losses
from edgemask.errors import UserError
from loss_helpers import CLASSES, NAMES, SAMPLES, batch, make
from sweeps import sweep

WEIGHT = [0.5, 2.0, 1.0, 0.0, 3.0]


def dense_batch(ignore: int | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """Logits (2, C, 3, 4) with gradient, labels and positions (2, 3, 4)."""
    draw = torch.Generator().manual_seed(3)
    logits = 3 * torch.randn(2, CLASSES, 3, 4, generator=draw, dtype=torch.float64)
    target = torch.randint(CLASSES, (2, 3, 4), generator=draw)
    if ignore is not None:
        target[torch.rand(2, 3, 4, generator=draw) < 0.4] = ignore
    index = torch.randperm(SAMPLES, generator=draw)[:24].reshape(2, 3, 4)
    return logits.requires_grad_(), target, index


def gradient(value: Tensor, logits: Tensor) -> Tensor:
    return torch.autograd.grad(value.sum(), logits)[0]


@given(
    ignore=st.sampled_from([-100, -1, 0, 3, 255]),
    weighted=st.booleans(),
    reduction=st.sampled_from(["mean", "none"]),
    dense=st.booleans(),
    seed=st.integers(0, 10**6),
)
def test_cross_entropy_is_that_of_torch(
    ignore: int, weighted: bool, reduction: str, dense: bool, seed: int
) -> None:
    draw = torch.Generator().manual_seed(seed)
    shape = (3, CLASSES, 2, 5) if dense else (16, CLASSES)
    logits = 3 * torch.randn(shape, generator=draw, dtype=torch.float64)
    logits.requires_grad_()
    labels = shape[:1] + shape[2:]
    target = torch.randint(1, CLASSES, labels, generator=draw)
    target[torch.rand(labels, generator=draw) < 0.3] = ignore
    target.view(-1)[0] = 1  # torch's mean over ignored labels alone is nan
    weight = torch.tensor(WEIGHT, dtype=torch.float64) if weighted else None
    expected = F.cross_entropy(
        logits, target, weight=weight, ignore_index=ignore, reduction=reduction
    )
    criterion = losses.CELoss(weight=weight, ignore_index=ignore, reduction=reduction)
    value = criterion(logits, target)
    torch.testing.assert_close(value, expected)
    torch.testing.assert_close(gradient(value, logits), gradient(expected, logits))


def softmax(z: list[float]) -> list[float]:
    exps = [math.exp(x - max(z)) for x in z]
    return [x / sum(exps) for x in exps]


def nce(p: list[float], y: int) -> float:
    return math.log(p[y]) / sum(map(math.log, p))


def amse(p: list[float], y: int) -> float:
    return sum((x - 30.0 * (k == y)) ** 2 for k, x in enumerate(p)) / len(p)


def nnce(p: list[float], y: int) -> float:
    terms = [math.log(max(x, 1e-7)) - math.log(1e-7) for x in p]
    return 1 - terms[y] / sum(terms)


LOOPS = {
    "gce": lambda p, y: (1 - p[y] ** 0.7) / 0.7,
    "jal-ce": lambda p, y: nce(p, y) + amse(p, y),
    "anl-ce": lambda p, y: 5 * nce(p, y) + 5 * nnce(p, y),
    "mse": lambda p, y: sum((x - (k == y)) ** 2 for k, x in enumerate(p)) / len(p),
}


@sweep("name", LOOPS)
def test_weights_and_ignored_labels_in_plain_loops(name: str) -> None:
    logits, target, _ = dense_batch(ignore=-100)
    values: list[float] = []
    total = weights = 0.0
    for image in range(2):
        for row in range(3):
            for column in range(4):
                y = int(target[image, row, column])
                if y == -100:
                    values.append(0.0)
                    continue
                p = softmax(logits[image, :, row, column].tolist())
                values.append(WEIGHT[y] * LOOPS[name](p, y))
                total += values[-1]
                weights += WEIGHT[y]
    each = losses.build(name, weight=WEIGHT, reduction="none")(logits, target)
    assert each.shape == target.shape
    assert each.flatten().tolist() == pytest.approx(values, rel=1e-6)
    mean = losses.build(name, weight=WEIGHT)(logits, target)
    assert mean.item() == pytest.approx(total / weights, rel=1e-6)


def pair(name: str, **options: object) -> tuple[losses.Loss, losses.Loss]:
    """Two losses of one kind that start alike."""
    made = []
    for _ in range(2):
        torch.manual_seed(1)
        made.append(make(name, **options))
    return made[0], made[1]


@sweep("name", NAMES)
def test_dense_logits_are_rows(name: str) -> None:
    logits, target, index = dense_batch()
    dense, flat = pair(name, reduction="none")
    value = dense(logits, target, index)
    assert value.shape == target.shape
    rows = logits.movedim(1, -1).reshape(-1, CLASSES)
    expected = flat(rows, target.flatten(), index.flatten())
    torch.testing.assert_close(value.flatten(), expected)
    soft = F.one_hot(target, CLASSES).movedim(-1, 1).double()
    again, _ = pair(name, reduction="none")
    torch.testing.assert_close(again(logits, soft, index), value)


@sweep("weight", [None, WEIGHT])
@sweep("name", NAMES)
def test_ignored_samples_are_as_if_left_out(name: str, weight: list[float] | None) -> None:
    logits, target, index = batch(SAMPLES)
    ignored = torch.arange(SAMPLES) % 3 == 0
    first, second = pair(name, weight=weight, ignore_index=-1)
    value = first(logits, target.masked_fill(ignored, -1), index)
    expected = second(logits[~ignored], target[~ignored], index[~ignored])
    torch.testing.assert_close(value, expected)
    slope = gradient(value, logits)
    torch.testing.assert_close(slope, gradient(expected, logits))
    assert slope[ignored].abs().max() == 0
    for own, other in zip(first.buffers(), second.buffers(), strict=True):
        assert torch.equal(own, other)


@sweep("name", NAMES)
def test_only_ignored_labels_cost_nothing(name: str) -> None:
    logits, target, index = batch(4, dtype=torch.float32)
    value = make(name)(logits, torch.full_like(target, -100), index)
    assert value.item() == 0.0
    assert gradient(value, logits).abs().max() == 0


@sweep("name", NAMES)
def test_equal_weights_change_nothing(name: str) -> None:
    logits, target, index = batch()
    plain, _ = pair(name)
    weighted, _ = pair(name, weight=torch.full((CLASSES,), 2.5))
    torch.testing.assert_close(weighted(logits, target, index), plain(logits, target, index))
    soft = torch.softmax(torch.randn(8, CLASSES, dtype=torch.float64), dim=1)
    plain, _ = pair(name)
    weighted, _ = pair(name, weight=torch.full((CLASSES,), 2.5))
    torch.testing.assert_close(weighted(logits, soft, index), plain(logits, soft, index))


@sweep("name", NAMES)
def test_weights_of_soft_targets_are_those_of_their_labels(name: str) -> None:
    logits, target, index = batch()
    hard, soft = pair(name, weight=WEIGHT)
    expected = hard(logits, target, index)
    torch.testing.assert_close(soft(logits, F.one_hot(target, CLASSES), index), expected)


@sweep("name", NAMES)
def test_no_value_is_read_on_an_accelerator(name: str) -> None:
    """Tensors of the meta device have no values: reading one, which would wait, is an error."""
    logits, target, index = batch(dtype=torch.float32)
    options = {"pruned": True} if name == "truncated-gce" else {}
    criterion = make(name, weight=WEIGHT, **options).to("meta")
    place = [each.detach().to("meta") for each in (logits, target, index)]
    place[0].requires_grad_()
    value = criterion(*place)
    value.backward()
    assert value.device.type == "meta"


def test_weight_moves_and_is_saved_with_the_module() -> None:
    criterion = losses.CELoss(weight=WEIGHT)
    assert criterion.state_dict().keys() == {"class_weight"}
    assert criterion.to("meta").class_weight.device.type == "meta"
    assert not losses.CELoss().state_dict()
    assert "weight=[0.5" in repr(criterion)


def test_mistakes_are_named() -> None:
    logits, target, _ = batch()
    with pytest.raises(UserError, match="expected one number per class, not negative"):
        losses.GCELoss(weight=[1.0, -1.0])
    with pytest.raises(UserError, match="expected one number per class"):
        losses.GCELoss(weight=torch.ones(2, 2))
    with pytest.raises(ValueError, match="weight of 2 classes: logits have 5"):
        losses.CELoss(weight=[1.0, 2.0])(logits, target)
    with pytest.raises(ValueError, match=r"expected integer labels of shape \(2, 3, 4\)"):
        losses.CELoss()(torch.zeros(2, 5, 3, 4), torch.zeros(2, 3, dtype=torch.long))
    with pytest.raises(ValueError, match="label -1 in target"):
        losses.CELoss()(logits, torch.tensor([0, -100, -1, 1, 2, 3, 4, 0]))
    with pytest.raises(UserError, match=r"ignore_index=0\.5: expected a whole number"):
        losses.MAELoss(ignore_index=0.5)
