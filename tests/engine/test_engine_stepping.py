"""The loop against loops written out by hand, and the one-mask-a-step rule."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from edgemask._random import seed_everything, stream
from edgemask.data import Loader, load
from edgemask.engine import Objects, merge, resolve, train
from edgemask.engine.run_data import build_run_data
from head_helpers import MASKING
from sweeps import sweep

PLAIN = {
    "data": {"spec": "digits", "limit": 150, "test_limit": 50},
    "noise": {"spec": "sym:0.4"},
    "model": {"name": "object:net"},
    "head": {"name": "linear"},
    "train": {"epochs": 2, "batch_size": 32, "record_every": 0},
    "log": {"trackers": []},
}


def net() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 20), nn.Tanh(), nn.Linear(20, 10))


def trained(tmp_path, *layers, model=net, name="run") -> nn.Module:
    config = resolve(merge(PLAIN, *layers))
    return train(config, out=tmp_path / name, objects=Objects(model=model)).model


def by_hand(config, step) -> nn.Module:
    """The same job as a plain loop: the model, and what each batch does to it."""
    job = build_run_data(config, Objects())
    seed_everything(stream("weights", config.train.seed, 0))
    model = net()
    loader = Loader(
        job.train,
        job.given,
        bundle=job.bundle,
        views=(config.method.options["views"],),
        batch_size=config.train.batch_size,
        seed=stream("order", config.train.seed, 0, 0),
    )
    for epoch in range(config.train.epochs):
        loader.set_epoch(epoch)
        for batch in loader:
            step(model, batch, epoch)
    return model


def assert_same(first: nn.Module, second: nn.Module, **tolerance) -> None:
    for (name, a), b in zip(first.named_parameters(), second.parameters(), strict=True):
        torch.testing.assert_close(a, b, **tolerance, msg=lambda m, name=name: f"{name}: {m}")


def test_the_loop_is_the_textbook_loop(tmp_path):
    layer = {"optim": {"lr": 0.1, "weight_decay": 1e-3, "l1": 1e-4, "clip": 0.5}}
    config = resolve(merge(PLAIN, layer))
    state = {}

    def step(model, batch, epoch):
        optimiser = state.setdefault(
            "sgd", torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, weight_decay=1e-3)
        )
        optimiser.param_groups[0]["lr"] = 0.1 * (1 + math.cos(math.pi * epoch / 2)) / 2
        optimiser.zero_grad()
        loss = F.cross_entropy(model(batch.views[0]), batch.target)
        loss = loss + 1e-4 * sum(p.abs().sum() for p in model.parameters())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimiser.step()

    assert_same(trained(tmp_path, layer), by_hand(config, step), rtol=1e-5, atol=1e-6)


def test_sam_is_the_gradient_uphill(tmp_path):
    layer = {"method": {"options": {"sam": 0.1}}, "optim": {"momentum": 0.0}}
    config = resolve(merge(PLAIN, layer))

    def step(model, batch, epoch):
        def gradients():
            loss = F.cross_entropy(model(batch.views[0]), batch.target)
            return torch.autograd.grad(loss, list(model.parameters()))

        first = gradients()
        norm = torch.sqrt(sum((g**2).sum() for g in first))
        with torch.no_grad():
            for p, g in zip(model.parameters(), first, strict=True):
                p += 0.1 * g / norm
        second = gradients()
        rate = 0.01 * (1 + math.cos(math.pi * epoch / 2)) / 2
        with torch.no_grad():
            for p, g, up in zip(model.parameters(), second, first, strict=True):
                p -= 0.1 * up / norm
                p -= rate * g

    assert_same(trained(tmp_path, layer), by_hand(config, step), rtol=1e-4, atol=1e-5)


def test_micro_batches_add_up(tmp_path):
    whole = trained(tmp_path, name="one")
    parts = trained(tmp_path, {"train": {"accumulate": 5}}, name="five")
    assert_same(whole, parts, rtol=1e-4, atol=1e-6)


def test_label_smoothing_is_torchs(tmp_path):
    layer = {"method": {"options": {"label_smoothing": 0.3}}}
    own = nn.CrossEntropyLoss(label_smoothing=0.3)
    config = resolve(merge(PLAIN))
    run = train(config, out=tmp_path / "torch", objects=Objects(model=net, criterion=own))
    assert_same(trained(tmp_path, layer), run.model, rtol=1e-5, atol=1e-6)


def test_mixup_mixes_inputs_and_losses(tmp_path, monkeypatch):
    from edgemask.methods import supervised

    seen = []
    real = supervised.mix

    def mix(first, second, share):
        seen.append((share, real(first, second, share)))
        torch.testing.assert_close(seen[-1][1], share * first + (1 - share) * second)
        return seen[-1][1]

    monkeypatch.setattr(supervised, "mix", mix)
    trained(tmp_path, {"method": {"options": {"mixup": 0.4}}, "train": {"epochs": 6}})
    shares = torch.tensor([share for share, _ in seen])
    assert len(shares) == 30
    assert ((shares >= 0) & (shares <= 1)).all()
    # Beta(0.4, 0.4) has mean 1/2 and variance 1 / (4 * 1.8) = 0.139.
    assert abs(float(shares.mean()) - 0.5) < 3 * math.sqrt(0.139 / 30)


def test_mixup_refuses_what_cannot_be_mixed():
    from edgemask.errors import UserError
    from edgemask.methods.parts.mixing import mix

    with pytest.raises(UserError, match="floating-point"):
        mix(torch.ones(2, dtype=torch.long), torch.ones(2, dtype=torch.long), 0.5)


@sweep("head", MASKING)
@pytest.mark.parametrize(
    "layer",
    [
        {},
        {"train": {"accumulate": 3}},
        {"method": {"options": {"mixup": 1.0}}},
        {"method": {"options": {"sam": 0.05}}},
    ],
    ids=["plain", "accumulate", "mixup", "sam"],
)
def test_one_mask_a_step(head, layer, tiny, tmp_path):
    run = train(tiny({"head": {"name": head}, "train": {"epochs": 1}}, layer), out=tmp_path / "run")
    assert int(run.model.head.steps) == 7


def test_sam_counts_batch_statistics_once(tiny, tmp_path):
    run = train(
        tiny({"method": {"options": {"sam": 0.05}}, "train": {"epochs": 1}}), out=tmp_path / "run"
    )
    counts = {int(b) for n, b in run.model.named_buffers() if n.endswith("num_batches_tracked")}
    assert counts == {7}


def test_compiled_networks_train(tiny, tmp_path):
    run = train(
        tiny({"train": {"compile": "aot_eager", "epochs": 1}}, {"head": {"name": "linear"}}),
        out=tmp_path / "run",
    )
    assert run.finished
    assert not any("_orig_mod" in name for name in run.model.state_dict())


def test_a_loss_with_a_memory_is_given_the_index(tiny, tmp_path):
    run = train(tiny({"loss": {"name": "elr"}, "train": {"epochs": 1}}), out=tmp_path / "run")
    from edgemask.engine.checkpoint import Checkpoints

    state = Checkpoints(run.path / "checkpoints").load()
    assert (state["criterion"]["ensemble"].sum(1) > 0).all()


def test_micro_batches_are_cut_evenly():
    from edgemask.engine.feeds import split_batch

    digits = load("digits")
    batch = Loader(digits.train, bundle=digits, batch_size=10).batch(0)
    parts = split_batch({"train": batch}, 3)
    assert [len(part["train"].index) for part in parts] == [4, 3, 3]
    assert torch.equal(torch.cat([part["train"].index for part in parts]), batch.index)
    assert (
        len(split_batch({"train": Loader(digits.train, bundle=digits, batch_size=2).batch(0)}, 4))
        == 2
    )
