"""Data of one's own: arrays, map-style datasets, npz files, image folders, CSV files."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import TensorDataset

from edgemask.data import (
    FileSplit,
    Loader,
    TensorSplit,
    from_arrays,
    from_dataset,
    load,
    stratified_holdout,
)
from edgemask.data.splits import positions_by_class
from edgemask.errors import DataError, EdgeMaskWarning, UserError
from sweeps import sweep


def save_image(path: Path, size: tuple[int, int] = (16, 16), value: int = 100) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, (value, 10, 20)).save(path)
    return path


def folder(root: Path, per_class: int = 5, size: tuple[int, int] = (16, 16)) -> Path:
    for number, name in enumerate(("ant", "bee", "cat")):
        for i in range(per_class):
            save_image(root / name / f"{i}.png", size, value=50 * number + i)
    return root


# arrays -----------------------------------------------------------------------------------------


@sweep(
    ("x", "shape", "recipe"),
    [
        (np.zeros((20, 9, 9), np.uint8), (1, 9, 9), "array-images"),
        (np.zeros((20, 9, 9, 3), np.uint8), (3, 9, 9), "array-images"),
        (np.zeros((20, 3, 9, 9), np.uint8), (3, 9, 9), "array-images"),
        (np.zeros((20, 3, 120, 120), np.uint8), (3, 120, 120), "array-images"),
        (np.random.default_rng(0).random((20, 3, 9, 9)), (3, 9, 9), "float-images"),
        (np.random.default_rng(0).random((20, 6)), (6,), "features"),
        (torch.arange(40).view(20, 2), (2,), "features"),
    ],
)
def test_arrays_of_each_kind(x: np.ndarray, shape: tuple[int, ...], recipe: str) -> None:
    bundle = from_arrays(x, np.arange(20) % 4, test_fraction=0.25)
    assert (bundle.input_shape, bundle.recipe, bundle.num_classes) == (shape, recipe, 4)
    assert len(bundle.train) + len(bundle.test) == 20
    assert np.bincount(bundle.test.labels).tolist() == [1, 1, 1, 1]
    assert not bundle.clean_test
    batch = next(iter(Loader(bundle.train, bundle=bundle, batch_size=8)))
    assert batch.views[0].shape == (8, *shape)
    assert batch.views[0].dtype == torch.float32


def test_features_are_normalised_with_training_statistics() -> None:
    x = np.random.default_rng(0).normal(5, 3, (200, 4)).astype(np.float32)
    x[:, 3] = 7.0  # a constant feature must not divide by zero
    bundle = from_arrays(x, np.arange(200) % 2, x_test=x[:10], y_test=np.arange(10) % 2)
    batch = next(iter(Loader(bundle.train, bundle=bundle, views=("none",), batch_size=200)))
    view = batch.views[0]
    assert torch.allclose(view.mean(0), torch.zeros(4), atol=1e-5)
    assert torch.allclose(view.std(0, correction=0)[:3], torch.ones(3), atol=1e-4)
    assert torch.equal(view[:, 3], torch.zeros(200))


def test_names_as_labels_and_true_labels_beside_noisy_ones() -> None:
    x = np.random.default_rng(0).random((30, 2))
    given = np.array(["b", "a", "a"] * 10)
    true = np.array(["b", "a", "c"] * 10)
    bundle = from_arrays(x, given, y_clean=true, test_fraction=0.5)
    assert bundle.class_names == ("a", "b", "c")
    assert bundle.true_labels is not None
    assert len(bundle.true_labels) == len(bundle.train)
    assert 0.2 < (bundle.true_labels != bundle.train.labels).mean() < 0.5
    assert set(bundle.test.labels) == {0, 1, 2}  # the test set is scored with true labels
    assert bundle.clean_test
    assert not bundle.clean_known


@sweep(
    ("x", "y", "options", "message"),
    [
        (np.zeros((4, 2)), np.zeros(3, int), {}, "4 samples in x but 3 labels"),
        (np.zeros((4, 2)), np.array([0.5, 1, 1, 0]), {}, "0.5 in sample 0.*for classification"),
        (np.zeros((4, 2)), np.zeros((4, 2), int), {}, "one-dimensional"),
        (np.zeros((4, 5, 5, 7), np.uint8), np.zeros(4, int), {}, "1 or 3 channels"),
        (np.array([[1.0], [np.inf]]), np.array([0, 1]), {}, "not finite in sample 1"),
        (np.zeros((4, 2)), np.zeros(4, int), {}, "all labels are '0', which is one class"),
        (np.zeros((4, 2)), np.arange(4), {"x_test": np.zeros((1, 2))}, "given together"),
        (np.zeros((4, 2)), np.arange(4) % 2, {"test_fraction": 1.5}, "got 1.5"),
        (np.zeros((4, 2)), np.arange(4), {"class_names": ["a"]}, "label 1 of sample 1 is unknown"),
        (np.zeros((4, 9, 9), np.uint8), np.arange(4) % 2, {"recipe": "cifar10"}, "for 3 channels"),
    ],
)
def test_array_mistakes_are_named(x, y, options, message) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(DataError, match=message):
        from_arrays(x, y, **options)


def test_holdout_is_stratified_seeded_and_complete() -> None:
    labels = np.repeat([0, 1, 2], [50, 20, 1])
    kept, held = stratified_holdout(labels, 0.2, seed=4)
    assert sorted([*kept, *held]) == list(range(71))
    assert np.bincount(labels[held], minlength=3).tolist() == [10, 4, 0]
    assert np.array_equal(held, stratified_holdout(labels, 0.2, seed=4)[1])
    assert not np.array_equal(held, stratified_holdout(labels, 0.2, seed=5)[1])


def test_positions_by_class_are_those_of_a_plain_loop() -> None:
    labels = np.random.default_rng(0).integers(0, 50, 300) * 7
    found = positions_by_class(labels)
    assert [group.tolist() for group in found] == [
        [place for place in range(300) if labels[place] == label] for label in sorted(set(labels))
    ]
    assert positions_by_class(labels[:0]) == []


# map-style datasets -----------------------------------------------------------------------------


class RandomDataset:
    """A dataset with a random transform of its own, as torchvision's have."""

    classes = ("no", "yes")

    def __init__(self) -> None:
        self.targets = [i % 2 for i in range(12)]

    def __len__(self) -> int:
        return 12

    def __getitem__(self, position: int) -> tuple[torch.Tensor, int]:
        noise = torch.rand(3) + float(np.random.rand())
        return torch.full((3,), float(position)) + noise, self.targets[position]


