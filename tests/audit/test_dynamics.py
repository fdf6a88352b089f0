"""Training dynamics against plain loops."""

from __future__ import annotations

import io
from itertools import pairwise

import numpy as np
import pytest
import torch

from edgemask import audit, noise
from edgemask.errors import UserError


def history(samples=60, classes=3, epochs=7, seed=0):
    rng = np.random.default_rng(seed)
    return rng.integers(0, classes, samples), rng.normal(0, 2, (epochs, samples, classes))


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_numbers_against_plain_loops(kind):
    labels, logits = history()
    dynamics = audit.TrainingDynamics(60, 3)
    rng = np.random.default_rng(1)
    for epoch in logits:
        order = rng.permutation(60)
        for batch in np.array_split(order, 4):
            values = batch, epoch[batch], labels[batch]
            if kind == "torch":
                values = tuple(torch.from_numpy(part) for part in values)
            dynamics.update(*values)
    for n in range(60):
        losses, margins, right, own = [], [], [], []
        for epoch in logits:
            z, label = epoch[n], labels[n]
            chance = np.exp(z[label]) / np.exp(z).sum()
            losses.append(-np.log(chance))
            margins.append(z[label] - max(z[k] for k in range(3) if k != label))
            right.append(z.argmax() == label)
            own.append(chance)
        forgotten = sum(a and not b for a, b in pairwise(right))
        close = {"abs": 1e-5}
        assert dynamics.mean_loss[n] == pytest.approx(np.mean(losses), **close)
        assert dynamics.aum[n] == pytest.approx(np.mean(margins), **close)
        assert dynamics.agreement[n] == pytest.approx(np.mean(right), **close)
        assert dynamics.forgetting[n] == forgotten
        assert dynamics.confidence[n] == pytest.approx(np.mean(own), **close)
        assert dynamics.variability[n] == pytest.approx(np.std(own), **close)


def test_a_loop_of_ones_own_finds_wrong_labels(tmp_path):
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 4, 800)
    x = torch.from_numpy(3 * np.eye(4)[truth] + rng.normal(0, 0.7, (800, 4))).float()
    made = noise.make("sym:0.2", truth, 4, seed=0)
    y = torch.from_numpy(made.noisy.copy())
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    dynamics = audit.TrainingDynamics(800, 4)
    for _ in range(10):
        for index in torch.randperm(800).split(100):
            logits = model(x[index])
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(logits, y[index]).backward()
            optimizer.step()
            dynamics.update(index, logits, y[index])
    wrong = made.noisy != made.clean
    found = dynamics.audit(class_names=["a", "b", "c", "d"])
    assert wrong[found.listed].mean() > 0.9
    assert found.listed[wrong].mean() > 0.9
    assert (found.suggested[wrong & found.listed] == truth[wrong & found.listed]).mean() > 0.9
    assert found.rate.kind == "cannot tell"  # the model has learnt from these labels
    assert "never learnt" in set(dynamics.suspects()["reason"])
    picture = dynamics.plot(tmp_path / "map.png")
    assert picture.read_bytes()[:4] == b"\x89PNG"


def test_state_is_restored():
    labels, logits = history()
    whole, first = audit.TrainingDynamics(60, 3), audit.TrainingDynamics(60, 3)
    for epoch in logits:
        whole.update(np.arange(60), epoch, labels)
    for epoch in logits[:3]:
        first.update(np.arange(60), epoch, labels)
    file = io.BytesIO()
    torch.save(first.state_dict(), file)
    file.seek(0)
    second = audit.TrainingDynamics(60, 3)
    second.load_state_dict(torch.load(file, weights_only=True))
    for epoch in logits[3:]:
        second.update(np.arange(60), epoch, labels)
    for name in ("mean_loss", "aum", "agreement", "forgetting", "confidence"):
        np.testing.assert_array_equal(getattr(second, name), getattr(whole, name))
    np.testing.assert_array_equal(second.audit().order, whole.audit().order)
    with pytest.raises(UserError, match="of 60 samples, and these dynamics of 5"):
        audit.TrainingDynamics(5, 3).load_state_dict(first.state_dict())


def test_what_does_not_fit_is_refused():
    labels, logits = history()
    dynamics = audit.TrainingDynamics(60, 3)
    assert np.isnan(dynamics.mean_loss).all()
    for index, values, given, message in (
        ([60], logits[0][:1], labels[:1], "from 0 to 59"),
        ([1, 1], logits[0][:2], labels[:2], "twice"),
        ([1], logits[0][:1, :2], labels[:1], r"logits \(B, 3\)"),
        ([1, 2], logits[0][:2], labels[:1], "as many labels"),
    ):
        with pytest.raises(UserError, match=message):
            dynamics.update(np.array(index), values, given)
    dynamics.update(np.arange(59), logits[0][:59], labels[:59])
    with pytest.raises(UserError, match="sample 59 was never updated"):
        dynamics.audit()
    small = audit.TrainingDynamics(60, 3, probabilities=False)
    small.update(np.arange(60), logits[0], labels)
    with pytest.raises(UserError, match="probabilities=True"):
        small.audit()
    with pytest.raises(UserError, match="at least two classes"):
        audit.TrainingDynamics(60, 1)
