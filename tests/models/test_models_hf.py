"""Models of transformers: tiny ones made here, the adapter against the library itself."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import edgemask  # noqa: F401  (before transformers, so that torchvision can be imported)
from edgemask.errors import UserError
from edgemask.models import create
from sweeps import sweep

transformers = pytest.importorskip("transformers")

SMALL = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
}
GPT2 = {
    "vocab_size": 50,
    "n_embd": 32,
    "n_layer": 2,
    "n_head": 2,
    "n_positions": 32,
    "bos_token_id": 49,
    "eos_token_id": 49,
}
DISTIL = {"vocab_size": 50, "dim": 32, "n_layers": 2, "n_heads": 2, "hidden_dim": 64}
# kind: (configuration, its entries, where the classifier is)
TEXT = {
    "bert": ("BertConfig", {"vocab_size": 50, **SMALL}, "classifier"),
    "roberta": ("RobertaConfig", {"vocab_size": 50, **SMALL}, "classifier.out_proj"),
    "distilbert": ("DistilBertConfig", DISTIL, "classifier"),
    "gpt2": ("GPT2Config", GPT2, "score"),
}
IMAGE = {
    "vit": ("ViTConfig", {"image_size": 16, "patch_size": 4, **SMALL}, "classifier"),
    "resnet": (
        "ResNetConfig",
        {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1], "layer_type": "basic"},
        "classifier.1",
    ),
}
ALL = {**TEXT, **IMAGE}


def folder_of(kind: str, tmp_path: Path, *, labels: int = 7) -> Path:
    """Save a tiny random model as the hub would give it out."""
    config_name, entries, _ = ALL[kind]
    config = getattr(transformers, config_name)(num_labels=labels, **entries)
    auto = (
        transformers.AutoModelForSequenceClassification
        if kind in TEXT
        else transformers.AutoModelForImageClassification
    )
    if kind == "gpt2":
        config.pad_token_id = config.eos_token_id
    auto.from_config(config).save_pretrained(tmp_path / kind)
    return tmp_path / kind


def reference_of(kind: str, folder: Path) -> nn.Module:
    auto = (
        transformers.AutoModelForSequenceClassification
        if kind in TEXT
        else transformers.AutoModelForImageClassification
    )
    return auto.from_pretrained(folder).eval()


def batch_for(kind: str) -> Tensor:
    """Two samples; the second text is two tokens shorter (padding differs between the models)."""
    if kind in IMAGE:
        return torch.randn(2, 3, 16, 16)
    padding = {"bert": 0, "roberta": 1, "distilbert": 0, "gpt2": 49}[kind]
    x = torch.randint(3, 48, (2, 6))
    x[1, 4:] = padding
    return x


@pytest.mark.parametrize("kind", ALL)
class TestAgainstTransformers:
    def test_pretrained_equals_the_library(self, kind: str, tmp_path: Path) -> None:
        folder = folder_of(kind, tmp_path)
        model = create(f"hf:{folder}", 7, input_shape=(3, 16, 16), pretrained=True)
        assert model.training
        assert model.classifier_name == ALL[kind][2]
        model.eval()
        x = batch_for(kind)
        reference = reference_of(kind, folder)
        if kind in TEXT:
            mask = x.ne(reference.config.pad_token_id).long()
            expected = reference(input_ids=x, attention_mask=mask).logits
            mapped = transformers.BatchEncoding({"input_ids": x, "attention_mask": mask})
            torch.testing.assert_close(model(mapped), expected)
        else:
            expected = reference(pixel_values=x).logits
        torch.testing.assert_close(model(x), expected)
        reference.load_state_dict(model.to_native(), strict=True)

    def test_parts_copies_and_export(self, kind: str, tmp_path: Path) -> None:
        folder = folder_of(kind, tmp_path)
        model = create(f"hf:{folder}", 5, input_shape=(3, 16, 16), projector={"kind": "mlp"}).eval()
        x = batch_for(kind)
        assert type(model.head) is nn.Linear
        assert model.embed(x).shape == (2, model.num_features)
        assert torch.equal(model(x), model.head(model.embed(x)))
        assert model.project(x).shape == (2, model.encoder_features)
        assert {name.split(".")[0] for name in model.state_dict()} == {"net", "head", "projector"}
        twin = copy.deepcopy(model)
        twin.load_state_dict(model.state_dict(), strict=True)
        assert torch.equal(twin(x), model(x))
        program = torch.export.export(model, (x,))
        torch.testing.assert_close(program.module()(x), model(x))

    def test_without_weights_only_the_configuration_counts(self, kind: str, tmp_path: Path) -> None:
        folder = folder_of(kind, tmp_path)
        (folder / "model.safetensors").unlink()
        model = create(f"hf:{folder}", 5, input_shape=(3, 16, 16))
        x = batch_for(kind)
        model(x).square().sum().backward()
        assert model.head.weight.grad.any()
        with pytest.raises(UserError, match=r"weights of hf:.*cannot be fetched or used"):
            create(f"hf:{folder}", 5, input_shape=(3, 16, 16), pretrained=True)


def test_padding_has_no_effect(tmp_path: Path) -> None:
    model = create(f"hf:{folder_of('bert', tmp_path)}", 7).eval()
    short = torch.tensor([[5, 6, 7]])
    torch.testing.assert_close(model(torch.tensor([[5, 6, 7, 0, 0]])), model(short))


def test_classifier_of_another_size_starts_afresh(tmp_path: Path) -> None:
    folder = folder_of("bert", tmp_path)
    x = batch_for("bert")
    many = create(f"hf:{folder}", 7, pretrained=True).eval()
    few = create(f"hf:{folder}", 3, pretrained=True).eval()
    assert few(x).shape == (2, 3)
    assert torch.equal(few.embed(x), many.embed(x))


def test_images_of_another_size_and_depth(tmp_path: Path) -> None:
    folder = folder_of("vit", tmp_path)
    model = create(f"hf:{folder}", 3, input_shape=(1, 32, 32))
    assert model(torch.randn(2, 1, 32, 32)).shape == (2, 3)
    with pytest.raises(UserError, match=r"cannot take an input of shape \(3, 32, 32\).*resize"):
        create(f"hf:{folder}", 3, input_shape=(3, 32, 32), pretrained=True)


def test_configuration_can_be_changed(tmp_path: Path) -> None:
    folder = folder_of("bert", tmp_path)
    model = create(f"hf:{folder}", 3, config={"num_hidden_layers": 1})
    assert len(model.net.bert.encoder.layer) == 1
    with pytest.raises(UserError, match="no entry 'num_layrs'"):
        create(f"hf:{folder}", 3, config={"num_layrs": 1})


def test_classifier_by_name(tmp_path: Path) -> None:
    """A head whose dense layer is as wide as the classes: only their names tell them apart."""
    config, entries, _ = TEXT["roberta"]
    getattr(transformers, config)(**entries).save_pretrained(tmp_path)
    assert create(f"hf:{tmp_path}", 32).classifier_name == "classifier.out_proj"
    model = create(f"hf:{tmp_path}", 32, classifier="classifier.out_proj")
    assert model.classifier_name == "classifier.out_proj"
    with pytest.raises(UserError, match="not a Linear layer with 32 outputs"):
        create(f"hf:{tmp_path}", 32, classifier="classifier")
    with pytest.raises(UserError, match="has no part 'clasifier'"):
        create(f"hf:{tmp_path}", 32, classifier="clasifier")


@sweep(
    ("x", "message"),
    [
        (torch.zeros(2, 6), "token ids of shape .*float32"),
        (torch.zeros(2, 3, 6, dtype=torch.long), r"token ids of shape .*\(2, 3, 6\)"),
        ({"input_ids": torch.ones(2, 3).long(), "labels": torch.zeros(2)}, "hold 'labels'"),
    ],
)
def test_wrong_inputs(tmp_path: Path, x: object, message: str) -> None:
    model = create(f"hf:{folder_of('bert', tmp_path)}", 3)
    with pytest.raises(UserError, match=message):
        model(x)


def test_task(tmp_path: Path) -> None:
    folder = folder_of("bert", tmp_path)
    with pytest.raises(UserError, match="classifies text; task='image'"):
        create(f"hf:{folder}", 3, task="image")
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "wav2vec2"}))
    with pytest.raises(UserError, match="neither text nor images"):
        create(f"hf:{tmp_path}", 3)


def test_nothing_there(tmp_path: Path, monkeypatch) -> None:
    constants = pytest.importorskip("huggingface_hub").constants
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(UserError, match=r"neither a local folder.*nor a model"):
        create("hf:nobody/nothing", 3)
    with pytest.raises(UserError, match=r"neither a local folder.*nor a model"):
        create(f"hf:{tmp_path}", 3)


def test_unknown_option(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no option 'tsak'; it takes classifier, config, task"):
        create(f"hf:{tmp_path}", 3, tsak="text")


def test_missing_package(monkeypatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "transformers", None)
    with pytest.raises(UserError, match=r"transformers.*pip install \"edgemask\[hf\]\""):
        create("hf:bert-base-uncased", 7)