@pytest.mark.parametrize("workers", [0, 2])
def test_dataset_with_random_transforms_is_reproducible(workers: int) -> None:
    bundle = from_dataset(RandomDataset(), RandomDataset())
    assert bundle.class_names == ("no", "yes")
    assert bundle.recipe == "as-given"
    loader = Loader(bundle.train, bundle=bundle, views=("weak", "weak"), batch_size=6,
                    workers=workers)  # fmt: skip
    before = torch.random.get_rng_state(), np.random.get_state()[1].copy()
    first, second = list(loader), list(loader)
    assert torch.equal(before[0], torch.random.get_rng_state())
    assert np.array_equal(before[1], np.random.get_state()[1])
    for a, b in zip(first, second, strict=True):
        assert torch.equal(a.views[0], b.views[0])
        assert not torch.equal(a.views[0], a.views[1])
        offset = a.views[0] - a.index[:, None]
        assert ((offset >= 0) & (offset < 2)).all()


def test_dataset_of_pictures_and_of_tokens() -> None:
    pictures = [(Image.new("RGB", (8, 6), (i, 0, 0)), i % 2) for i in range(10)]
    bundle = from_dataset(pictures, pictures)
    assert bundle.input_shape == (3, 6, 8)
    assert bundle.train.raw(torch.tensor([4]))[0, :, 0, 0].tolist() == [4, 0, 0]
    tokens = [(torch.tensor([i, i + 1, 0]), i % 2) for i in range(10)]
    bundle = from_dataset(tokens, tokens)
    loader = Loader(bundle.train, bundle=bundle, batch_size=10, shuffle=False)
    (batch,) = loader
    assert batch.views[0].dtype == torch.int64
    assert batch.views[0][:, 1].tolist() == list(range(1, 11))


