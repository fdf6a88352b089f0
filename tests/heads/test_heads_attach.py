"""attach and detach on models of every kind."""

from __future__ import annotations

import copy
import pickle
import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import edgemask as em
from edgemask.errors import EdgeMaskWarning, UserError
from edgemask.heads import HEADS, find_classifier
from edgemask.heads.sem import edge_scores, normalise_scores
from head_helpers import MASKING


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
    with pytest.raises(UserError, match="rho=3: expected a number in"):
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
    em.attach(model.eval(), head, **({"seed": 1} if head in (*MASKING, "adaptive") else {}))
    assert torch.equal(torch.get_rng_state(), before)
    assert model.head.weight is weight
    assert model.head.bias is bias
    assert not model.head.bias.requires_grad
    assert not model.head.training
    wanted = nn.functional.linear(model.body(x), weight, bias)
    assert torch.equal(model(x), getattr(model.head, "scale", 1.0) * wanted)
    model.train()
    old = weight.detach().clone()
    optimiser.zero_grad()
    model(x).square().sum().backward()
    optimiser.step()
    assert not torch.equal(weight, old), "an optimiser built before must still train the head"
    em.detach(model)
    assert type(model.head) is nn.Linear
    if head not in ("scaled", "adaptive"):  # which work their factor into new weights
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


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(6, 6), nn.Linear(6, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc2(self.fc1(x).relu())


class Deep(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.Sequential(*[Block() for _ in range(3)])
        self.head = nn.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.blocks(x))


def masked(model: nn.Module) -> list[str]:
    return [name for name, module in model.named_modules() if isinstance(module, em.SEMLinear)]


def test_several_layers_by_names_and_patterns() -> None:
    model = Deep()
    parameters = dict(model.named_parameters())
    at = ["blocks.*.fc2", "head"]
    assert em.attach(model, "sem", at=at, rho=0.3) is model
    names = ["blocks.0.fc2", "blocks.1.fc2", "blocks.2.fc2", "head"]
    assert masked(model) == names
    assert all(parameter is parameters[n] for n, parameter in model.named_parameters())
    heads = [model.get_submodule(name) for name in names]
    assert len({int(head.seed) for head in heads}) == 4
    with em.one_step(model):
        model(torch.randn(8, 6)).sum().backward()
        masks = [head.last_mask.clone() for head in heads]
        model(torch.randn(8, 6)).sum().backward()
    assert [int(head.steps) for head in heads] == [1] * 4
    assert all(torch.equal(head.last_mask, mask) for head, mask in zip(heads, masks, strict=True))
    for head in heads:
        assert head.rho == 0.3
        assert (head.weight.grad[head.last_mask == 0] == 0).all()
    assert masked(em.detach(model)) == []
    assert all(parameter is parameters[n] for n, parameter in model.named_parameters())


def test_patterns_of_every_form() -> None:
    assert masked(em.attach(Deep(), at="blocks.[02].fc?")) == [
        f"blocks.{block}.{layer}" for block in (0, 2) for layer in ("fc1", "fc2")
    ]
    assert len(masked(em.attach(Deep(), at=("*", "head")))) == 7, "each layer once"
    wrapped = nn.DataParallel(torch.compile(Deep(), backend="eager"))
    em.attach(wrapped, at=["blocks.1.*", "head"])
    prefix = "module._orig_mod."
    assert masked(wrapped) == [prefix + n for n in ("blocks.1.fc1", "blocks.1.fc2", "head")]


def test_patterns_that_match_nothing_and_wrong_layers() -> None:
    for at in ("blocks.*.fc3", ["head", "blocks.*.fc3"]):
        model = Deep()
        with pytest.raises(
            UserError,
            match=r"at='blocks.\*.fc3' matches no linear layer of Deep; its.*blocks.0.fc1",
        ):
            em.attach(model, at=at)
        assert masked(model) == [], "nothing is replaced when something is wrong"
    for at, message in [
        (["head", "blocks"], "at='blocks' is a Sequential, not a linear layer"),
        (["head", "haed"], "at='haed' names no layer of Deep"),
        ([], "names no layer; its linear layers"),
    ]:
        model = Deep()
        with pytest.raises(UserError, match=message):
            em.attach(model, at=at)
        assert masked(model) == []


def test_a_given_seed_gives_each_head_its_own() -> None:
    seeds = []
    for _ in range(2):
        model = em.attach(Deep(), "sem", at=["head", "blocks.*"], seed=7)
        seeds.append([int(model.get_submodule(name).seed) for name in masked(model)])
    assert seeds[0] == seeds[1]
    assert len(set(seeds[0])) == 7
    assert int(model.head.seed) == 7
    assert seeds[0] != [int(em.attach(Deep(), "sem", seed=8).head.seed)]


class LoraLinear(nn.Module):
    """A layer with a low-rank addition, built like peft's."""

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self.base_layer = layer
        self.in_features, self.out_features = layer.in_features, layer.out_features
        self.lora_A = nn.ModuleDict({"default": nn.Linear(layer.in_features, 2, bias=False)})
        self.lora_B = nn.ModuleDict({"default": nn.Linear(2, layer.out_features, bias=False)})

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.base_layer(x) + self.lora_B["default"](self.lora_A["default"](x))


class SavedCopy(nn.Module):
    """A layer of which a copy is trained, built like peft's modules_to_save."""

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self.original_module = layer
        self.modules_to_save = nn.ModuleDict({"default": copy.deepcopy(layer)})

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.modules_to_save["default"](x)


class Peft(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.base_model = model
        self.peft_config = {"default": None}


def lora_model() -> nn.Module:
    model = Deep()
    model.head = LoraLinear(model.head.requires_grad_(requires_grad=False))
    nn.init.normal_(model.head.lora_B["default"].weight)
    return model


@pytest.mark.parametrize("use_native", [True, False])
def test_a_head_masks_the_sum_of_a_lora_layer_s_weights(
    use_native: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edgemask.heads.native.enabled", use_native)
    model = lora_model()
    keys, x = list(model.state_dict()), torch.randn(8, model.head.in_features)
    em.attach(Peft(model), seed=1)
    assert masked(model) == ["head.edge_mask"]
    lora, head = model.head, model.head.edge_mask
    a, b = lora.lora_A["default"].weight, lora.lora_B["default"].weight
    assert {id(p) for p in lora.parameters()} == {
        id(p) for p in (lora.base_layer.weight, lora.base_layer.bias, a, b)
    }
    for _ in range(3):
        logits = lora(x)
    whole = lora.base_layer.weight + b @ a
    torch.testing.assert_close(head.scores, normalise_scores(edge_scores(x, whole)))
    expected = F.linear(x, whole * head.last_mask, lora.base_layer.bias)
    assert 0 < head.retention < 1
    torch.testing.assert_close(logits, expected)
    for one, two in zip(
        torch.autograd.grad(logits.sin().sum(), [a, b]),
        torch.autograd.grad(expected.sin().sum(), [a, b]),
        strict=True,
    ):
        torch.testing.assert_close(one, two)
    with em.one_step(model), torch.no_grad():
        lora(x), lora(x)
    assert int(head.steps) == 4
    twin = copy.deepcopy(model)
    torch.testing.assert_close(twin.head(x), lora(x))
    model.eval()
    plain = lora.base_layer(x) + x @ a.T @ b.T
    assert torch.equal(lora(x), plain), "a prediction is the adapter's own"
    head.inference = "expected"
    torch.testing.assert_close(
        lora(x), F.linear(x, whole * head.expected_mask(), lora.base_layer.bias)
    )
    with pytest.raises(UserError, match="merge the adapter"):
        em.detach(model)
    head.inference = "dense"
    assert list(em.plain_state_dict(model)) == keys
    twin.load_state_dict(em.plain_state_dict(model), strict=True)
    model.load_state_dict(model.state_dict(), strict=True)
    assert list(em.detach(model).state_dict()) == keys
    assert torch.equal(lora(x), plain)
    assert not lora._forward_hooks


def test_adapters() -> None:
    x = torch.randn(4, 6)
    for head in HEADS:
        model = lora_model()
        if head in ("kan", "skan"):
            with pytest.raises(UserError, match=r"parameters of its own, .*LoraLinear"):
                em.attach(model, head)
            assert "edge_mask" not in model.head._modules
            continue
        em.attach(model, head)
        model(x).sum().backward()
        assert model.head.lora_B["default"].weight.grad.any()
    for at in ("head", "h*"):
        model = em.attach(em.attach(lora_model(), at=at), at=at, rho=0.3)
        assert masked(model) == ["head.edge_mask"]
        assert model.head.edge_mask.rho == 0.3
        assert len(model.head._forward_hooks) == 1
    model = em.attach(lora_model(), at="head.base_layer")  # the frozen weights alone, on purpose
    assert masked(model) == ["head.base_layer"]
    assert masked(em.detach(model)) == []

    model = Deep()
    model.head = SavedCopy(model.head)
    model.blocks[0].fc1 = LoraLinear(model.blocks[0].fc1)
    em.attach(Peft(model))
    assert masked(model) == ["head.modules_to_save.default"], "the copy that is trained"
    model(x).sum().backward()
    assert int(model.head.modules_to_save["default"].steps) == 1


def test_a_layer_called_base_layer_is_a_layer() -> None:
    model = nn.ModuleDict({"base_layer": nn.Linear(3, 2)})
    assert find_classifier(model) == "base_layer"


@pytest.mark.parametrize("head", [name for name in HEADS if name != "linear"])
def test_plain_state_dict(head: str) -> None:
    model = em.attach(nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3)), head)
    model(torch.randn(8, 6)).sum().backward()
    before = {key: value.clone() for key, value in model.state_dict().items()}
    state = em.plain_state_dict(model)
    after = model.state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(after[key], before[key]) for key in before)
    plain = em.detach(copy.deepcopy(model))
    plain.load_state_dict(state, strict=True)
    if head not in ("kan", "skan"):
        plain = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
        plain.load_state_dict(state, strict=True)
        assert list(state) == list(plain.state_dict())
    x = torch.randn(4, 6)
    torch.testing.assert_close(plain.eval()(x), model.eval()(x))
    model.load_state_dict(plain.state_dict(), strict=True)


