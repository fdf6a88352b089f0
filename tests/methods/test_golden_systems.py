"""ELR+, DISC and CLIPCleaner against values of their released functions."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from edgemask.methods.clipcleaner import class_scores, consistent
from edgemask.methods.disc import divide_samples, moved_thresholds
from edgemask.methods.elr_plus import average_momentum, elr_plus_loss, sigmoid_ramp
from sweeps import sweep


@pytest.fixture(scope="module")
def values(golden):
    return json.loads((golden / "six_systems.json").read_text())


def wave(n, m, a=0.7, b=1.3, c=0.1, s=3.0):
    i, j = np.arange(n)[:, None], np.arange(m)[None]
    return torch.tensor((s * np.sin(a * i + b * j + c * i * j)).astype(np.float32))


@sweep(("classes", "lam", "beta", "ramp"), [(10, 3, 0.7, 0), (100, 7, 0.9, 40_000)])
def test_elr_plus(classes, lam, beta, ramp, values):
    expected = values[f"elr_plus_C{classes}"]
    table, pairs = torch.zeros(12, classes), torch.tensor([2, 0, 1, 5, 3, 4])
    for k in range(3):
        index = (torch.arange(6) + 3 * k) % 12
        teacher = wave(6, classes, 0.5 + 0.1 * k, 0.9).softmax(dim=1)
        table[index] = beta * table[index] + (1 - beta) * teacher
        logits = wave(6, classes, 0.3 + 0.2 * k, 1.1).requires_grad_()
        labels = F.one_hot((index * 7) % classes, classes).float()
        mixed = [0.7 * rows + 0.3 * rows[pairs] for rows in (labels, table[index])]
        weight = lam * sigmoid_ramp(1000 * (k + 1), ramp)
        loss = elr_plus_loss(logits, *mixed, weight=weight, weighted_targets=classes == 100)
        loss.backward()
        assert loss.item() == pytest.approx(expected[f"loss{k}"], abs=1e-6)
        assert logits.grad.abs().sum().item() == pytest.approx(expected[f"gradsum{k}"], abs=1e-6)
    assert table[3].tolist() == pytest.approx(expected["hist_row3"], abs=1e-6)


def test_elr_plus_averages(values):
    for rule, key in (("ramp", "cifar"), ("mean", "other")):
        for step, expected in values["elr_plus_ema"][key].items():
            found = average_momentum(int(step), momentum=0.997, ramp=40_000, rule=rule)
            assert found == pytest.approx(expected, abs=1e-12)


def test_disc(values):
    i = torch.arange(40)
    weak = wave(40, 5, 0.9, 1.7, 0.13).softmax(dim=1)
    strong = wave(40, 5, 0.9, 1.7, 0.16, 2.0).softmax(dim=1)
    tau_weak, tau_strong = 0.4 + 0.01 * i / 40, torch.full((40,), 0.35)
    labels = (3 * i) % 5
    found = divide_samples(weak, strong, labels, tau_weak, tau_strong, sigma=0.3)
    for flags, key in zip(found, ("clean", "hard", "correction"), strict=False):
        assert flags.nonzero().flatten().tolist() == values["disc"][f"{key}_flags"], key
    # The rest of the rule, sample by sample.
    moved = moved_thresholds(tau_weak, weak, 0.9)
    for n in range(40):
        both = [(a + b) / 2 for a, b in zip(weak[n].tolist(), strong[n].tolist(), strict=True)]
        best = both.index(max(both)) if found.corrected[n] else int(labels[n])
        assert int(found.labels[n]) == best
        assert moved[n].item() == pytest.approx(0.9 * tau_weak[n] + 0.1 * max(weak[n].tolist()))


def test_clipcleaner(values):
    i = torch.arange(60)
    probabilities = wave(60, 4, 0.9, 1.7, 0.13, 2.0).softmax(dim=1)
    labels = (3 * i + i // 11) % 4
    expected = values["clipcleaner"]
    scores = class_scores(probabilities, labels)
    assert scores[:8].tolist() == pytest.approx(expected["loss_score"], abs=1e-6)
    found = consistent(probabilities, labels, 0.8).nonzero().flatten().tolist()
    assert found == expected["consistent"]
