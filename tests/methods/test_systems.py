"""ELR+, DISC and CLIPCleaner: their steps by hand, their selections, and features from anywhere."""

from __future__ import annotations

import copy
import json
import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from clip_helpers import digits_features
from edgemask.data import Batch, load
from edgemask.engine import load_run, train
from edgemask.errors import UserError
from edgemask.methods import METHODS, Clock, Task
from edgemask.methods.clipcleaner import absorb, class_posterior, class_scores, refill
from edgemask.methods.parts.clip import class_prompts, linear_probe, load_clip, zero_shot
from edgemask.methods.parts.mixing import mix_rows
from edgemask.models import create
from sweeps import sweep

C, N, FEATURES = 4, 24, 5


def task(**changes):
    settings = {
        "num_classes": C,
        "labels": torch.arange(N) % C,
        "epochs": 20,
        "batch_size": 8,
        "criterion": nn.CrossEntropyLoss(),
        "device": torch.device("cpu"),
        "generator": torch.Generator().manual_seed(3),
        "score": lambda *_, **__: {},
    }
    return Task(**{**settings, **changes})


def ready(name, options=None, **changes):
    method = METHODS[name](**(options or {}))
    made = create("mlp", C, input_shape=(FEATURES,), hidden=(8,))
    for path, module in list(made.named_modules()):
        if isinstance(module, nn.BatchNorm1d):  # rows must not touch each other
            made.set_submodule(path, nn.Identity())
    nets = {net: copy.deepcopy(made) for net in method.networks}
    for number, net in enumerate(nets.values()):
        for weight in net.parameters():
            weight.data.add_(0.1 * number)
    nets |= {net: copy.deepcopy(nets[source]) for net, source in method.copies.items()}
    method.setup(task(**changes), nets)
    return method


def batch(views, index):
    index = torch.tensor(index)
    pictures = tuple(torch.randn(len(index), FEATURES) for _ in range(views))
    return Batch(index, pictures, index % C)


def replay(method, state, rows):
    """The share and partners that a mix of so many rows drew from a state of the generator."""
    generator = torch.Generator()
    generator.set_state(state)
    mixed = mix_rows(torch.zeros(rows, 1), torch.zeros(rows, 1), alpha=method, generator=generator)
    return mixed.share, mixed.pairs.tolist(), generator.get_state()


def test_step_of_elr_plus_by_hand():
    method = ready("elr-plus", {"beta": 0.6, "lam": 2.0, "mixup": 1.0})
    method.targets["first"].values = torch.rand(N, C) / C
    inputs = batch(1, [0, 5, 9, 14])
    index, (x,), y = inputs
    old = method.targets["first"].values[index].clone()
    for weight in method.nets["second_average"].parameters():
        weight.data.mul_(1.5)
    phase = method.begin("train/first", 0)
    assert (phase.train, phase.shadow) == (("first",), ("second_average",))
    state = method.task.generator.get_state()
    result = method.step(phase, {"train": inputs}, Clock(0, 0, 3))
    share, pairs, _ = replay(1.0, state, 4)
    taught = method.nets["second_average"](x).softmax(dim=1).detach()
    history = 0.6 * old + 0.4 * taught
    assert torch.allclose(method.targets["first"].values[index], history, atol=1e-6)
    assert not method.targets["second"].values.any()
    total = 0.0
    for i, j in enumerate(pairs):
        with torch.no_grad():
            p = method.nets["first"]((share * x[i] + (1 - share) * x[j])[None]).softmax(dim=1)[0]
        given = -share * math.log(p[y[i]]) - (1 - share) * math.log(p[y[j]])
        q = share * history[i] + (1 - share) * history[j]
        inner = float((q * p.clamp(1e-4, 1 - 1e-4)).sum())
        total += (given + 2.0 * math.log(1 - inner)) / 4
    assert result.loss.item() == pytest.approx(total, rel=1e-4)


