"""Things that other packages bring, under names of their own."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import edgemask as em
from edgemask.errors import UserError


class HalfLoss(em.losses.CELoss):
    """Half the cross entropy."""

    def forward(self, logits, target, index=None):
        return 0.5 * super().forward(logits, target, index)


class ScaledLinear(nn.Linear):
    """A linear layer whose outputs are multiplied by a constant."""

    def __init__(self, in_features, out_features, bias=True, *, factor: float = 0.5, **place):
        super().__init__(in_features, out_features, bias, **place)
        self.factor = factor

    def forward(self, input):
        return self.factor * super().forward(input)


def test_a_registered_loss_is_built_by_name():
    em.register("loss", "half_ce", HalfLoss)
    logits, target = torch.randn(4, 3), torch.tensor([0, 1, 2, 0])
    built = em.losses.build("half-ce")
    assert isinstance(built, HalfLoss)
    torch.testing.assert_close(
        built(logits, target), 0.5 * nn.functional.cross_entropy(logits, target)
    )


def test_a_run_finds_registered_things_again(tmp_path):
    em.register("loss", "half-ce", HalfLoss)
    em.register("head", "scaled-linear", ScaledLinear)
    run = em.fit(
        "digits",
        loss="half-ce",
        head="scaled-linear",
        epochs=1,
        settings={"data": {"limit": 64, "test_limit": 32}, "log": {"trackers": []}},
        out=tmp_path / "run",
    )
    assert run.finished
    opened = em.engine.load_run(tmp_path / "run")
    classifier = opened.model.get_submodule(em.heads.find_classifier(opened.model))
    assert isinstance(classifier, ScaledLinear)
    assert classifier.factor == 0.5


def test_what_cannot_be_registered():
    with pytest.raises(UserError, match="unknown kind of entry 'optimizer'"):
        em.register("optimizer", "x", HalfLoss)
    with pytest.raises(UserError, match="must be a class or a function, got 3"):
        em.register("loss", "three", 3)
    with pytest.raises(UserError, match="the loss 'ce' exists already"):
        em.register("loss", "ce", HalfLoss)