@sweep(
    ("items", "message"),
    [
        ([{"image": 1, "label": 0}] * 4, "item 0 of the dataset is a dict"),
        ([("text", 0), ("more", 1)] * 2, "got str; give the dataset a transform"),
        ([(torch.zeros(2), 0), (torch.zeros(3), 1)] * 2, r"one shape, got \[\(2,\), \(3,\)\]"),
        ([(torch.zeros(2), -1)] * 4, "all labels are '-1', which is one class"),
    ],
)
def test_dataset_mistakes_are_named(items: list, message: str) -> None:
    with pytest.raises(DataError, match=message):
        from_dataset(items, items)


def test_dataset_of_uint8_images_goes_through_the_views() -> None:
    images = torch.randint(0, 256, (30, 3, 8, 8), dtype=torch.uint8)
    bundle = from_dataset(TensorDataset(images, torch.arange(30) % 3), clean=True)
    assert bundle.recipe == "array-images"
    assert bundle.num_classes == 3
    assert (len(bundle.train), len(bundle.test)) == (24, 6)
    batch = next(iter(Loader(bundle.train, bundle=bundle, views=("none",), batch_size=4)))
    mean, std = (torch.tensor(v).view(3, 1, 1) for v in bundle.normalisation)
    expected = (bundle.train.raw(batch.index).float() / 255 - mean) / std
    assert torch.allclose(batch.views[0], expected, atol=1e-5)


# npz --------------------------------------------------------------------------------------------


def test_npz_of_features_with_test_arrays(tmp_path: Path) -> None:
    file = tmp_path / "my.npz"
    x = np.random.default_rng(0).random((10, 3))
    np.savez(file, x=x, y=np.arange(10) % 2, x_test=x[:4], y_test=np.arange(4) % 2,
             class_names=np.array(["no", "yes"]))  # fmt: skip
    bundle = load(f"npz:{file}")
    assert (bundle.name, bundle.class_names) == ("my", ("no", "yes"))
    assert (len(bundle.train), len(bundle.test)) == (10, 4)
    assert bundle.clean_test


@sweep(
    ("arrays", "message"),
    [
        ({"x": np.zeros((2, 2))}, "expected x and y"),
        ({"x": np.zeros((2, 2)), "y": np.arange(2), "z": np.zeros(1)}, r"\['x', 'y', 'z'\]"),
        ({"x": np.array([{}, {}]), "y": np.arange(2)}, "plain arrays"),
    ],
)
def test_npz_mistakes_are_named(tmp_path: Path, arrays: dict, message: str) -> None:
    file = tmp_path / "bad.npz"
    np.savez(file, **arrays)
    with pytest.raises(DataError, match=f"bad.npz.*{message}"):
        load(f"npz:{file}")