def test_averages_of_elr_plus_follow_by_the_published_share_of_a_run():
    method = ready("elr-plus", {"momentum": 0.9}, epochs=10)
    method.nets["first"].register_buffer("count", torch.ones(1))
    method.nets["first_average"].register_buffer("count", torch.zeros(1))
    phase = method.begin("train/first", 9)
    for weight in method.nets["first"].parameters():
        weight.data.add_(1.0)
    before = [w.detach().clone() for w in method.nets["first_average"].parameters()]
    method.after_step(phase, Clock(9, 4, 5))  # long after the ramp: the full momentum
    for old, new in zip(before, method.nets["first_average"].parameters(), strict=True):
        assert torch.allclose(new, old + 0.1, atol=1e-6)
    # Buffers are those of the copy's own passes.
    assert method.nets["first_average"].count.item() == 0
    ramp = method._average_ramp(Clock(0, 0, 5))
    assert ramp == pytest.approx(50 * 40_000 / 70_400)
    assert method._weight_ramp(Clock(0, 0, 5)) == 0
    hundred = ready("elr-plus", num_classes=100, epochs=250)
    assert hundred._weight_ramp(Clock(0, 0, 352)) == pytest.approx(40_000)
    assert hundred._average_ramp(Clock(0, 0, 352)) == pytest.approx(40_000)
    assert hundred._weighted


def test_trust_of_elr_plus_is_the_share_of_the_label():
    method = ready("elr-plus")
    assert method.trust() is None
    for name, share in (("first", 0.8), ("second", 0.4)):
        values = torch.full((N, C), (1 - share) / (C - 1))
        values[torch.arange(N), method.task.labels] = share
        method.targets[name].values = 0.5 * values
    assert method.trust().tolist() == pytest.approx([0.6] * N, rel=1e-5)


def test_step_of_disc_by_hand():
    method = ready("disc", {"warmup": 1, "hard_weight": 0.5, "alpha": 2.0})
    index = [0, 3, 5, 9, 14, 20]
    inputs = batch(2, index)
    method.kinds.values[torch.tensor(index)] = torch.tensor([1, 2, 3, 0, 1, 2], dtype=torch.int8)
    method.labels.values = method.task.labels.clone()
    method.labels.values[5] = 3  # corrected
    _, views, y = inputs
    phase = method.begin("train", 1)
    state = method.task.generator.get_state()
    result = method.step(phase, {"train": inputs}, Clock(1, 0, 1))
    net, total = method.nets["net"], 0.0
    chosen = [0, 1, 2, 4, 5]
    labels = [0, 3, 3, 2, 0]
    for number, x in enumerate(views):
        p = net(x).softmax(dim=1).detach()
        assert torch.allclose(method.probabilities.values[torch.tensor(index), number], p)
        total += sum(-math.log(p[i, y[i]]) for i in (0, 4)) / 6
        total += 0.5 * sum((1 - float(p[i, y[i]]) ** 0.7) / 0.7 for i in (1, 5)) / 6
        share, pairs, state = replay(2.0, state, 5)
        for i, j in enumerate(pairs):
            mixed = share * x[chosen[i]] + (1 - share) * x[chosen[j]]
            log_p = net(mixed[None]).log_softmax(dim=1)[0]
            total -= (share * log_p[labels[i]] + (1 - share) * log_p[labels[j]]).item() / 5
    assert result.loss.item() == pytest.approx(total, rel=1e-4)
    warm = method.step(method.begin("warmup", 0), {"train": inputs}, Clock(0, 0, 1))
    both = sum(F.cross_entropy(net(x), y).item() for x in views)
    assert warm.loss.item() == pytest.approx(both, rel=1e-5)


def test_disc_with_nothing_selected_is_finite_and_still():
    method = ready("disc", {"warmup": 1})
    result = method.step(method.begin("train", 1), {"train": batch(2, [0, 1])}, Clock(1, 0, 1))
    result.loss.backward()
    assert result.loss.item() == 0
    assert not any(w.grad.any() for w in method.nets["net"].parameters())


def test_disc_sorts_and_moves_only_what_an_epoch_has_seen():
    method = ready("disc", {"warmup": 1, "momentum": 0.5})
    index = torch.arange(6)
    p = torch.full((N, 2, C), 0.01)
    p[torch.arange(N), :, method.task.labels] = 0.97
    p[1, :, 1], p[1, :, 2] = 0.01, 0.97  # another class is sure
    p[2, 1] = torch.tensor([0.97, 0.01, 0.01, 0.01])  # the strong view disagrees
    method.probabilities.values = p
    method.tau.values.fill_(0.3)
    method.seen.write(index, torch.ones_like(index))
    shares = method.end_epoch(0)
    assert method.kinds.values.tolist() == [1, 3, 2, 1, 1, 1] + [0] * 18
    assert method.labels.values[:6].tolist() == [0, 2, 2, 3, 0, 1]
    assert method.tau.values[:6].tolist() == [pytest.approx([0.635, 0.635])] * 6
    assert method.tau.values[6:].tolist() == [pytest.approx([0.3, 0.3])] * 18
    assert not method.seen.values.any()
    assert shares["train/clean_share"] == pytest.approx(4 / 6)
    # Trust: 1/2 at the threshold, more above it.
    trust = method.trust()
    assert trust[0] == pytest.approx(0.97 / (0.97 + 0.635), rel=1e-5)
    assert trust[1] < 0.1 < trust[2] < trust[0]


