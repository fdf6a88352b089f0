"""Forward and backward correction: formulas in plain loops, matrices from anywhere, learning."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from edgemask import losses
from edgemask.engine import load_run, merge, resolve, train
from edgemask.engine.observer import Observer
from edgemask.errors import UserError
from edgemask.losses.transition import anchor_transition, read_transition
from sweeps import sweep

T = [[0.7, 0.3, 0.0], [0.0, 0.9, 0.1], [0.2, 0.2, 0.6]]


def rows(seed=0, size=6):
    draw = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(size, 3, generator=draw, dtype=torch.float64)
    return logits, torch.randint(3, (size,), generator=draw)


def forward(p, y):
    return -math.log(sum(p[i] * T[i][y] for i in range(3)))


def backward(p, y):
    inverse = np.linalg.inv(np.array(T))
    return sum(inverse[y][k] * -math.log(p[k]) for k in range(3))


@sweep(("name", "formula"), [("forward-correction", forward), ("backward-correction", backward)])
def test_formulas_in_plain_loops(name, formula):
    logits, labels = rows()
    loss = losses.build(name, matrix=T, num_classes=3, reduction="none")
    expected = [
        formula(p, y) for p, y in zip(logits.softmax(1).tolist(), labels.tolist(), strict=True)
    ]
    assert loss(logits, labels).tolist() == pytest.approx(expected, rel=1e-6)
    # A soft target: the mean over its labels.
    soft = torch.tensor([[0.5, 0.2, 0.3]], dtype=torch.float64).expand(6, 3)
    mixed = [
        sum(t * formula(p, y) for y, t in enumerate([0.5, 0.2, 0.3]))
        for p in logits.softmax(1).tolist()
    ]
    assert loss(logits, soft).tolist() == pytest.approx(mixed, rel=1e-6)
    # The gradient, by differences.
    z = logits.clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda z: loss(z, labels), z, atol=1e-5)


def test_both_lead_to_the_clean_prediction():
    # Expectations over the noise: forward has its minimum at the true p, backward equals CE.
    p = torch.tensor([[0.2, 0.5, 0.3]], dtype=torch.float64)
    true = p.clone()
    noisy = true @ torch.tensor(T, dtype=torch.float64)
    backward_loss = losses.BackwardCorrectionLoss(T)
    other = torch.tensor([[0.4, 0.1, 0.5]], dtype=torch.float64)
    clean = -(true * other.log()).sum()
    assert backward_loss(other.log(), noisy).item() == pytest.approx(clean.item(), rel=1e-6)
    z = other.log().requires_grad_()
    loss = losses.ForwardCorrectionLoss(T)
    for _ in range(4000):
        (gradient,) = torch.autograd.grad(loss(z, noisy), z)
        z = (z - 2 * gradient).detach().requires_grad_()
    assert z.softmax(1)[0].tolist() == pytest.approx(p[0].tolist(), abs=1e-3)


@sweep("name", ["forward-correction", "backward-correction"])
def test_without_a_matrix_it_is_cross_entropy_until_one_is_estimated(name):
    logits, labels = rows(size=40)
    loss = losses.build(name, num_classes=3)
    assert loss(logits, labels).item() == pytest.approx(F.cross_entropy(logits, labels).item())
    far = torch.tensor([[2000.0, 0.0, -2000.0]])
    assert loss(far, torch.tensor([2])).item() == 4000
    probabilities = logits.softmax(1)
    loss.estimate(probabilities)
    expected = anchor_transition(probabilities)
    assert torch.allclose(loss.transition.double(), expected, atol=1e-6)
    given = losses.build(name, matrix=expected, num_classes=3)
    assert loss(logits, labels).item() == pytest.approx(given(logits, labels).item(), rel=1e-5)
    # The estimate is part of the state.
    fresh = losses.build(name, num_classes=3)
    fresh.load_state_dict(loss.state_dict())
    assert fresh(logits, labels).item() == loss(logits, labels).item()


def test_a_label_that_no_class_gets_has_a_finite_loss():
    loss = losses.ForwardCorrectionLoss([[1.0, 0.0], [1.0, 0.0]])
    z = torch.zeros(1, 2, requires_grad=True)
    loss(z, torch.tensor([1])).backward()
    assert z.grad.isfinite().all()


def test_anchors_are_the_samples_at_the_quantile():
    # 101 samples whose p_0 is 0.00, 0.01 ... 1.00, in a mixed order.
    first = torch.linspace(0, 1, 101)[torch.randperm(101)]
    probabilities = torch.stack([first, 1 - first], dim=1)
    assert anchor_transition(probabilities, 1.0).tolist() == [[1.0, 0.0], [0.0, 1.0]]
    found = anchor_transition(probabilities, 0.9)
    assert found.tolist() == [pytest.approx([0.9, 0.1]), pytest.approx([0.1, 0.9])]
    assert len(anchor_transition(torch.full((1, 4), 0.25))) == 4


def test_a_matrix_comes_from_numbers_files_and_audits(tmp_path):
    np.save(tmp_path / "t.npy", np.array(T))
    (tmp_path / "t.json").write_text(json.dumps(T))
    (tmp_path / "audit.json").write_text(json.dumps({"schema": 1, "transition_matrix": T}))
    sources = [T, torch.tensor(T), np.array(T), str(tmp_path / "t.npy"), str(tmp_path / "t.json")]
    for source in [*sources, str(tmp_path), str(tmp_path / "audit.json")]:
        found = losses.ForwardCorrectionLoss(source).transition
        assert torch.allclose(found, torch.tensor(T)), source


def test_an_audit_that_was_saved_gives_its_matrix(tmp_path):
    from edgemask.audit import from_probabilities

    draw = np.random.default_rng(0)
    labels = draw.integers(3, size=90)
    probs = draw.dirichlet(np.ones(3), size=90) + 2 * np.eye(3)[labels]
    probs /= probs.sum(axis=1, keepdims=True)
    audit = from_probabilities(labels, probs)
    audit.save(tmp_path / "audit")
    found = losses.ForwardCorrectionLoss(str(tmp_path / "audit")).transition
    assert np.allclose(found.numpy(), audit.transition_matrix, atol=1e-6)


@sweep(
    ("matrix", "message"),
    [
        ([[0.5, 0.5]], r"of shape \(1, 2\): expected one row and one column"),
        ([[0.5, 0.5], [1.0]], "one row and one column for each class"),
        ([[1.5, -0.5], [0.0, 1.0]], "expected probabilities"),
        ([[0.5, 0.4], [0.0, 1.0]], r"row 0 sums to 0\.9, expected 1"),
        ([[0.9, 0.4], [0.1, 0.6]], "transpose it"),
        ("nowhere.npy", "no transition matrix in nowhere"),
        (3, r"matrix=3: transition matrix of shape \(\): expected one row"),
        ({"a": 1}, "expected one row"),
    ],
)
def test_what_is_no_transition_matrix_is_refused(matrix, message):
    with pytest.raises(UserError, match=message):
        losses.ForwardCorrectionLoss(matrix)


def test_what_does_not_fit_is_refused(tmp_path):
    with pytest.raises(UserError, match="give matrix=, or num_classes="):
        losses.ForwardCorrectionLoss()
    with pytest.raises(UserError, match="logits of 4 classes: the transition matrix has 3"):
        losses.ForwardCorrectionLoss(T)(torch.zeros(1, 4), torch.zeros(1, dtype=torch.long))
    with pytest.raises(UserError, match="no inverse"):
        losses.BackwardCorrectionLoss([[0.5, 0.5], [0.5, 0.5]])
    (tmp_path / "audit.json").write_text("{}")
    with pytest.raises(UserError, match="expected one row"):
        read_transition(str(tmp_path))


TINY = {
    "data": {"spec": "digits", "limit": 200, "test_limit": 50},
    "noise": {"spec": "pair:0.3"},
    "model": {"name": "small-cnn", "width": 0.25},
    "loss": {"name": "forward-correction"},
    "train": {"epochs": 3, "batch_size": 50, "record_every": 0},
    "log": {"trackers": [], "thumbnails": 0},
}


def test_a_run_estimates_the_matrix_after_its_warm_up(tmp_path, monkeypatch):
    seen = []
    real = losses.TransitionLoss.estimate

    def estimate(self, probabilities):
        real(self, probabilities)
        seen.append((probabilities.clone(), self.transition.clone()))

    monkeypatch.setattr(losses.TransitionLoss, "estimate", estimate)
    run = train(resolve(TINY, {"loss": {"options": {"warmup": 2}}}), out=tmp_path / "run")
    ((probabilities, matrix),) = seen
    assert probabilities.shape == (200, 10)
    assert torch.allclose(matrix, anchor_transition(probabilities), atol=1e-6)
    assert run.finished
    with pytest.raises(UserError, match=r"warmup=3: .* the run has 3 epochs"):
        train(resolve(TINY, {"loss": {"options": {"warmup": 3}}}), out=tmp_path / "late")


class KilledError(Exception):
    """Stands for SIGKILL: nothing is saved on the way out."""


class KillAt(Observer):
    def __init__(self, epoch):
        self.epoch = epoch

    def on_step(self, *, epoch, step, **_):
        if (epoch, step) == (self.epoch, 3):
            raise KilledError


def test_a_run_killed_after_the_estimate_and_resumed_ends_with_the_same_bits(tmp_path):
    config = resolve(TINY, {"log": {"checkpoint_steps": 1}, "loss": {"options": {"warmup": 1}}})
    whole = train(config, out=tmp_path / "whole")
    for epoch in (0, 1):  # before it, and in the epoch that it begins with
        with pytest.raises(KilledError):
            train(config, out=tmp_path / "broken", observers=[KillAt(epoch)])
    again = train(config, out=tmp_path / "broken")
    for mine, theirs in zip(whole.model.parameters(), again.model.parameters(), strict=True):
        assert torch.equal(mine, theirs)


def test_the_file_of_a_matrix_is_part_of_what_a_run_is(tmp_path):
    matrix = 0.9 * np.eye(10) + 0.01
    path = tmp_path / "audit.json"
    path.write_text(json.dumps({"transition_matrix": matrix.tolist()}))
    config = resolve(TINY, {"loss": {"options": {"matrix": str(tmp_path)}}, "train": {"epochs": 1}})
    first = train(config, out=tmp_path / "run")
    assert load_run(first.path).config.contents["loss.matrix"]
    path.write_text(json.dumps({"transition_matrix": np.eye(10).tolist()}))
    with pytest.raises(UserError, match="fresh"):
        train(config, out=tmp_path / "run")


def accuracies(folder, rate, epochs, **losses_by_key):
    """The last accuracy on digits whose classes go to the next one, the mean of three seeds."""
    settings = {
        "data": {"limit": None, "test_limit": None},
        "noise": {"spec": f"pair:{rate}", "protocol": "paper"},
        "model": {"width": 0.5},
        "optim": {"name": "adam", "lr": 2e-3, "schedule": {"name": "constant"}},
        "train": {"epochs": epochs, "batch_size": 32},
        "eval": {"every": epochs},
    }

    def accuracy(key, seed):
        layer = {"loss": {"options": {}, **losses_by_key[key]}, "train": {"seed": seed}}
        run = train(resolve(merge(TINY, settings, layer)), out=folder / f"{key}{seed}")
        return run.history[-1]["test/accuracy"]

    found = {key: np.mean([accuracy(key, seed) for seed in range(3)]) for key in losses_by_key}
    print(found)
    return found


@pytest.mark.long
def test_a_given_matrix_helps_on_digits_with_asymmetric_noise(tmp_path):
    # Few epochs: backward correction has no lower bound and loses in long runs what it gained.
    flips = {"matrix": (0.7 * np.eye(10) + 0.3 * np.roll(np.eye(10), 1, axis=1)).tolist()}
    found = accuracies(
        tmp_path,
        0.3,
        6,
        ce={"name": "ce"},
        forward={"name": "forward-correction", "options": flips},
        backward={"name": "backward-correction", "options": flips},
    )
    assert min(found["forward"], found["backward"]) > found["ce"] + 0.05, found


@pytest.mark.long
def test_an_estimated_matrix_helps_on_digits_with_asymmetric_noise(tmp_path):
    found = accuracies(
        tmp_path, 0.4, 20, ce={"name": "ce"}, estimated={"name": "forward-correction"}
    )
    assert found["estimated"] > found["ce"] + 0.05, found
