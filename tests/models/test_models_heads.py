"""Every head on own and foreign models, by name."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import edgemask as em
from edgemask.errors import UserError
from edgemask.heads import HEADS
from edgemask.models import Backbone, create
from sweeps import sweep

PROJECTED = {"width": 0.25, "projector": {"kind": "mlp"}}


def build(name: str, head: str | type[nn.Module], **options: object) -> Backbone:
    torch.manual_seed(3)
    return create(name, 5, head=head, **options)


@sweep("head", HEADS)
@sweep(("name", "options"), [("cnn8", {"width": 0.25}), ("cnn7-mlp", PROJECTED)])
def test_every_head(name: str, options: dict, head: str) -> None:
    plain, model = build(name, "linear", **options), build(name, head, **options)
    assert type(model.head) is HEADS[head]
    # Whatever the head, everything else starts from the same weights.
    for key, value in plain.state_dict().items():
        if not key.startswith("head."):
            assert torch.equal(value, model.state_dict()[key]), key
    x = torch.randn(6, 3, 32, 32)
    logits = model(x)
    assert logits.shape == (6, 5)
    logits.square().sum().backward()
    assert all(p.grad is not None for p in model.head.parameters())
    plain.eval(), model.eval()
    model.load_state_dict({**model.state_dict(), **trunk(plain)})
    if isinstance(model.head, nn.Linear):
        scale = getattr(model.head, "scale", getattr(model.head, "factor", 1.0))
        torch.testing.assert_close(model(x), scale * plain(x))
    else:
        assert torch.equal(model(x), model.head(model.embed(x)))


def trunk(model: nn.Module) -> dict[str, torch.Tensor]:
    return {k: v for k, v in model.state_dict().items() if not k.startswith("head.")}


def test_options_reach_the_head() -> None:
    assert build("cnn8", "sem", width=0.25, head_options={"rho": 0.3}).head.rho == 0.3
    with pytest.raises(UserError, match="roh"):
        build("cnn8", "sem", width=0.25, head_options={"roh": 0.3})
    with pytest.raises(UserError, match="unknown head 'smm'"):
        build("cnn8", "smm", width=0.25)


def test_head_by_class() -> None:
    assert type(build("cnn8", em.SEMLinear, width=0.25).head) is em.SEMLinear


@sweep("name", ["cnn8", "cnn7-mlp", "preact-resnet18"])
def test_attach_finds_the_head_beside_a_projector(name: str) -> None:
    model = build(name, "linear", **PROJECTED)
    others = [m for m in model.modules() if isinstance(m, nn.Linear) and m is not model.head]
    em.attach(model, "sem")
    assert type(model.head) is em.SEMLinear
    assert all(type(layer) is nn.Linear for layer in others)
    em.detach(model)
    assert type(model.head) is nn.Linear


def test_timm() -> None:
    timm = pytest.importorskip("timm")
    model = build("timm:resnet18", "sem", input_shape=(3, 32, 32))
    assert type(model.head) is em.SEMLinear
    plain = timm.create_model("resnet18", num_classes=5)
    plain.load_state_dict(model.to_native(), strict=True)
    assert type(em.detach(model).head) is nn.Linear
    em.attach(model, "kan")
    with pytest.raises(UserError, match="KANLinear head has no place"):
        model.to_native()


def test_transformers(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    transformers.GPT2Config(
        vocab_size=50, n_embd=32, n_layer=1, n_head=2, n_positions=8, eos_token_id=49
    ).save_pretrained(tmp_path)
    model = build(f"hf:{tmp_path}", "sem")
    assert type(model.head) is em.SEMLinear
    assert model.head.bias is None
    model(torch.randint(0, 48, (4, 6))).sum().backward()
    em.detach(model)
    em.attach(model, "sem")
    assert type(model.head) is em.SEMLinear