@sweep(
    ("kind", "rate", "momentum", "weight"),
    [
        ("symmetric", 0.4, 0.99, 1.0),
        ("asymmetric", 0.4, 0.95, 1.0),
        ("symmetric", 0.6, 0.95, 0.2),
        (None, None, 0.99, 1.0),
    ],
)
def test_disc_takes_the_published_settings_of_the_noise(kind, rate, momentum, weight):
    noise = {"noise_kind": kind, "nominal_rate": rate}
    method = ready("disc", epochs=200, **noise)
    assert (method.stay, method.hardness) == (pytest.approx(momentum), weight)
    # In a tenth of the epochs the thresholds get as far.
    assert ready("disc", epochs=20, **noise).stay == pytest.approx(momentum**10)
    given = ready("disc", {"momentum": 0.5, "hard_weight": 3.0}, **noise)
    assert (given.stay, given.hardness) == (0.5, 3.0)


def test_subsets_are_balanced_anew_or_once():
    disc, elr = ready("disc", {"subset": 8}), ready("elr-plus", {"subset": 8})
    drawn = [disc.begin("train", epoch).feeds["train"].indices for epoch in (2, 3)]
    assert drawn[0].tolist() != drawn[1].tolist()
    fixed = [elr.begin("train/first", epoch).feeds["train"].indices for epoch in (2, 3)]
    assert fixed[0].tolist() == fixed[1].tolist()
    other = elr.begin("train/second", 2).feeds["train"].indices
    assert other.tolist() != fixed[0].tolist()
    for indices in (*drawn, *fixed, other):
        assert (indices % C).bincount().tolist() == [2] * C


def test_zero_shot_and_the_linear_probe_in_plain_loops():
    from sklearn.linear_model import LogisticRegression

    images = torch.randn(30, 6)
    texts = [torch.randn(count, 6) for count in (2, 3, 1)]
    found = zero_shot(images, texts, temperature=0.5)
    for i, v in enumerate(images):
        sums = [
            sum(math.exp(float(v @ u / (v.norm() * u.norm())) / 0.5) for u in prompts)
            for prompts in texts
        ]
        assert found[i].tolist() == pytest.approx([s / sum(sums) for s in sums], rel=1e-4)
    labels = torch.arange(30) % 2
    unit = F.normalize(images, dim=1).double().numpy()
    model = LogisticRegression(max_iter=10_000, class_weight="balanced", random_state=0)
    expected = model.fit(unit, labels.numpy()).predict_proba(unit)
    probabilities = linear_probe(images, labels, 3)
    assert np.allclose(probabilities[:, :2].numpy(), expected, atol=1e-4)
    assert not probabilities[:, 2].any()  # nobody has that label
    assert linear_probe(images, torch.ones(30, dtype=torch.long), 3)[:, 1].tolist() == [1] * 30


def test_the_posterior_is_that_of_scikit_learns_mixture():
    from sklearn.mixture import GaussianMixture

    labels = torch.arange(60) % 2
    scores = class_scores(torch.rand(60, 2).softmax(dim=1), labels)
    found = class_posterior(scores, labels)
    for label in (0, 1):
        values = scores[labels == label].double().numpy()[:, None]
        mixture = GaussianMixture(2, random_state=0).fit(values)
        upper = int(mixture.means_.argmax())
        expected = mixture.predict_proba(values)[:, upper]
        assert np.allclose(found[labels == label].numpy(), expected, atol=1e-5)
    assert class_posterior(torch.zeros(3), torch.zeros(3, dtype=torch.long)).tolist() == [1, 1, 1]


