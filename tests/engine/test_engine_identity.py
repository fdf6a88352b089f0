"""A finished run is taken for done only if everything that went into it is the same."""

from __future__ import annotations

import functools
import os
import shutil
import warnings

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn
from torch.utils.data import Dataset

import edgemask as em
from edgemask._options import checked
from edgemask.engine import load_run, resume
from edgemask.engine.fingerprint import UnidentifiedError, file_fingerprint, fingerprint
from edgemask.errors import EdgeMaskWarning, UserError
from edgemask.losses.base import loss

TRACKERS = {"log": {"trackers": []}}
QUICK = {**TRACKERS, "data": {"limit": 40, "test_limit": 20}}


@pytest.fixture(autouse=True)
def own_folders(tmp_path, monkeypatch):
    """Keep runs and caches of a test to itself."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def table(seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(60, 4)).astype(np.float32), np.arange(60) % 3


def fitted(data="digits", labels=None, **keywords):
    return em.fit(data, labels, epochs=1, settings=QUICK, **keywords)


class MyLoss(nn.Module):
    """Its option shows in no ``repr``."""

    def __init__(self, weight):
        super().__init__()
        self.weight = weight

    def forward(self, logits, target):
        return self.weight * nn.functional.cross_entropy(logits, target)


class Sharpened(nn.Module):
    """Keeps its option in a tensor."""

    def __init__(self, power):
        super().__init__()
        self.register_buffer("power", torch.tensor(float(power)), persistent=False)

    def forward(self, logits, target):
        return nn.functional.cross_entropy(logits * self.power, target)


def net(seed):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, 10))


class Pairs(Dataset):
    def __init__(self, x, y):
        self.x, self.y = x, y

    def __len__(self):
        return len(self.y)

    def __getitem__(self, index):
        return torch.from_numpy(self.x[index]), int(self.y[index])


@pytest.mark.parametrize("loss", [MyLoss, Sharpened])
def test_losses_with_other_options_are_other_runs(loss):
    first = fitted(loss=loss(0.001))
    assert fitted(loss=loss(0.001)).path == first.path
    other = fitted(loss=loss(50))
    assert other.path != first.path
    assert not np.array_equal(other.samples["mean_loss"], first.samples["mean_loss"])


def test_networks_with_other_weights_are_other_runs():
    first = fitted(model=net(0))
    assert fitted(model=net(0)).path == first.path
    assert fitted(model=net(1)).path != first.path


def test_one_changed_sample_makes_another_run():
    x, y = table()
    first = fitted(x, y)
    assert fitted(x.copy(), y.copy()).path == first.path
    for changed in (x.copy(), y.copy()):
        changed[37] += 1 if changed.ndim == 2 else 0
        changed.flat[37] = (changed.flat[37] + 1) % 3
        again = (changed, y) if changed.ndim == 2 else (x, changed)
        assert fitted(*again).path != first.path
    tested = fitted(x, y, test=(x[:9], y[:9]))
    assert fitted(x, y, test=(x[9:18], y[9:18])).path != tested.path


def test_datasets_go_by_what_they_hold():
    x, y = table()
    first = fitted(Pairs(x, y))
    assert fitted(Pairs(x.copy(), y)).path == first.path
    assert fitted(Pairs(x + 1, y)).path != first.path


def test_files_go_by_their_bytes(tmp_path):
    x, y = table()
    path = tmp_path / "my.npz"
    np.savez(path, x=x, y=y)
    first = fitted(f"npz:{path}")
    os.utime(path, ns=(1, 1))
    assert fitted(f"npz:{path}").path == first.path
    changed = x.copy()
    changed[7, 0] += 1
    np.savez(path, x=changed, y=y)
    assert fitted(f"npz:{path}").path != first.path
    with pytest.raises(UserError, match=r"contents differ \(data\).*fresh=True"):
        resume(first.path)


def test_label_files_go_by_their_bytes(tmp_path):
    labels = em.data.load("digits").train.labels
    folder = tmp_path / "data"
    folder.mkdir()
    np.save(folder / "labels.npy", labels)
    np.save(folder / "matrix.npy", np.eye(10))
    below = {"data": {"root": str(folder), "limit": 40, "test_limit": 20}, **TRACKERS}
    for name, changed in (("labels", (labels + 1) % 10), ("matrix", np.eye(10)[::-1])):
        for spec, settings in ((folder / f"{name}.npy", QUICK), (f"{name}.npy", below)):
            kind = "file" if name == "labels" else name
            call = {"noise": f"{kind}:{spec}", "epochs": 1, "settings": settings}
            planned = em.fit("digits", dry_run=True, **call)
            before = (folder / f"{name}.npy").read_bytes()
            np.save(folder / f"{name}.npy", changed)
            assert em.fit("digits", dry_run=True, **call).path != planned.path
            (folder / f"{name}.npy").write_bytes(before)


def write_idx(path, values):
    header = bytes([0, 0, 8, values.ndim]) + np.array(values.shape, ">u4").tobytes()
    path.write_bytes(header + values.astype(np.uint8).tobytes())


def test_named_datasets_go_by_the_bytes_of_their_files(tmp_path):
    rng = np.random.default_rng(0)
    for part, count in (("train", 40), ("t10k", 20)):
        (tmp_path / "one" / "mnist").mkdir(parents=True, exist_ok=True)
        images, labels = rng.integers(0, 255, (count, 28, 28)), np.arange(count) % 10
        write_idx(tmp_path / "one" / "mnist" / f"{part}-images-idx3-ubyte", images)
        write_idx(tmp_path / "one" / "mnist" / f"{part}-labels-idx1-ubyte", labels)
    shutil.copytree(tmp_path / "one", tmp_path / "two")

    def path(root):
        settings = {**TRACKERS, "data": {"root": str(tmp_path / root)}}
        return em.fit("mnist", model="mlp", settings=settings, dry_run=True).path

    first = path("one")
    (tmp_path / "two" / "mnist" / ".hidden").write_text("x")
    assert path("two") == first
    write_idx(tmp_path / "two" / "mnist" / "train-images-idx3-ubyte", images.repeat(2, 0))
    assert path("two") != first
    assert path("one") == first


def test_an_archive_goes_by_what_was_unpacked(tmp_path):
    for number in range(8):
        folder = tmp_path / "photos" / "ab"[number % 2]
        folder.mkdir(parents=True, exist_ok=True)
        pixels = np.full((8, 8, 3), 20 * number, np.uint8)
        Image.fromarray(pixels).save(folder / f"{number}.png")
    archive = shutil.make_archive(str(tmp_path / "photos"), "zip", tmp_path / "photos")
    shutil.rmtree(tmp_path / "photos")

    def path():
        return em.fit(f"imagefolder:{archive}", dry_run=True, settings=TRACKERS).path

    first = path()  # this unpacks it
    assert path() == first
    (tmp_path / "photos" / "a" / "0.png").write_bytes(
        (tmp_path / "photos" / "a" / "2.png").read_bytes()
    )
    assert path() != first


def test_a_registered_dataset_goes_by_its_samples(monkeypatch):
    from edgemask.data import DATASETS

    monkeypatch.setattr(DATASETS, "_entries", dict(DATASETS._entries))
    monkeypatch.setattr(DATASETS, "_paths", dict(DATASETS._paths))
    x, y = table()
    em.register("dataset", "of-mine", lambda: em.data.from_arrays(x, y))
    first = em.fit("of-mine", dry_run=True, settings=TRACKERS).path
    assert em.fit("of-mine", dry_run=True, settings=TRACKERS).path == first
    x[3] += 1
    assert em.fit("of-mine", dry_run=True, settings=TRACKERS).path != first


@pytest.mark.parametrize("kind", ["imagefolder", "csv"])
def test_a_changed_image_makes_another_run(kind, tmp_path):
    lines = ["path,label"]
    for number in range(12):
        name = f"{'ab'[number % 2]}/{number}.png"
        (tmp_path / "photos" / name).parent.mkdir(parents=True, exist_ok=True)
        pixels = np.full((8, 8, 3), 20 * number, np.uint8)
        Image.fromarray(pixels).save(tmp_path / "photos" / name)
        lines.append(f"{name},{'ab'[number % 2]}")
    (tmp_path / "photos" / "list.csv").write_text("\n".join(lines))
    folder = tmp_path / "photos"
    spec = f"imagefolder:{folder}" if kind == "imagefolder" else f"csv:{folder / 'list.csv'}"
    if kind == "imagefolder":
        (folder / "list.csv").unlink()
    first = fitted(spec)
    assert fitted(spec).path == first.path
    Image.fromarray(pixels).save(folder / "a" / "0.png")
    assert fitted(spec).path != first.path


def test_what_cannot_be_known_gets_a_run_of_its_own(tmp_path):
    def lambdas():
        return lambda: net(0)

    with pytest.warns(EdgeMaskWarning, match="model: .*cannot be known.*lambda"):
        first = fitted(model=lambdas())
    with pytest.warns(EdgeMaskWarning, match="this run is a new one"):
        assert fitted(model=lambdas()).path != first.path
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EdgeMaskWarning)
        run = fitted(model=lambdas(), out=tmp_path / "run")
        with pytest.raises(UserError, match=r"whether its model was the same.*fresh=True"):
            fitted(model=lambdas(), out=run.path)
        assert fitted(model=lambdas(), out=run.path, fresh=True).finished


def closing(weight):
    class Closed(nn.Module):
        def forward(self, logits, target):
            return weight * nn.functional.cross_entropy(logits, target)

    def function():
        return weight

    return Closed(), function


def registrable(value):
    """Classes whose constructors check their arguments, as ours do."""

    @loss
    class Weighted(em.losses.GCELoss):
        weight: tuple[float, ...] = (1.0, value)

    class Scaled(nn.Linear):
        @checked
        def __init__(self, inputs: int, outputs: int, *, rate: float = value):
            super().__init__(inputs, outputs)

    return Weighted, Scaled


def test_fingerprints_tell_values_apart_and_know_them_again():
    class Slots:
        __slots__ = ("value",)

    def pair(make, *values):
        return [fingerprint(make(value)) for value in values]

    kinds = [
        MyLoss,
        lambda v: closing(v)[0],
        lambda v: closing(v)[1],
        lambda v: functools.partial(MyLoss, v),
        lambda v: {"a": [v, {v}]},
        lambda v: np.array([v, None]),
        lambda v: torch.tensor([v], dtype=torch.bfloat16),
        lambda v: MyLoss(v).forward,
        lambda v: registrable(v)[0],
        lambda v: registrable(v)[1],
    ]
    for make in kinds:
        first, again, other = pair(make, 1, 1, 2)
        assert first == again
        assert first != other
    assert len({fingerprint(value) for value in (1, "1", 1.0, True, None)}) == 5
    loop = []
    loop.append(loop)
    assert fingerprint(loop)
    for unknown in (lambda: 1, Slots(), (i for i in "a")):
        with pytest.raises(UnidentifiedError):
            fingerprint(unknown)


def test_hashes_of_files_are_kept_and_follow_changes(tmp_path, monkeypatch):
    path = tmp_path / "file"
    path.write_bytes(b"one")
    first = file_fingerprint(path)
    reads = []
    monkeypatch.setattr(
        "edgemask.engine.fingerprint.hashlib.file_digest", lambda *a: reads.append(a)
    )
    assert file_fingerprint(path) == first
    assert not reads
    monkeypatch.undo()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path.write_bytes(b"two")
    os.utime(path, ns=(5, 5))
    assert file_fingerprint(path) != first
    (tmp_path / "cache" / "edgemask" / "files.json").write_text("[damaged")
    assert file_fingerprint(path) != first


def test_a_registered_class_goes_by_its_code(monkeypatch):
    from edgemask.losses import LOSSES

    def define(factor):
        class Halved(em.losses.CELoss):
            """Registered from outside."""

            def forward(self, *arguments):
                return factor * super().forward(*arguments)

        return Halved

    monkeypatch.setattr(LOSSES, "_entries", dict(LOSSES._entries))
    monkeypatch.setattr(LOSSES, "_paths", dict(LOSSES._paths))
    em.register("loss", "halved", define(0.5))
    first = fitted(loss="halved")
    assert first.config.loss.name == f"{__name__}:{define(0.5).__qualname__}"
    em.register("loss", "halved", define(0.25))
    assert fitted(loss="halved").path != first.path


def test_an_older_run_folder_is_read_and_not_resumed(tmp_path):
    from pathlib import Path

    stored = Path(__file__).parent.parent / "fixtures" / "runs" / "v1"
    folder = Path(shutil.copytree(stored, tmp_path / "run"))
    assert load_run(folder).summary["status"] == "finished"
    with pytest.raises(UserError, match=r"schema 1.*cannot be resumed") as caught:
        resume(folder)
    assert "\n" not in str(caught.value)
