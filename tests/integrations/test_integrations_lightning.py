"""The callback for Lightning: in real runs where it is installed, and by a stand-in's hooks."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import edgemask as em
from edgemask.errors import MissingExtraError

PACKAGES = ("lightning", "lightning.pytorch", "pytorch_lightning")
OURS = "edgemask.integrations.lightning"


@pytest.fixture
def no_module(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget the module, which reads what is installed when it is imported."""
    monkeypatch.delitem(sys.modules, OURS, raising=False)
    monkeypatch.delitem(em.integrations.__dict__, "lightning", raising=False)
    yield
    sys.modules.pop(OURS, None)
    em.integrations.__dict__.pop("lightning", None)


class Callback:
    """The hooks that Lightning's own class has, as far as they matter here."""

    def on_train_epoch_start(self, trainer: Any, pl_module: nn.Module) -> None:
        pass


def stand_in(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    for package in PACKAGES:
        monkeypatch.setitem(sys.modules, package, None)
    package = ModuleType(name)
    package.Callback = Callback
    if name == "lightning.pytorch":
        monkeypatch.setitem(sys.modules, "lightning", ModuleType("lightning"))
    monkeypatch.setitem(sys.modules, name, package)


@pytest.mark.usefixtures("no_module")
def test_without_lightning_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for package in PACKAGES:
        monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=r'pip install "edgemask\[lightning\]"'):
        em.integrations.lightning  # noqa: B018


@pytest.mark.usefixtures("no_module")
@pytest.mark.parametrize("name", ["lightning.pytorch", "pytorch_lightning"])
def test_one_head_step_per_optimiser_step(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    stand_in(monkeypatch, name)
    callback = em.integrations.lightning.HeadStepCallback()
    assert isinstance(callback, Callback)
    model = em.attach(nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3)), "sem")
    trainer = SimpleNamespace(global_step=0)
    callback.on_train_start(trainer, model)
    for batch in range(5):  # accumulates two batches; the last one of the epoch is alone
        callback.on_train_batch_start(trainer, model, None, batch)
        model(torch.randn(4, 6)).sum().backward()
        trainer.global_step += batch in (1, 3, 4)
        callback.on_train_batch_end(trainer, model, None, None, batch)
        if batch == 2:  # validation between two micro-batches
            model.eval()(torch.randn(4, 6))
            model.train()
    callback.on_train_epoch_end(trainer, model)
    assert int(model[-1].steps) == 3
    assert model[-1].step_state.blocks == 0
    callback.on_train_batch_start(trainer, model, None, 0)
    model(torch.randn(4, 6))
    callback.on_exception(trainer, model, KeyboardInterrupt())
    assert model[-1].step_state.blocks == 0


@pytest.mark.usefixtures("no_module")
@pytest.mark.parametrize("name", ["lightning.pytorch", "pytorch_lightning"])
def test_a_real_run(name: str) -> None:
    try:
        if find_spec(name) is None:
            pytest.skip(f"{name} is not installed")
    except ModuleNotFoundError:
        pytest.skip(f"{name} is not installed")
    pl = import_module(name)

    class Module(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
            self.net = em.attach(net, "sem")

        def training_step(self, batch: Any, index: int) -> torch.Tensor:
            return F.cross_entropy(self.net(batch[0]), batch[1])

        def validation_step(self, batch: Any, index: int) -> None:
            self.net(batch[0])

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    module = Module()
    data = torch.utils.data.TensorDataset(torch.randn(20, 6), torch.randint(3, (20,)))
    loader = torch.utils.data.DataLoader(data, batch_size=4)
    trainer = pl.Trainer(
        max_epochs=2,
        accumulate_grad_batches=2,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        val_check_interval=1,
        callbacks=[em.integrations.lightning.LightningHeadStepCallback()],
    )
    trainer.fit(module, loader, loader)
    assert trainer.global_step == 6
    assert int(module.net[-1].steps) == 6
    assert module.net[-1].step_state.blocks == 0