def test_an_empty_class_gets_its_likeliest_samples():
    labels = torch.tensor([0, 0, 0, 1, 1, 1, 2, 2, 2, 2])
    scores = torch.tensor([0.1, 0.2, 0.3, 0.5, 0.9, 0.7, 0.4, 0.8, 0.6, 0.2])
    chosen = torch.zeros(10, dtype=torch.bool)
    chosen[[0, 1, 6, 7, 8]] = True
    filled = refill(chosen, labels, scores, 3)
    assert filled.nonzero().flatten().tolist() == [0, 1, 4, 5, 6, 7, 8]
    alone = refill(torch.zeros(10, dtype=torch.bool), labels, scores, 3)
    assert alone.nonzero().flatten().tolist() == [2, 4, 7]


def test_what_the_network_is_sure_of_is_absorbed_or_relabelled():
    p = torch.tensor([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.95, 0.05]])
    labels = torch.tensor([0, 0, 0, 1])
    chosen = torch.tensor([False, False, False, True])
    joined, new = absorb(p, labels, chosen, keep=0.9, relabel=0.8)
    assert joined.tolist() == [True, True, False, True]
    assert new.tolist() == [0, 1, 0, 0]
    joined, new = absorb(p, labels, chosen, keep=0.95, relabel=1.0)
    assert joined.tolist() == [False, False, False, True]
    assert torch.equal(new, labels)


def test_clipcleaner_begins_with_what_clip_chose(tiny, tmp_path):
    settings = {"method": {"name": "clipcleaner"}, "data": {"limit": None}}
    run = train(tiny(settings, {"train": {"epochs": 1}}), out=tmp_path / "run")
    row, samples = run.history[0], load_run(run.path).samples
    right = samples["clean"] == samples["given"]
    assert 0.2 < row["train/chosen_share"] < 0.6  # 60 % of the labels are right
    assert row["train/relabelled_share"] == 0
    assert row["step"] == 1438 // 32
    trusted = samples["trust"] > 0.5
    assert np.mean(right[trusted]) > 0.8 > 0.6 + 0.1


@sweep(
    ("options", "match"),
    [
        ({"features": None, "text": None}, "needs image and text features of CLIP"),
        ({"text": None}, "needs image and text features of CLIP"),
        ({"features": "nowhere.npy"}, "no image features in nowhere"),
        ({"model": "clip:x", "features": None}, "expected hf:NAME or timm:NAME"),
    ],
)
def test_clipcleaner_says_what_it_lacks(options, match, tiny, tmp_path):
    with pytest.raises(UserError, match=match):
        train(tiny({"method": {"name": "clipcleaner", "options": options}}), out=tmp_path / "run")


def test_features_that_do_not_fit_are_named(tiny, tmp_path):
    for name, array, match in (
        ("features", np.zeros((7, 32)), "has 7 rows for 100 training samples"),
        ("features", np.zeros(1438), r"has shape \(1438,\)"),
        ("features", np.full((1438, 32), np.nan), "not finite"),
        ("text", np.zeros((3, 32)), "expected .* for 10 classes"),
        ("text", np.ones((10, 8)), "are 32 wide and its text features 8"),
    ):
        np.save(tmp_path / "wrong.npy", array)
        options = {name: str(tmp_path / "wrong.npy")}
        settings = {"method": {"name": "clipcleaner", "options": options}}
        with pytest.raises(UserError, match=match):
            train(tiny(settings), out=tmp_path / "run", fresh=True)


def test_prompts_are_ours_or_a_file(tmp_path):
    cat = class_prompts(["airplane", "cat"], "cifar10")[1]
    assert len(cat) == 5
    assert all(text.startswith("a photo of a cat, ") and text.endswith(".") for text in cat)
    other = class_prompts(["great white shark, Carcharodon"], "webvision-mini")[0]
    assert other[0] == "a photo of a great white shark, an animal or a thing."
    clothes = load("digits").class_names
    assert len(class_prompts(clothes)) == 10
    file = tmp_path / "prompts.toml"
    file.write_text('cat = ["my cat"]\n')
    assert class_prompts(["cat"], file=str(file)) == [["my cat"]]
    with pytest.raises(UserError, match="no sentences for the class 'dog'"):
        class_prompts(["dog"], file=str(file))