def test_npz_with_a_pickle_inside_runs_nothing(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return Path.touch, (tmp_path / "executed",)  # type: ignore[return-value]

    file = tmp_path / "evil.npz"
    np.savez(file, x=np.array([Evil()], dtype=object), y=np.zeros(1, int))
    with pytest.raises(DataError, match=r"evil\.npz"):
        load(f"npz:{file}")
    assert not (tmp_path / "executed").exists()


def test_a_single_array_is_no_npz(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros(3))
    with pytest.raises(DataError, match=r"x\.npy: is no \.npz file"):
        load(f"npz:{tmp_path / 'x.npy'}")


def test_a_truncated_npz_is_named(tmp_path: Path) -> None:
    file = tmp_path / "cut.npz"
    np.savez(file, x=np.random.default_rng(0).random((50, 3)), y=np.arange(50))
    file.write_bytes(file.read_bytes()[:400])
    with pytest.raises(DataError, match=r"cut\.npz"):
        load(f"npz:{file}")
    with pytest.raises(DataError, match="no such file"):
        load(f"npz:{tmp_path / 'absent.npz'}")


# image folders ----------------------------------------------------------------------------------


def test_small_images_are_kept_in_memory(tmp_path: Path) -> None:
    bundle = load(f"imagefolder:{folder(tmp_path / 'pets')}")
    assert bundle.name == "pets"
    assert bundle.class_names == ("ant", "bee", "cat")
    assert bundle.input_shape == (3, 16, 16)
    assert isinstance(bundle.train, TensorSplit)
    assert (len(bundle.train), len(bundle.test)) == (12, 3)
    assert not bundle.clean_test
    assert bundle.train.names is not None
    for name, label, image in zip(
        bundle.train.names, bundle.train.labels, bundle.train.data, strict=True
    ):
        assert name.startswith(bundle.class_names[label])
        assert int(image[0, 0, 0]) == 50 * label + int(Path(name).stem)


@sweep("suffix", ["zip", "tar", "gztar"])
@sweep("wrapped", [False, True])
def test_an_archive_of_a_folder_is_unpacked_once(
    tmp_path: Path, suffix: str, wrapped: bool
) -> None:
    folder(tmp_path / "made" / "pets")
    top = tmp_path / "made" if wrapped else tmp_path / "made" / "pets"
    archive = shutil.make_archive(str(tmp_path / "my.pets"), suffix, top)
    shutil.rmtree(tmp_path / "made")
    bundle = load(f"imagefolder:{archive}")
    assert (bundle.name, bundle.class_names) == ("my.pets", ("ant", "bee", "cat"))
    before = (tmp_path / "my.pets").stat().st_mtime_ns
    assert len(load(f"imagefolder:{archive}").train) == 12
    assert (tmp_path / "my.pets").stat().st_mtime_ns == before


def test_train_and_test_folders(tmp_path: Path) -> None:
    folder(tmp_path / "train")
    folder(tmp_path / "test", per_class=2)
    folder(tmp_path / "val", per_class=1)
    bundle = load(f"imagefolder:{tmp_path}")
    assert [(name, len(split)) for name, split in bundle.tests.items()] == [("test", 6), ("val", 3)]
    assert bundle.validation is bundle.tests["val"]
    assert (len(bundle.train), bundle.clean_test) == (15, True)


@pytest.mark.parametrize("workers", [0, 1])
def test_large_images_are_read_when_asked_for(tmp_path: Path, workers: int) -> None:
    bundle = load(f"imagefolder:{folder(tmp_path, size=(150, 110))}", size=100)
    assert isinstance(bundle.train, FileSplit)
    assert bundle.input_shape == (3, 100, 100)
    views = ("none", "weak", "strong")
    loader = Loader(bundle.train, bundle=bundle, views=views, batch_size=4, workers=workers)
    for batch in loader:
        assert [tuple(view.shape) for view in batch.views] == [(len(batch.index), 3, 100, 100)] * 3
        mean, std = bundle.normalisation
        red = (batch.views[0][:, 0, 50, 50] * std[0] + mean[0]) * 255
        stems = [int(bundle.train.paths[i].stem) for i in batch.index]
        expected = 50 * batch.target + torch.tensor(stems)
        assert torch.allclose(red, expected.float(), atol=0.01)


@pytest.mark.parametrize("size", [None, 100])
def test_broken_images_are_an_error_or_skipped_with_a_count(
    tmp_path: Path, size: int | None
) -> None:
    folder(tmp_path)
    whole = (tmp_path / "ant" / "1.png").read_bytes()
    (tmp_path / "ant" / "1.png").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "bee" / "2.png").write_text("no image")

    def read_all() -> None:
        bundle = load(f"imagefolder:{tmp_path}", size=size)
        for split in (bundle.train, bundle.test):
            list(Loader(split, bundle=bundle, views=("none",), batch_size=20, workers=1))

    with pytest.raises(DataError, match=r"(ant/1|bee/2)\.png.*on_broken='skip'"):
        read_all()
    with pytest.warns(EdgeMaskWarning, match=r"2 of 15 images .*ant/1\.png, .*bee/2\.png") as seen:
        bundle = load(f"imagefolder:{tmp_path}", size=size, on_broken="skip")
    assert len(seen) == 1
    assert len(bundle.train) + len(bundle.test) == 13


