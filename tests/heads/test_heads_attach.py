"""attach and detach on models of every kind."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

import edgemask as em
from edgemask.errors import UserError
from edgemask.heads import HEADS, find_classifier


class Net(nn.Module):
    """A model whose classifier has an unusual name."""

    def __init__(self, name: str = "out", inner: int = 2):
        super().__init__()
        self.body = nn.Sequential(*[nn.Linear(6, 6) for _ in range(inner)])
        self.add_module(name, nn.Linear(6, 3))
        self.name = name

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return getattr(self, self.name)(self.body(x))


USUAL = ["head", "fc", "classifier", "linear", "last_linear", "score", "fc2", "heads"]


@pytest.mark.parametrize("name", USUAL)
def test_usual_names(name: str) -> None:
    model = em.attach(Net(name), "sem", rho=0.3)
    assert type(getattr(model, name)) is em.SEMLinear
    assert getattr(model, name).rho == 0.3
    assert all(type(layer) is nn.Linear for layer in model.body)


def test_sequential_and_nested_names() -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(6, 6), nn.Sequential(nn.ReLU(), nn.Linear(6, 3)))
    assert find_classifier(model) == "2.1"
    em.attach(model)
    assert type(model[2][1]) is em.SEMLinear
    assert type(model[1]) is nn.Linear
    only = nn.ModuleDict({"a": nn.ReLU(), "b": nn.ModuleList([nn.Linear(3, 2)])})
    assert find_classifier(only) == "b.0"
    em.attach(only)
    assert type(only["b"][0]) is em.SEMLinear


def test_dotted_name() -> None:
    model = em.attach(Net(), "sem", at="body.0")
    assert type(model.body[0]) is em.SEMLinear
    assert type(model.out) is nn.Linear


def test_a_bare_layer_becomes_the_head() -> None:
    layer = nn.Linear(4, 2)
    head = em.attach(layer, "sem")
    assert type(head) is em.SEMLinear
    assert head.weight is layer.weight
    assert type(em.detach(head)) is nn.Linear


def test_an_ambiguous_model_gets_its_candidates() -> None:
    with pytest.raises(UserError, match=r"Net is the classifier.*body\.0 \(6 -> 6\).*out \(6 -> 3"):
        em.attach(Net())
    model = Net("head")
    model.fc = nn.Linear(6, 4)
    with pytest.raises(UserError, match=r"more than one layer may be meant \(fc, head\)"):
        em.attach(model)
    assert type(em.attach(model, at="fc").fc) is em.SEMLinear
    with pytest.raises(UserError, match="no linear layer"):
        em.attach(nn.Sequential(nn.Conv2d(3, 3, 1), nn.ReLU()))


def test_a_wrong_place() -> None:
    with pytest.raises(
        UserError, match=r"at='haed' names no layer of Net; its linear layers: body"
    ):
        em.attach(Net("head"), at="haed")
    with pytest.raises(UserError, match="at='body' is a Sequential, not a linear layer"):
        em.attach(Net("head"), at="body")
    lazy = nn.Sequential(nn.LazyLinear(3))
    for at in ("0", None):
        with pytest.raises(UserError, match="run the model once"):
            em.attach(lazy, at=at)
    model = Net("head")
    nn.utils.parametrizations.weight_norm(model.head)
    for at in ("head", None):
        with pytest.raises(UserError, match="remove its parametrisations"):
            em.attach(model, at=at)


def test_wrong_heads_and_options() -> None:
    with pytest.raises(UserError, match=r"unknown head 'sme'.*'sem'"):
        em.attach(Net("head"), "sme")
    with pytest.raises(UserError, match=r"does not take these options.*roh"):
        em.attach(Net("head"), "sem", roh=0.3)
    with pytest.raises(UserError, match="rho must lie in"):
        em.attach(Net("head"), "sem", rho=3)
    assert type(em.attach(Net("head"), em.SEMLinear, rho=0.2).head) is em.SEMLinear


@pytest.mark.parametrize(
    "head", [name for name, kind in HEADS.items() if issubclass(kind, nn.Linear)]
)
def test_weights_optimiser_mode_and_random_state_are_kept(head: str) -> None:
    model = Net("head").double()
    model.head.bias.requires_grad_(requires_grad=False)
    weight, bias = model.head.weight, model.head.bias
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    x = torch.randn(8, 6, dtype=torch.float64)
    model(x).square().sum().backward()
    optimiser.step()
    before = torch.get_rng_state()
    em.attach(model.eval(), head)
    assert torch.equal(torch.get_rng_state(), before)
    assert model.head.weight is weight
    assert model.head.bias is bias
    assert not model.head.bias.requires_grad
    assert not model.head.training
    assert torch.equal(model(x), nn.functional.linear(model.body(x), weight, bias))
    model.train()
    old = weight.detach().clone()
    optimiser.zero_grad()
    model(x).square().sum().backward()
    optimiser.step()
    assert not torch.equal(weight, old), "an optimiser built before must still train the head"
    em.detach(model)
    assert type(model.head) is nn.Linear
    assert model.head.weight is weight
    assert model.head.bias is bias
    assert model.head.training
    assert set(model.state_dict()) == set(Net("head").state_dict())


@pytest.mark.parametrize("head", ["kan", "skan"])
def test_kan_heads_bring_their_own_parameters(head: str) -> None:
    model = em.attach(Net("head").double(), head, normalise="layer")
    assert model.head.base_weight.dtype == torch.float64
    assert model(torch.randn(4, 6).double()).shape == (4, 3)
    before = torch.get_rng_state()
    em.detach(model)
    assert torch.equal(torch.get_rng_state(), before)
    assert type(model.head) is em.KANLinear


def test_detach_works_the_expectation_into_the_weights() -> None:
    model = em.attach(Net("head"), "sem", inference="expected")
    for _ in range(3):
        model(torch.randn(8, 6))
    x = torch.randn(4, 6)
    expected = model.eval()(x)
    em.detach(model)
    torch.testing.assert_close(model(x), expected)


def test_attach_again_replaces_the_head() -> None:
    model = em.attach(Net("head"), "sem")
    weight = model.head.weight
    em.attach(model, "dropconnect", p=0.2)
    assert type(model.head) is HEADS["dropconnect"]
    assert model.head.weight is weight


def test_hooks_are_kept() -> None:
    model, calls = Net("head"), []
    handle = model.head.register_forward_hook(lambda *a: calls.append("forward"))
    model.head.register_forward_pre_hook(lambda *a, **k: calls.append("pre"), with_kwargs=True)
    model.head.register_full_backward_hook(lambda *a: calls.append("backward"))
    em.attach(model)
    model(torch.randn(2, 6, requires_grad=True)).sum().backward()
    assert calls == ["pre", "forward", "backward"]
    em.detach(model)
    model(torch.randn(2, 6, requires_grad=True)).sum().backward()
    assert calls == ["pre", "forward", "backward"] * 2
    handle.remove()
    model(torch.randn(2, 6, requires_grad=True)).sum().backward()
    assert calls[6:] == ["pre", "backward"]


def test_a_shared_layer_is_replaced_under_all_its_names() -> None:
    model = Net("head")
    model.extra = nn.ModuleList([model.head])
    em.attach(model)
    assert model.extra[0] is model.head
    assert type(model.head) is em.SEMLinear
    em.detach(model)
    assert model.extra[0] is model.head
    assert type(model.head) is nn.Linear
    em.attach(model, at="extra.0")
    assert type(model.head) is em.SEMLinear


def test_wrapped_models() -> None:
    compiled = torch.compile(Net("fc"), backend="eager")
    em.attach(compiled)
    assert type(compiled._orig_mod.fc) is em.SEMLinear
    assert compiled(torch.randn(4, 6)).shape == (4, 3)
    assert int(compiled._orig_mod.fc.steps) == 1
    averaged = torch.optim.swa_utils.AveragedModel(Net("fc"))
    assert find_classifier(averaged) == "module.fc"
    parallel = nn.DataParallel(torch.compile(Net("fc"), backend="eager"))
    assert find_classifier(parallel) == "module._orig_mod.fc"
    em.attach(parallel, at="fc")  # the inner name is enough
    assert type(parallel.module._orig_mod.fc) is em.SEMLinear


def test_a_child_called_module_is_no_wrapper() -> None:
    model = Net("fc")
    model.module = nn.Linear(6, 6)
    assert find_classifier(model) == "fc"


def test_copies_of_an_attached_model() -> None:
    model = em.attach(Net("head"))
    twin = copy.deepcopy(model)
    model(torch.randn(4, 6))
    assert int(model.head.steps) == 1
    assert int(twin.head.steps) == 0


TIMM = {
    "resnet50": ("fc", 2048),
    "inception_resnet_v2": ("classif", 1536),
    "vit_tiny_patch16_224": ("head", 192),
    "efficientnet_b0": ("classifier", 1280),
    "convnext_atto": ("head.fc", 320),
}


@pytest.mark.parametrize("name", TIMM)
def test_timm(name: str) -> None:
    timm = pytest.importorskip("timm")
    with torch.device("meta"):
        model = timm.create_model(name, num_classes=14)
    at, features = TIMM[name]
    assert find_classifier(model) == at
    weight = model.get_submodule(at).weight
    em.attach(model, "sem")
    head = model.get_submodule(at)
    assert type(head) is em.SEMLinear
    assert head.weight is weight
    assert (head.in_features, head.out_features) == (features, 14)
    assert model.get_classifier() is head
    em.detach(model)
    assert type(model.get_submodule(at)) is nn.Linear


def test_timm_trains() -> None:
    timm = pytest.importorskip("timm")
    model = em.attach(timm.create_model("test_vit", num_classes=5, img_size=32), "sem")
    model(torch.randn(2, 3, 32, 32)).sum().backward()
    assert int(model.get_classifier().steps) == 1


def test_timm_with_two_classifiers_is_ambiguous() -> None:
    timm = pytest.importorskip("timm")
    with torch.device("meta"):
        model = timm.create_model("deit_tiny_distilled_patch16_224", num_classes=4)
    with pytest.raises(UserError, match="more than one layer may be meant"):
        em.attach(model)


TORCHVISION = {
    "resnet18": "fc",
    "vgg11": "classifier.6",
    "vit_b_16": "heads.head",
    "mobilenet_v3_small": "classifier.3",
    "inception_v3": "fc",
    "densenet121": "classifier",
    "swin_t": "head",
}


@pytest.mark.parametrize("name", TORCHVISION)
def test_torchvision(name: str) -> None:
    models = pytest.importorskip("torchvision.models")
    with torch.device("meta"):
        model = models.get_model(name, weights=None, num_classes=7)
    assert find_classifier(model) == TORCHVISION[name]
    em.attach(model)
    head = model.get_submodule(TORCHVISION[name])
    assert type(head) is em.SEMLinear
    assert head.out_features == 7


SMALL = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "num_labels": 5}
SMALL["intermediate_size"] = 16


@pytest.mark.parametrize("kind", ["Bert", "Roberta", "ViT", "DistilBert"])
def test_transformers(kind: str) -> None:
    transformers = pytest.importorskip("transformers")
    text = {"vocab_size": 50, "max_position_embeddings": 20}
    if kind == "ViT":
        config = transformers.ViTConfig(**SMALL, image_size=16, patch_size=8)
        model, at = transformers.ViTForImageClassification(config), "classifier"
        inputs = {"pixel_values": torch.randn(2, 3, 16, 16)}
    elif kind == "DistilBert":
        config = transformers.DistilBertConfig(
            dim=16, n_layers=1, n_heads=2, hidden_dim=16, num_labels=5, **text
        )
        model, at = transformers.DistilBertForSequenceClassification(config), "classifier"
        inputs = {"input_ids": torch.randint(50, (2, 6))}
    else:
        config = getattr(transformers, f"{kind}Config")(**SMALL, **text)
        model = getattr(transformers, f"{kind}ForSequenceClassification")(config)
        at = "classifier.out_proj" if kind == "Roberta" else "classifier"
        inputs = {"input_ids": torch.randint(2, 50, (2, 6))}
    assert find_classifier(model) == at
    em.attach(model.train(), "sem")
    out = model(**inputs, labels=torch.tensor([0, 4]))
    out.loss.backward()
    head = model.get_submodule(at)
    assert type(head) is em.SEMLinear
    assert int(head.steps) == 1
    assert (head.weight.grad[head.last_mask == 0] == 0).all()
    em.detach(model)
    assert type(model.get_submodule(at)) is nn.Linear
