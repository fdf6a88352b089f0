"""Channels-last memory: chosen for colour pictures, and nothing but rounding changes."""

from __future__ import annotations

import torch

from edgemask.engine import load_run, resolve, train
from edgemask.engine.networks import build_method, build_networks
from edgemask.engine.run_data import Objects
from sweeps import sweep


def _network(shape, **settings):
    config = resolve({"model": {"name": "cnn8", "width": 0.25}, "train": settings})
    method = build_method(config, Objects())
    nets = build_networks(config, method, Objects(), num_classes=10, input_shape=shape)
    return nets[method.networks[0]].eval()


def _is_channels_last(net):
    weight = next(p for p in net.parameters() if p.ndim == 4 and min(p.shape) > 1)
    return weight.is_contiguous(memory_format=torch.channels_last)


@sweep(
    ("shape", "settings", "expected"),
    [
        ((3, 32, 32), {}, True),
        ((1, 32, 32), {}, False),
        ((3, 32, 32), {"channels_last": False}, False),
        ((1, 32, 32), {"channels_last": True}, True),
    ],
)
def test_layout_follows_the_pictures_unless_it_is_asked_for(shape, settings, expected):
    assert _is_channels_last(_network(shape, **settings)) is expected


def test_layouts_answer_alike():
    x = torch.randn(8, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    rows = _network((3, 32, 32), channels_last=False)
    pixels = _network((3, 32, 32), channels_last=True)
    torch.testing.assert_close(pixels(x), rows(x), rtol=1e-4, atol=1e-5)


def test_a_run_saves_and_loads_channels_last_weights(tiny, tmp_path):
    run = train(tiny({"train": {"channels_last": True}}), out=tmp_path / "run")
    other = train(tiny({"train": {"channels_last": False}}), out=tmp_path / "other")
    assert _is_channels_last(load_run(run.path).model)
    for mine, theirs in zip(run.model.parameters(), other.model.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-2, atol=1e-3)