def test_a_decompression_bomb_is_refused(tmp_path: Path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    folder(tmp_path)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    with pytest.raises(DataError, match=r"\.png: cannot be read.*DecompressionBomb"):
        load(f"imagefolder:{tmp_path}")


def test_folder_mistakes_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such folder"):
        load(f"imagefolder:{tmp_path / 'absent'}")
    (tmp_path / "a").mkdir()
    with pytest.raises(DataError, match="at least two classes, found 1"):
        load(f"imagefolder:{tmp_path}")
    (tmp_path / "b").mkdir()
    with pytest.raises(DataError, match=r"/a: holds no image"):
        load(f"imagefolder:{tmp_path}")
    folder(tmp_path / "set" / "train")
    save_image(tmp_path / "set" / "test" / "dog" / "1.png")
    save_image(tmp_path / "set" / "test" / "ant" / "1.png")
    with pytest.raises(DataError, match="'dog' is not among the training classes"):
        load(f"imagefolder:{tmp_path / 'set'}")


# CSV --------------------------------------------------------------------------------------------


def write_csv(path: Path, *rows: str, header: str = "path,label") -> Path:
    path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    return path


def test_csv_with_splits_and_true_labels(tmp_path: Path) -> None:
    for i in range(6):
        save_image(tmp_path / "img" / f"{i}.png", value=i)
    rows = [f"img/{i}.png,{'cat' if i % 2 else 'dog'},{'test' if i > 3 else 'train'},cat"
            for i in range(6)]  # fmt: skip
    file = write_csv(tmp_path / "list.csv", *rows, header="path,label,split,clean")
    bundle = load(f"csv:{file}")
    assert bundle.class_names == ("cat", "dog")
    assert bundle.train.labels.tolist() == [1, 0, 1, 0]
    assert bundle.test.labels.tolist() == [0, 0]  # true labels where they are known
    assert bundle.true_labels is not None
    assert bundle.true_labels.tolist() == [0, 0, 0, 0]
    assert bundle.train.names == ["img/0.png", "img/1.png", "img/2.png", "img/3.png"]


@sweep(
    ("rows", "message"),
    [
        (["a.png,0", "absent.png,1"], "list.csv, line 3: there is no file .*absent.png"),
        (["a.png,0", "a.png,"], "list.csv, line 3: the column 'label' is empty"),
        (["a.png,0", ",1"], "line 3: the column 'path' is empty"),
        (["a.png,0", "a.png,1,2"], "line 3: has more fields"),
        (["a.png,0", "a.png,1.5"], "1.5 in line 3.*for classification"),
        ([], "no rows"),
        (['a.png,"0'], "cannot be read as CSV"),
    ],
)
def test_csv_mistakes_name_file_and_line(tmp_path: Path, rows: list[str], message: str) -> None:
    save_image(tmp_path / "a.png")
    with pytest.raises(DataError, match=message):
        load(f"csv:{write_csv(tmp_path / 'list.csv', *rows)}")


def test_csv_header_and_split_mistakes(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="which column holds the labels"):
        load(f"csv:{write_csv(tmp_path / 'a.csv', 'x,1', header='file,kind')}")
    save_image(tmp_path / "a.png")
    file = write_csv(tmp_path / "b.csv", "a.png,0,train", "a.png,1,tset", header="path,label,split")
    with pytest.raises(DataError, match="line 3: unknown split 'tset'"):
        load(f"csv:{file}")


def test_csv_can_skip_missing_files(tmp_path: Path) -> None:
    for i in range(4):
        save_image(tmp_path / f"{i}.png")
    rows = [f"{i}.png,{i % 2}" for i in range(5)]
    with pytest.warns(EdgeMaskWarning, match="1 of 5 images .*4.png"):
        bundle = load(f"csv:{write_csv(tmp_path / 'l.csv', *rows)}", on_broken="skip")
    assert len(bundle.train) + len(bundle.test) == 4


# spec -------------------------------------------------------------------------------------------


@sweep(
    ("spec", "options", "message"),
    [
        ("digit", {}, "'digits'"),
        ("npz", {}, "needs a path: npz:PATH"),
        ("digits:here", {}, "takes no path"),
        ("digits", {"recpie": "x"}, "option of dataset 'digits'.*'recpie'"),
    ],
)
def test_spec_mistakes_are_named(spec: str, options: dict, message: str) -> None:
    with pytest.raises(UserError, match=message):
        load(spec, **options)
