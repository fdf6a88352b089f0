"""What every own model promises: named parts, modes, shapes, copies, exports."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

from edgemask.errors import UserError
from edgemask.models import MODELS, Backbone, create
from sweeps import sweep

SHAPES = {"cnn8-mnist": (1, 28, 28), "small-cnn": (1, 8, 8), "mlp": (7,)}
WIDTH = 0.25
CONVOLUTIONAL = [name for name in MODELS if name != "mlp"]


def shape_of(name: str) -> tuple[int, ...]:
    return SHAPES.get(name, (3, 32, 32))


def narrow(name: str, **options: object) -> Backbone:
    return create(name, 5, input_shape=shape_of(name), width=WIDTH, **options)


def batch_for(name: str, size: int = 3) -> Tensor:
    return torch.randn(size, *shape_of(name))


def warmed(name: str, **options: object) -> Backbone:
    """A model whose batch norms have seen data, in eval mode."""
    model = narrow(name, **options)
    with torch.no_grad():
        model(batch_for(name, 8))
        if model.projector is not None:
            model.project(batch_for(name, 8))
    return model.eval()


class TestContract:
    @sweep("name", MODELS)
    def test_parts_make_the_whole(self, name: str) -> None:
        model, x = warmed(name), batch_for(name)
        features = model.encode(x)
        embedding = model.embed(x)
        assert features.shape == (3, model.encoder_features)
        assert embedding.shape == (3, model.num_features)
        assert torch.equal(embedding, model.neck(features))
        assert torch.equal(model(x), model.head(embedding))
        assert model(x).shape == (3, 5)
        assert type(model.head) is nn.Linear
        assert model.head.in_features == model.num_features

    @sweep("name", MODELS)
    def test_every_parameter_learns(self, name: str) -> None:
        model = narrow(name)
        assert model.training
        model(batch_for(name, 8)).square().sum().backward()
        silent = [n for n, p in model.named_parameters() if p.grad is None or not p.grad.any()]
        # A bias before batch norm has no effect, so its gradient is (numerically) nothing.
        assert [n for n in silent if not n.endswith("bias")] == []

    @sweep("name", MODELS)
    def test_one_sample_in_eval_equals_its_row(self, name: str) -> None:
        model, x = warmed(name).double(), batch_for(name).double()
        torch.testing.assert_close(model(x[:1]), model(x)[:1])

    @sweep("name", MODELS)
    def test_eval_is_deterministic_and_writes_nothing(self, name: str) -> None:
        model, x = warmed(name), batch_for(name)
        before = copy.deepcopy(model.state_dict())
        assert torch.equal(model(x), model(x))
        for key, value in model.state_dict().items():
            assert torch.equal(value, before[key]), key

    @sweep("name", MODELS)
    def test_state_dict_and_deepcopy(self, name: str) -> None:
        model, x = warmed(name, projector={"kind": "mlp"}), batch_for(name)
        other = narrow(name, projector={"kind": "mlp"}).eval()
        assert not torch.equal(other(x), model(x))
        other.load_state_dict(model.state_dict(), strict=True)
        assert torch.equal(other(x), model(x))
        assert torch.equal(other.project(x), model.project(x))
        twin = copy.deepcopy(model)
        assert torch.equal(twin(x), model(x))
        assert twin.head is not model.head

    @sweep("name", MODELS)
    def test_double_precision(self, name: str) -> None:
        model, x = warmed(name), batch_for(name)
        single = model(x)
        double = model.double()(x.double())
        assert double.dtype == torch.float64
        torch.testing.assert_close(double.float(), single, rtol=1e-3, atol=1e-3)

    @pytest.mark.parametrize("name", MODELS)
    def test_export_with_any_batch_size(self, name: str) -> None:
        model = warmed(name)
        batch = torch.export.Dim("batch", min=1)
        program = torch.export.export(model, (batch_for(name),), dynamic_shapes=({0: batch},))
        x = batch_for(name, 5)
        torch.testing.assert_close(program.module()(x), model(x))

    @sweep("name", MODELS)
    def test_width_narrows(self, name: str) -> None:
        def size(width: float) -> int:
            model = create(name, 5, input_shape=shape_of(name), width=width)
            return sum(p.numel() for p in model.parameters())

        assert size(0.01) <= size(0.25) < size(0.75)

    @sweep("name", MODELS)
    def test_same_weights_whatever_stands_beside(self, name: str) -> None:
        torch.manual_seed(7)
        plain = narrow(name).state_dict()
        torch.manual_seed(7)
        projected = narrow(name, projector={"kind": "linear-bn"}).state_dict()
        assert plain.keys() < projected.keys()
        for key, value in plain.items():
            assert torch.equal(value, projected[key]), key

    @sweep("name", MODELS)
    def test_summary_is_one_sentence(self, name: str) -> None:
        summary = MODELS.summaries()[name]
        assert summary.endswith(".")
        assert 20 < len(summary) < 110


class TestFeatureMaps:
    @sweep("name", CONVOLUTIONAL)
    def test_last_block_gives_the_maps(self, name: str) -> None:
        model, x = warmed(name), batch_for(name)
        seen: list[Tensor] = []
        block = model.get_submodule(model.last_block)
        block.register_forward_hook(lambda _module, _inputs, out: seen.append(out))
        maps = model.feature_maps(x)
        assert torch.equal(seen[0], maps)
        assert maps.dim() == 4
        assert torch.equal(model.features_from_maps(maps), model.encode(x))

    @sweep("name", CONVOLUTIONAL)
    def test_pooling_says_what_happens(self, name: str) -> None:
        model, x = warmed(name), batch_for(name)
        averaged = model.feature_maps(x).mean((2, 3))
        same = averaged.shape == model.encode(x).shape and torch.allclose(averaged, model.encode(x))
        assert same == (model.pooling == "average")

    @sweep("name", CONVOLUTIONAL)
    def test_other_shapes(self, name: str) -> None:
        model = create(name, 5, input_shape=(2, 41, 35), width=WIDTH)
        assert model(torch.randn(2, 2, 41, 35)).shape == (2, 5)

    @sweep("name", CONVOLUTIONAL)
    def test_table_is_refused(self, name: str) -> None:
        with pytest.raises(UserError, match=r"takes images.*\(64,\).*'mlp'"):
            create(name, 5, input_shape=(64,))


@sweep("name", ["cnn8", "cnn7-mlp", "cnn9", "preact-resnet18", "mlp"])
def test_compiles_in_one_graph(name: str) -> None:
    torch._dynamo.reset()
    model = warmed(name)
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    x = batch_for(name)
    torch.testing.assert_close(compiled(x), model(x))


@sweep(("name", "smallest"), [("cnn8", 8), ("cnn7", 8), ("cnn9", 28), ("small-cnn", 4)])
def test_smallest_image(name: str, smallest: int) -> None:
    model = create(name, 5, input_shape=(1, smallest, smallest), width=WIDTH)
    assert model(torch.randn(2, 1, smallest, smallest)).shape == (2, 5)
    with pytest.raises(UserError, match=f"too small.*at least {smallest}x{smallest}"):
        create(name, 5, input_shape=(1, smallest, smallest - 1), width=WIDTH)


def test_flattening_model_refuses_another_size() -> None:
    model = create("cnn8", 5, width=WIDTH)
    with pytest.raises(UserError, match=r"made for inputs of shape \(3, 32, 32\).*\(3, 40, 40\)"):
        model(torch.zeros(2, 3, 40, 40))


def test_mlp_has_no_maps() -> None:
    model = create("mlp", 5, input_shape=(4,))
    assert model.last_block is None
    with pytest.raises(UserError, match="no convolutional feature maps"):
        model.feature_maps(torch.zeros(2, 4))