def test_plain_state_dict_of_shared_bare_and_expected_heads() -> None:
    model = Net("head")
    model.extra = nn.ModuleList([model.head])
    state = em.plain_state_dict(em.attach(model))
    assert not [key for key in state if key.endswith(("scores", "steps", "seed"))]
    assert {"head.weight", "extra.0.weight"} <= set(state)
    assert set(em.plain_state_dict(em.attach(nn.Linear(4, 2)))) == {"weight", "bias"}
    assert set(em.plain_state_dict(nn.Linear(4, 2))) == {"weight", "bias"}
    model = em.attach(Net("head"), "sem", inference="expected")
    model(torch.randn(8, 6))
    plain, x = Net("head"), torch.randn(4, 6)
    plain.load_state_dict(em.plain_state_dict(model))
    torch.testing.assert_close(plain(x), model.eval()(x))


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


DISTILLED = {
    "deit_tiny_distilled_patch16_224": ["head", "head_dist"],
    "levit_128s": ["head.linear", "head_dist.linear"],
    "repvit_m1_0": ["head.head.l", "head.head_dist.l"],
}


@pytest.mark.parametrize("name", DISTILLED)
def test_both_classifiers_of_a_distilled_timm_model(name: str) -> None:
    timm = pytest.importorskip("timm")
    with torch.device("meta"):
        model = timm.create_model(name, num_classes=4)
    em.attach(model, "sem")
    assert masked(model) == DISTILLED[name]
    with pytest.raises(UserError, match="more than one layer may be meant"):
        find_classifier(model)
    em.detach(model)
    assert masked(model) == []


