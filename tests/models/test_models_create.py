"""`create`: names, options, projectors, weights from files, and what it says when it cannot."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

import edgemask
from edgemask.errors import UserError
from edgemask.models import create
from edgemask.models.base import scaled
from sweeps import sweep


@given(st.integers(8, 512), st.floats(0.01, 4))
def test_scaled(channels: int, width: float) -> None:
    result = scaled(channels, width)
    assert result >= 8
    assert result == 8 or abs(result - channels * width) <= 0.5
    assert scaled(channels, 1.0) == channels


def test_width_leaves_the_features_of_cnn8_alone() -> None:
    model = create("cnn8", 10, width=0.25)
    assert model.num_features == 256
    assert [block[0].out_channels for block in (model.block1, model.block2, model.block3)] == [
        16,
        32,
        49,
    ]
    assert create("cnn8", 10, width=0.25, hidden=64).num_features == 64


def test_small_cnn_has_256_features() -> None:
    assert create("small-cnn", 10, input_shape=(1, 8, 8)).num_features == 256


@sweep(
    ("arguments", "message"),
    [
        ({"name": "cnn88"}, r"unknown model 'cnn88'; did you mean 'cnn8'.*timm:NAME"),
        ({"name": "tim:resnet50"}, r"unknown model 'tim:resnet50'"),
        ({"name": "timm:"}, r"unknown model 'timm:'"),
        ({"hiden": 3}, r"'cnn8' has no option 'hiden'; it takes hidden"),
        ({"name": "cnn7", "hidden": 3}, r"'cnn7' has no option 'hidden'; it takes none"),
        ({"hidden": -1}, r"hidden=-1: expected a number of at least 0"),
        ({"width": 0}, r"width=0: expected a number above 0"),
        ({"width": float("inf")}, r"width=inf: expected a number above 0"),
        ({"width": float("nan")}, r"width=nan: expected a number above 0"),
        ({"num_classes": 0}, r"num_classes=0: expected a number of at least 1"),
        ({"pretrained": True}, r"no published weights for 'cnn8'"),
        ({"pretrained": "gone.pt"}, r"gone.pt' does not exist"),
        ({"head_options": {"rho": 0.1}}, r"head='linear' has no options.*rho"),
        ({"projector": {"knid": "mlp"}}, r"projector=.*knid.*It takes kind"),
        ({"projector": {"kind": "big"}}, r"kind='big': expected 'mlp' or 'linear-bn'"),
        ({"projector": {"kind": "linear-bn", "hidden": 3}}, r"no hidden layer"),
        ({"name": "mlp", "hidden": ()}, r"hidden=\[\]: neither may be empty"),
        ({"name": "mlp", "input_shape": ()}, r"input_shape=\[\].*neither may be empty"),
    ],
)
def test_mistakes(arguments: dict, message: str) -> None:
    with pytest.raises(UserError, match=message):
        create(**{"name": "cnn8", "num_classes": 10, **arguments})


class TestProjector:
    def test_of_jo_snc(self) -> None:
        model = create("cnn7-mlp", 10, projector={"kind": "mlp", "hidden": 256, "out": 256})
        x = torch.randn(4, 3, 32, 32)
        projection = model.project(x)
        assert projection.shape == (4, 256)
        torch.testing.assert_close(projection.norm(dim=1), torch.ones(4))

    def test_stands_beside_the_neck(self) -> None:
        model = create("cnn7-mlp", 10, projector={"kind": "mlp"}).eval()
        x = torch.randn(4, 3, 32, 32)
        features = model.encode(x)
        assert features.shape == (4, 256)
        assert model.embed(x).shape == (4, 512)
        assert torch.equal(model.project(features=features), model.project(x))
        assert torch.equal(model.project(x), model.projector(features))

    def test_of_unicon(self) -> None:
        options = {"kind": "linear-bn", "out": 128, "normalise": False}
        model = create("preact-resnet18", 10, width=0.125, projector=options).eval()
        x = torch.randn(4, 3, 32, 32)
        linear, norm = model.projector.layers
        expected = F.batch_norm(
            F.linear(model.encode(x), linear.weight, linear.bias),
            norm.running_mean,
            norm.running_var,
        )
        torch.testing.assert_close(model.project(x), expected)

    def test_must_be_asked_for(self) -> None:
        with pytest.raises(UserError, match="has no projector"):
            create("mlp", 3, input_shape=(4,)).project(torch.zeros(2, 4))

    def test_takes_one_thing(self) -> None:
        model = create("mlp", 3, input_shape=(4,), projector={})
        with pytest.raises(UserError, match="not both"):
            model.project()
        with pytest.raises(UserError, match="not both"):
            model.project(torch.zeros(2, 4), features=torch.zeros(2, 256))


class TestWeights:
    @pytest.fixture
    def source(self):
        return create("cnn8", 10, width=0.125, projector={"kind": "mlp"}).eval()

    @pytest.mark.parametrize("suffix", ["pt", "safetensors"])
    def test_round_trip(self, tmp_path: Path, source, suffix: str) -> None:
        path = tmp_path / f"weights.{suffix}"
        if suffix == "pt":
            torch.save({"state_dict": source.state_dict()}, path)
        else:
            pytest.importorskip("safetensors.torch").save_file(source.state_dict(), path)
        model = create("cnn8", 10, width=0.125, projector={"kind": "mlp"}, pretrained=path).eval()
        x = torch.randn(2, 3, 32, 32)
        assert torch.equal(model(x), source(x))
        assert torch.equal(model.project(x), source.project(x))

    def test_head_of_other_classes_starts_afresh(self, tmp_path: Path, source) -> None:
        torch.save(source.state_dict(), tmp_path / "weights.pt")
        model = create("cnn8", 3, width=0.125, pretrained=str(tmp_path / "weights.pt")).eval()
        x = torch.randn(2, 3, 32, 32)
        assert torch.equal(model.embed(x), source.embed(x))
        assert model(x).shape == (2, 3)

    def test_head_is_never_half_loaded(self, tmp_path: Path, source) -> None:
        state = source.state_dict()
        del state["head.bias"]
        torch.save(state, tmp_path / "weights.pt")
        model = create("cnn8", 10, width=0.125, pretrained=tmp_path / "weights.pt").eval()
        assert not torch.equal(model.head.weight, source.head.weight)
        x = torch.randn(2, 3, 32, 32)
        assert torch.equal(model.embed(x), source.embed(x))

    def test_state_of_another_head_is_passed_over(self, tmp_path: Path, source) -> None:
        torch.save({**source.state_dict(), "head.scores": torch.ones(3)}, tmp_path / "weights.pt")
        model = create("cnn8", 10, width=0.125, pretrained=tmp_path / "weights.pt").eval()
        x = torch.randn(2, 3, 32, 32)
        assert torch.equal(model(x), source(x))

    def test_another_width(self, tmp_path: Path, source) -> None:
        torch.save(source.state_dict(), tmp_path / "weights.pt")
        with pytest.raises(UserError, match=r"does not fit this CNN8.*of another shape.*block1"):
            create("cnn8", 10, width=0.25, pretrained=tmp_path / "weights.pt")

    def test_another_model(self, tmp_path: Path, source) -> None:
        torch.save(source.state_dict(), tmp_path / "weights.pt")
        with pytest.raises(UserError, match=r"missing \(.*unexpected \("):
            create("resnet18", 10, width=0.125, pretrained=tmp_path / "weights.pt")

    @pytest.mark.parametrize("name", ["broken.pt", "broken.safetensors"])
    def test_broken_file(self, tmp_path: Path, name: str) -> None:
        (tmp_path / name).write_bytes(b"not weights at all")
        with pytest.raises(UserError, match=f"{name} cannot be read as a file of weights"):
            create("cnn8", 10, pretrained=tmp_path / name)

    def test_file_without_state_dict(self, tmp_path: Path) -> None:
        torch.save([1, 2], tmp_path / "list.pt")
        with pytest.raises(UserError, match="holds no state dict"):
            create("cnn8", 10, pretrained=tmp_path / "list.pt")

    def test_malicious_pickle_is_not_run(self, tmp_path: Path) -> None:
        path, mark = tmp_path / "evil.pt", tmp_path / "mark"

        class Evil:
            def __reduce__(self):
                return (Path.touch, (mark,))

        path.write_bytes(pickle.dumps(Evil(), protocol=2))
        with pytest.raises(UserError, match="cannot be read"):
            create("cnn8", 10, pretrained=path)
        torch.save({"state_dict": {"head.weight": Evil()}}, path)
        with pytest.raises(UserError, match="damaged or holds more than tensors") as refused:
            create("cnn8", 10, pretrained=path)
        assert "weights_only" not in str(refused.value)  # torch advises to let it run
        torch.save({"weight": Evil()}, path)
        with pytest.raises(UserError, match="cannot be read"):
            create("cnn8", 10, pretrained=path)
        assert not mark.exists()


def test_import_needs_torch_and_numpy_only() -> None:
    """In a fresh interpreter, the subpackage imports none of the optional packages."""
    code = (
        "import sys, edgemask.models; "
        "print([m for m in ('timm', 'transformers', 'torchvision', 'safetensors', 'sklearn') "
        "if m in sys.modules])"
    )
    source = str(Path(edgemask.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": source},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "[]"


def test_a_neck_stands_between_features_and_head() -> None:
    torch.manual_seed(0)
    plain = create("small-cnn", 10, input_shape=(1, 8, 8), hidden=16).eval()
    torch.manual_seed(0)
    model = create("small-cnn", 10, input_shape=(1, 8, 8), hidden=16, neck="linear").eval()
    x = torch.randn(3, 1, 8, 8)
    assert torch.equal(model.encode(x), plain.encode(x))
    torch.testing.assert_close(model.embed(x), F.linear(plain.encode(x), *model.neck.parameters()))
    assert (model.neck.in_features, model.neck.out_features) == (16, 16)
    twice = create("cnn7-mlp", 10, width=0.25, neck="linear").eval()
    assert twice(torch.randn(2, 3, 32, 32)).shape == (2, 10)