def tiny_clip(folder):
    """A CLIP of random weights with a tokenizer of single letters, as transformers stores one."""
    transformers = pytest.importorskip("transformers")
    words = ["<|startoftext|>", "<|endoftext|>", *"abcdefghijklmnopqrstuvwxyz,.-"]
    words += [f"{letter}</w>" for letter in words[2:]]
    (folder / "vocab.json").write_text(json.dumps({w: n for n, w in enumerate(words)}))
    (folder / "merges.txt").write_text("#version: 0.2\n")
    tokenizer = transformers.CLIPTokenizer(
        str(folder / "vocab.json"), str(folder / "merges.txt"), model_max_length=32
    )
    tokenizer.save_pretrained(folder)
    small = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1,
             "num_attention_heads": 2}  # fmt: skip
    config = transformers.CLIPConfig(
        text_config={**small, "vocab_size": len(words), "max_position_embeddings": 32,
                     "bos_token_id": 0, "eos_token_id": 1},
        vision_config={**small, "image_size": 16, "patch_size": 8},
        projection_dim=12,
    )  # fmt: skip
    transformers.CLIPModel(config).save_pretrained(folder)
    return f"hf:{folder}"


def test_a_model_of_transformers_gives_both_features(tiny, tmp_path):
    folder = tmp_path / "clip"
    folder.mkdir()
    name = tiny_clip(folder)
    clip = load_clip(name, torch.device("cpu"))
    pixels = torch.rand(3, 1, 8, 8)
    assert clip.images(pixels).shape == (3, 12)
    assert clip.texts(["a cat", "a photo of a dog"], torch.device("cpu")).shape == (2, 12)
    # Pixels as CLIP's processor prepares them: three channels, its size, its constants.
    big = F.interpolate(pixels.expand(-1, 3, -1, -1), [16, 16], mode="bicubic", antialias=True)
    mean = torch.tensor([0.48145466, 0.4578275, 0.40821073]).view(3, 1, 1)
    std = torch.tensor([0.26862954, 0.26130258, 0.27577711]).view(3, 1, 1)
    with torch.no_grad():
        features = clip.net.vision_model(pixel_values=(big.clamp(0, 1) - mean) / std)
        expected = clip.net.visual_projection(features.pooler_output)
    assert torch.allclose(clip.images(pixels), expected, atol=1e-5)
    options = {"model": name, "features": None, "text": None}
    run = train(tiny({"method": {"name": "clipcleaner", "options": options}}), out=tmp_path / "run")
    assert run.finished


def test_a_timm_model_gives_image_features_alone(monkeypatch, tiny, tmp_path):
    timm = pytest.importorskip("timm")
    real = timm.create_model

    def untrained(name, *, pretrained):
        assert pretrained
        return real(name, pretrained=False, num_classes=32)

    monkeypatch.setattr(timm, "create_model", untrained)
    clip = load_clip("timm:test_vit", torch.device("cpu"))
    assert clip.images(torch.rand(2, 3, 20, 30)).shape == (2, 32)
    text = digits_features(tmp_path / "f")["text"]
    options = {"model": "timm:test_vit", "features": None, "text": text}
    settings = {"method": {"name": "clipcleaner", "options": options}, "data": {"limit": 64}}
    assert train(tiny(settings), out=tmp_path / "run").finished
    alone = {"method": {"name": "clipcleaner", "options": {**options, "text": None}}}
    with pytest.raises(UserError, match="has no text encoder"):
        train(tiny(settings, alone), out=tmp_path / "alone")


# Digits with 40 % wrong labels, few enough of them that plain cross entropy memorises.
LEARN = {
    "data": {"limit": 600, "test_limit": None},
    "model": {"width": 0.5, "options": {}},
    "head": {"name": "linear"},
    "optim": {"name": "sgd", "momentum": 0.9, "lr": 0.02},
    "train": {"epochs": 25},
    "eval": {"every": 25},
}


@pytest.fixture(scope="module")
def last_accuracy(tiny, tmp_path_factory):
    """Return the last accuracy of a method, the mean of three seeds."""
    found = {}

    def accuracy(name):
        if name not in found:
            runs = []
            for seed in range(3):
                layers = LEARN, {"method": {"name": name}}, {"train": {"seed": seed}}
                runs.append(train(tiny(*layers), out=tmp_path_factory.mktemp("learn") / "run"))
            found[name] = np.mean([run.history[-1]["test/accuracy"] for run in runs])
        return found[name]

    return accuracy


@pytest.mark.long
@pytest.mark.parametrize("name", ["elr-plus", "disc", "clipcleaner"])
def test_five_points_above_plain_cross_entropy(name, last_accuracy):
    # CLIPCleaner with the stand-in features of clip_helpers: noisy projections of the pixels.
    plain, mine = last_accuracy("supervised"), last_accuracy(name)
    print(f"{name}: {mine:.3f}, plain {plain:.3f}")
    assert mine >= plain + 0.05
