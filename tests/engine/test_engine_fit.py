"""The one call, and what it gives back: arrays, datasets, modules, losses, methods as objects."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import Dataset

import edgemask as em
from edgemask.engine import evaluate, export, load_run, predict, resume
from edgemask.engine.deploy import read_weights
from edgemask.errors import UserError
from edgemask.noise import make
from sweeps import sweep

QUICK = {"log": {"trackers": []}, "model": {"width": 0.25}}


def blobs(n: int = 120, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    return (rng.normal(size=(n, 5)) + 3 * np.eye(3, 5)[y]).astype(np.float32), y


class Pairs(Dataset):
    def __init__(self, n=90):
        self.x, self.y = blobs(n)

    def __len__(self):
        return len(self.y)

    def __getitem__(self, index):
        return torch.from_numpy(self.x[index]), int(self.y[index])


def test_arrays_with_names_and_a_test_set(tmp_path):
    x, y = blobs()
    names = np.array(["cat", "dog", "eel"])
    run = em.fit(
        x,
        names[y],
        test=(x[:30], names[y[:30]]),
        model="mlp",
        epochs=8,
        batch_size=20,
        lr=0.1,
        out=tmp_path / "run",
        settings={"log": {"trackers": []}, "model": {"options": {"hidden": [16]}}},
    )
    assert run.summary["class_names"] == ["cat", "dog", "eel"]
    assert run.summary["test/accuracy"]["last"] > 0.8
    assert run.trust.shape == (120,)
    assert len(run.history) == 8
    assert not (run.path / "thumbnails.npz").exists()
    answers = predict(run, x[:4])
    assert answers.rows()[0]["class"] in {"cat", "dog", "eel"}
    np.testing.assert_allclose(answers.probabilities.sum(1), 1, rtol=1e-5)


def test_the_same_call_again_opens_the_run_and_another_one_does_not(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    x, y = blobs()
    options = {"model": "mlp", "epochs": 1, "settings": {"log": {"trackers": []}}}
    first, again = em.fit(x, y, **options), em.fit(x, y, **options)
    assert first.path == again.path
    other = em.fit(x + 1, y, **options)
    assert other.path != first.path
    with pytest.raises(UserError, match=r"an object \(data.spec: object:arrays\)"):
        resume(first.path)


def test_a_dataset_and_a_module_of_ones_own(tmp_path):
    module = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 3))
    before = [p.detach().clone() for p in module.parameters()]
    run = em.fit(
        Pairs(),
        model=module,
        head="sem",
        epochs=2,
        out=tmp_path / "run",
        settings={"log": {"trackers": []}},
    )
    assert all(torch.equal(a, b) for a, b in zip(before, module.parameters(), strict=True))
    assert isinstance(run.model[-1], em.SEMLinear)
    assert not torch.equal(run.model[0].weight, before[0])
    with pytest.raises(UserError, match="model object"):
        _ = load_run(run.path).model


def test_a_loss_and_a_method_of_ones_own(tmp_path):
    class Squared(nn.Module):
        def forward(self, logits, target):
            hard = nn.functional.one_hot(target, logits.shape[1]).float()
            return (logits.softmax(1) - hard).square().sum(1).mean()

    class Mine(em.methods.Supervised):
        """Mine."""

    run = em.fit(
        "digits",
        noise="sym:0.2",
        loss=Squared(),
        method=Mine(views="none"),
        epochs=1,
        out=tmp_path / "run",
        settings=QUICK,
    )
    assert run.config.loss.name.startswith("object:Squared")
    assert run.config.method.name.startswith("object:Mine")
    assert run.config.method.options["views"] == "none"


def test_ready_labels(tmp_path):
    digits = em.data.load("digits")
    labels = make("pair:0.3", digits.train.labels, 10, seed=5)
    run = em.fit("digits", noise=labels, epochs=1, out=tmp_path / "run", settings=QUICK)
    assert run.noise.fingerprint == labels.fingerprint


def test_a_recipe_takes_the_place_of_the_defaults_and_arguments_go_before_it(tmp_path):
    settings = {"data": {"limit": 64, "test_limit": 32}}
    run = em.fit(
        "digits", recipe="digits/elr", epochs=1, noise="sym:0.2", settings=settings, out=tmp_path
    )
    assert (run.config.method.name, run.config.loss.name) == ("elr", "elr")
    assert run.config.head.name == "linear"
    assert (run.config.noise.spec, run.config.train.epochs) == ("sym:0.2", 1)


def test_several_test_sets_have_their_own_names(tmp_path):
    digits = em.data.load("digits")
    both = dataclasses.replace(
        digits, tests={"main": digits.test, "second": em.data.load("digits").train}
    )
    run = em.fit(both, noise="sym:0.4", epochs=1, out=tmp_path / "run", settings=QUICK)
    row = run.history[0]
    assert row["test.second/accuracy"] != row["test/accuracy"]
    assert run.summary["test.second/accuracy"]["last"] == row["test.second/accuracy"]
    # The second set is the training images under their true labels.
    samples = run.samples
    share = (samples["predicted"] == samples["clean"]).mean()
    assert row["test.second/accuracy"] == pytest.approx(share)


def test_a_place_for_the_head_in_a_model_that_knows_its_own(tmp_path):
    with pytest.raises(UserError, match=r"head\.at is for model objects"):
        em.fit("digits", epochs=1, out=tmp_path / "run", settings=QUICK | {"head": {"at": "fc"}})


@sweep(
    ("arguments", "word"),
    [
        ((np.zeros((4, 2), np.float32),), "needs labels"),
        (("digits", [0, 1]), "its own labels"),
        ((42,), "cannot read a int as samples"),
        (("digit",), "'digits'"),
    ],
)
def test_wrong_arguments(arguments, word, tmp_path):
    with pytest.raises(UserError, match=word):
        em.fit(*arguments, out=tmp_path / "run")


@pytest.fixture(scope="module")
def digits_run(tmp_path_factory):
    return em.fit(
        "digits",
        noise="sym:0.4",
        head="sem",
        epochs=2,
        out=tmp_path_factory.mktemp("fit") / "run",
        settings=QUICK | {"data": {"test_limit": 100}},
    )


def test_a_run_from_its_folder_alone_answers_as_the_one_at_hand(digits_run):
    x = torch.randn(4, 1, 8, 8)
    again = load_run(digits_run.path)
    with torch.no_grad():
        assert torch.equal(again.model(x), digits_run.model(x))


def test_the_test_again_on_all_images(digits_run):
    again = load_run(digits_run.path)
    limited = evaluate(again, test_limit=100)
    assert limited["test/accuracy"] == digits_run.history[-1]["test/accuracy"]
    whole = evaluate(again, top5=True)
    assert whole["samples"] == 359
    assert whole["test/top5"] >= whole["test/accuracy"]
    before = again.model.head.inference
    evaluate(again, inference="expected", test_limit=50)
    assert again.model.head.inference == before


def test_predict_on_arrays_and_files(digits_run, tmp_path):
    from PIL import Image

    images = em.data.load("digits").test.raw(torch.arange(6))
    answers = predict(digits_run, images)
    with torch.no_grad():
        mean, std = (torch.tensor(v).view(1, -1, 1, 1) * 255 for v in ((0.3053,), (0.3762,)))
        wanted = digits_run.model((images.float() - mean) / std).softmax(1)
    np.testing.assert_allclose(answers.probabilities, wanted, rtol=1e-4, atol=1e-6)
    assert np.array_equal(predict(digits_run, images[:, 0].numpy()).labels, answers.labels)
    with pytest.raises(UserError, match=r"\(1, 8, 8\)"):
        predict(digits_run, np.zeros((2, 3, 9, 9), np.uint8))
    with pytest.raises(UserError, match="no file"):
        predict(digits_run, tmp_path / "nothing.png")
    Image.fromarray(np.zeros((8, 8, 3), np.uint8)).save(tmp_path / "a.png")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="no image file"):
        predict(digits_run, tmp_path / "empty")


def test_predict_on_a_folder_of_colour_pictures(tmp_path):
    from PIL import Image

    rng = np.random.default_rng(0)
    images, labels = rng.integers(0, 256, (40, 8, 8, 3), dtype=np.uint8), np.arange(40) % 2
    run = em.fit(images, labels, epochs=1, out=tmp_path / "run", settings=QUICK)
    for number in range(3):
        Image.fromarray(images[number]).save(tmp_path / f"{number}.png")
    from_files = predict(run, [tmp_path / f"{n}.png" for n in range(3)])
    np.testing.assert_allclose(
        from_files.probabilities, predict(run, images[:3]).probabilities, rtol=1e-4, atol=1e-6
    )
    assert from_files.inputs[1].endswith("1.png")


def test_exported_weights_are_plain_and_carry_the_card(digits_run, tmp_path):
    path = export(digits_run, tmp_path / "m.safetensors")
    tensors, about = read_weights(path)
    assert set(tensors) >= {"head.weight", "head.bias"}
    assert not any("scores" in name for name in tensors)
    assert about["class_names"] == [str(i) for i in range(10)]
    assert about["input_shape"] == [1, 8, 8]
    assert len(about["mean"]) == 1
    plain = em.models.create("small-cnn", 10, input_shape=(1, 8, 8), width=0.25)
    plain.load_state_dict(tensors)


def test_exported_program(digits_run, tmp_path):
    path = export(digits_run, tmp_path / "m.pt2", format="torch")
    extra = {"edgemask.json": ""}
    program = torch.export.load(path, extra_files=extra).module()
    assert json.loads(extra["edgemask.json"])["dataset"] == "digits"
    images = em.data.load("digits").test.raw(torch.arange(5))
    answers = program(images.float()).argmax(1)
    assert np.array_equal(answers, predict(digits_run, images).labels)


@pytest.mark.slow
def test_exported_onnx(digits_run, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    path = export(digits_run, tmp_path / "m.onnx", format="onnx")
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    about = json.loads(session.get_modelmeta().custom_metadata_map["edgemask"])
    assert about["input_shape"] == [1, 8, 8]
    images = em.data.load("digits").test.raw(torch.arange(7))
    (logits,) = session.run(None, {"x": images.float().numpy()})
    assert np.array_equal(logits.argmax(1), predict(digits_run, images).labels)


def test_an_export_that_would_differ_is_refused(digits_run, tmp_path, monkeypatch):
    import edgemask.engine.deploy as deploy

    def wrong(net):
        plain = deploy.copy.deepcopy(net)
        with torch.no_grad():
            plain.head.weight.add_(0.1)
        return plain.eval()

    monkeypatch.setattr(deploy, "plain_copy", wrong)
    with pytest.raises(UserError, match="differs from the trained model"):
        export(digits_run, tmp_path / "m.safetensors")
    assert not (tmp_path / "m.safetensors").exists()
    with pytest.raises(UserError, match="'onnx'"):
        export(digits_run, tmp_path / "m", format="onix")
