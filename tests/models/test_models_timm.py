"""Models of timm: the adapter against timm itself."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch
from torch import nn

import edgemask  # noqa: F401  (before timm, so that torchvision can be imported)
from edgemask.errors import UserError
from edgemask.models import create
from sweeps import sweep

timm = pytest.importorskip("timm")

# name, input shape, name of the classifier in timm, width of the features
NETWORKS = [
    ("resnet18", (3, 64, 64), "fc", 512),
    ("vit_tiny_patch16_224", (3, 64, 64), "head", 192),
    ("convnext_atto", (3, 64, 64), "head.fc", 320),
    ("mobilenetv3_small_050", (3, 64, 64), "classifier", 1024),
    ("efficientnet_b0", (1, 64, 64), "classifier", 1280),
]


@pytest.fixture(params=NETWORKS, ids=lambda network: network[0])
def network(request):
    return request.param


@pytest.fixture
def model(network):
    name, shape, _, _ = network
    return create(f"timm:{name}", 7, input_shape=shape).eval()


@pytest.fixture
def images(network):
    return torch.randn(2, *network[1])


def test_equals_timm(network, model, images) -> None:
    name, shape, classifier, features = network
    options = {"img_size": 64} if name.startswith("vit") else {}
    reference = timm.create_model(name, num_classes=7, in_chans=shape[0], **options).eval()
    reference.load_state_dict(model.to_native(), strict=True)
    assert model.classifier_name == classifier
    assert model.num_features == model.head.in_features == features
    assert torch.equal(model(images), reference(images))
    assert torch.equal(
        model.embed(images),
        reference.forward_head(reference.forward_features(images), pre_logits=True),
    )


def test_parts(model, images) -> None:
    assert type(model.head) is nn.Linear
    assert torch.equal(model(images), model.head(model.embed(images)))
    assert torch.equal(model.features_from_maps(model.feature_maps(images)), model.encode(images))
    assert model.get_submodule(model.last_block) is not model
    names = [name for name, _ in model.named_parameters()]
    assert [n for n in names if not n.startswith("net.")] == ["head.weight", "head.bias"]


def test_state_dict_copy_and_export(network, model, images) -> None:
    other = create(f"timm:{network[0]}", 7, input_shape=network[1]).eval()
    other.load_state_dict(model.state_dict(), strict=True)
    assert torch.equal(other(images), model(images))
    assert torch.equal(copy.deepcopy(model)(images), model(images))
    program = torch.export.export(model, (images,))
    torch.testing.assert_close(program.module()(images), model(images))


def test_trains_all_over() -> None:
    model = create("timm:resnet18", 7, input_shape=(3, 32, 32), projector={"kind": "linear-bn"})
    assert model.training
    x = torch.randn(4, 3, 32, 32)
    (model(x).square().sum() + model.project(x).sum()).backward()
    assert all(p.grad is not None for p in model.parameters())


@sweep(
    ("name", "classes", "shape", "expected"),
    [
        ("resnet50", 14, (3, 64, 64), 23_536_718),
        ("resnet50", 50, (3, 64, 64), 23_610_482),
        ("inception_resnet_v2", 50, (3, 96, 96), 54_383_314),
    ],
)
def test_published_parameter_counts(name: str, classes: int, shape: tuple, expected: int) -> None:
    model = create(f"timm:{name}", classes, input_shape=shape)
    assert sum(p.numel() for p in model.parameters()) == expected


def test_options_reach_timm() -> None:
    model = create("timm:resnet18", 3, input_shape=(3, 32, 32), drop_rate=0.25)
    assert model.net.drop_rate == 0.25


@pytest.mark.parametrize("layout", ["timm", "edgemask"])
def test_weights_from_a_file(tmp_path: Path, layout: str) -> None:
    source = create("timm:resnet18", 7, input_shape=(3, 32, 32)).eval()
    state = source.to_native() if layout == "timm" else source.state_dict()
    torch.save(state, tmp_path / "weights.pt")
    x = torch.randn(2, 3, 32, 32)
    path = tmp_path / "weights.pt"
    same = create("timm:resnet18", 7, input_shape=(3, 32, 32), pretrained=path).eval()
    assert torch.equal(same(x), source(x))
    fewer = create("timm:resnet18", 2, input_shape=(3, 32, 32), pretrained=path).eval()
    assert torch.equal(fewer.embed(x), source.embed(x))
    assert fewer(x).shape == (2, 2)


def test_weights_that_cannot_be_fetched(tmp_path: Path, monkeypatch) -> None:
    constants = pytest.importorskip("huggingface_hub").constants
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(UserError, match=r"cannot be fetched.*pretrained=False.*pretrained=FILE"):
        create("timm:resnet18", 7, input_shape=(3, 32, 32), pretrained=True)


@sweep(
    ("arguments", "message"),
    [
        ({"name": "timm:resnet5"}, r"timm has no model 'resnet5'; did you mean resnet"),
        ({"width": 0.5}, r"width=0.5 is for EdgeMask's own models"),
        ({"dorp_rate": 0.1}, r"timm:resnet18 does not take the options.*dorp_rate"),
        ({"input_shape": (5,)}, r"takes images"),
        (
            {"name": "timm:inception_resnet_v2", "input_shape": (3, 32, 32)},
            r"cannot take an input of shape \(3, 32, 32\).*resize",
        ),
        ({"name": "timm:deit_tiny_distilled_patch16_224"}, r"no single classifier"),
    ],
)
def test_mistakes(arguments: dict, message: str) -> None:
    with pytest.raises(UserError, match=message):
        create(
            **{
                "name": "timm:resnet18",
                "num_classes": 7,
                "input_shape": (3, 32, 32),
                **arguments,
            }
        )


def test_missing_package(monkeypatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "timm", None)
    with pytest.raises(UserError, match=r"timm.*pip install \"edgemask\[timm\]\""):
        create("timm:resnet18", 7)


def test_neck_of_jo_snc(tmp_path: Path) -> None:
    model = create("timm:resnet18", 7, input_shape=(3, 64, 64), neck="mlp", head="sem")
    assert [type(layer) for layer in model.neck] == [nn.Linear, nn.BatchNorm1d, nn.ReLU]
    assert (model.encoder_features, model.num_features, model.head.in_features) == (512, 1024, 1024)
    assert model(torch.randn(2, 3, 64, 64)).shape == (2, 7)
    with pytest.raises(UserError, match="neck has no place"):
        model.to_native()
    plain = create("timm:resnet18", 7, input_shape=(3, 64, 64))
    torch.save(plain.to_native(), tmp_path / "weights.pt")
    start = create(
        "timm:resnet18", 7, input_shape=(3, 64, 64), neck="mlp", pretrained=tmp_path / "weights.pt"
    )
    assert torch.equal(start.net.conv1.weight, plain.net.conv1.weight)
    with pytest.raises(UserError, match="unknown neck 'wide'"):
        create("timm:resnet18", 7, input_shape=(3, 64, 64), neck="wide")
