"""skorch: probabilities that are probabilities."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.datasets import load_iris
from torch import nn

import edgemask as em
from edgemask.errors import UserError

skorch = pytest.importorskip("skorch")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 8), nn.ReLU())
        self.head = em.SEMLinear(8, 3)

    def forward(self, x):
        return self.head(self.layers(x))


def test_probabilities_sum_to_one_for_every_loss_without_a_memory():
    x, y = load_iris(return_X_y=True)
    x, y = x[::10].astype(np.float32), y[::10]
    tried = 0
    for name in em.losses.LOSSES:
        loss = em.losses.build(name, num_classes=3, num_samples=15)
        if getattr(loss, "needs_index", False):
            continue
        net = em.integrations.skorch.LogitsClassifier(
            Net, criterion=loss, max_epochs=1, lr=0.1, train_split=None, verbose=0
        ).fit(x, y)
        found = net.predict_proba(x)
        np.testing.assert_allclose(found.sum(1), 1, atol=1e-5, err_msg=name)
        assert (found >= 0).all()
        logits = net.forward(x)
        np.testing.assert_allclose(found, torch.softmax(logits, 1).numpy(), atol=1e-6)
        tried += 1
    assert tried > 20


def test_skorchs_own_rules_stay_for_other_losses():
    make = em.integrations.skorch.LogitsClassifier
    x, y = load_iris(return_X_y=True)
    x = x[::10].astype(np.float32)
    plain = make(Net, criterion=nn.CrossEntropyLoss, max_epochs=1, train_split=None, verbose=0)
    np.testing.assert_allclose(plain.fit(x, y[::10]).predict_proba(x).sum(1), 1, atol=1e-5)
    own = make(Net, criterion=em.losses.GCELoss, criterion__q=0.5, max_epochs=1, verbose=0,
               train_split=None, predict_nonlinearity=None)  # fmt: skip
    assert not np.allclose(own.fit(x, y[::10]).predict_proba(x).sum(1), 1)
    with pytest.raises(UserError, match="remembers every sample"):
        make(Net, criterion=em.losses.build("elr", num_classes=3, num_samples=15)).initialize()