def test_a_distilled_timm_model_trains() -> None:
    timm = pytest.importorskip("timm")
    model = timm.create_model(
        "deit_tiny_distilled_patch16_224", num_classes=4, img_size=32, depth=1
    )
    for layer in model.get_classifier():
        nn.init.normal_(layer.weight)
    em.attach(model, "sem")
    model(torch.randn(2, 3, 32, 32)).sum().backward()
    assert [int(head.steps) for head in model.get_classifier()] == [1, 1]
    seeds = [int(head.seed) for head in model.get_classifier()]
    assert seeds[0] != seeds[1]


def test_a_convolution_as_classifier_is_refused() -> None:
    timm = pytest.importorskip("timm")
    with torch.device("meta"):
        model = timm.create_model("resnetv2_50", num_classes=4)
    with pytest.raises(UserError, match=r"classifier of ResNetV2 is a convolution \(Conv2d"):
        em.attach(model)
    with pytest.raises(UserError, match=r"at='head.fc' is a Conv2d, not a linear layer"):
        em.attach(model, at="head.fc")


def test_reset_classifier_warns() -> None:
    timm = pytest.importorskip("timm")
    model = em.attach(timm.create_model("test_vit", num_classes=5, img_size=32), "sem")
    twin = pickle.loads(pickle.dumps(copy.deepcopy(model)))
    with pytest.warns(EdgeMaskWarning, match="reset_classifier replaced the head head of Vision"):
        twin.reset_classifier(7)
    assert type(twin.get_classifier()) is nn.Linear
    assert twin.get_classifier().out_features == 7
    assert type(model.get_classifier()) is em.SEMLinear, "the original is left alone"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        twin.reset_classifier(3)  # a plain one by now
        em.attach(twin, "sem")
        em.detach(twin).reset_classifier(4)
    assert "reset_classifier" not in twin.__dict__


def test_plain_state_dict_of_a_timm_model() -> None:
    timm = pytest.importorskip("timm")
    model = em.attach(timm.create_model("test_vit", num_classes=5, img_size=32), "sem")
    model(torch.randn(2, 3, 32, 32))
    plain = timm.create_model("test_vit", num_classes=5, img_size=32)
    plain.load_state_dict(em.plain_state_dict(model), strict=True)
    x = torch.randn(2, 3, 32, 32)
    assert torch.equal(plain.eval()(x), model.eval()(x))


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
