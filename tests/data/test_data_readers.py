"""Readers of named datasets: official files, layouts, and broken or hostile files."""

from __future__ import annotations

import gzip
import io
import pickle
import struct
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from edgemask.data import BalancedSubset, FileSplit, Loader, load
from edgemask.data.readers._archives import extract
from edgemask.data.readers._files import read_checked
from edgemask.data.readers.mnist import read_idx
from edgemask.errors import DataError, EdgeMaskWarning, UserError
from sweeps import sweep

# digits -----------------------------------------------------------------------------------------


def test_digits_are_scikit_learns() -> None:
    from sklearn.datasets import load_digits

    bundle = load("digits")
    images = torch.cat([bundle.train.raw(torch.arange(1438)), bundle.test.raw(torch.arange(359))])
    labels = np.concatenate([bundle.train.labels, bundle.test.labels])
    found = load_digits()
    ours = sorted(
        (x.tobytes(), int(y))
        for x, y in zip((images[:, 0].numpy() / 255 * 16).round().astype(int), labels, strict=True)
    )
    theirs = sorted((x.astype(int).tobytes(), int(y)) for x, y in zip(
        found.images, found.target, strict=True))  # fmt: skip
    assert ours == theirs
    assert bundle.clean_known
    assert bundle.clean_test
    assert np.abs(np.bincount(bundle.test.labels) - 36).max() <= 1


# CIFAR ------------------------------------------------------------------------------------------


@pytest.mark.data
def test_cifar10(data_root: Path) -> None:
    bundle = load("cifar10", root=data_root)
    assert bundle.class_names[:3] == ("airplane", "automobile", "bird")
    assert np.bincount(bundle.train.labels).tolist() == [5000] * 10
    assert np.bincount(bundle.test.labels).tolist() == [1000] * 10
    pixels = bundle.train.data[::5].float() / 255
    mean, std = bundle.normalisation  # the published constants are those of the training pixels
    assert torch.allclose(pixels.mean((0, 2, 3)), torch.tensor(mean), atol=4e-3)
    assert torch.allclose(pixels.std((0, 2, 3)), torch.tensor(std), atol=4e-3)
    batch = next(iter(Loader(bundle.train, bundle=bundle, views=("none",), batch_size=2000)))
    assert float(batch.views[0].mean().abs()) < 0.05


@pytest.mark.data
def test_cifar100_and_its_recipes(data_root: Path) -> None:
    bundle = load("cifar100", root=data_root)
    assert bundle.num_classes == 100
    assert bundle.class_names[80] == "squirrel"
    assert np.bincount(bundle.train.labels).tolist() == [500] * 100
    other = load("cifar100", root=data_root / "cifar-100-python", recipe="josnc")
    assert other.normalisation[1] == (0.2009, 0.1984, 0.2023)
    with pytest.raises(UserError, match=r"unknown recipe for cifar100 'joscn'.*'jo-snc'"):
        load("cifar100", root=data_root, recipe="joscn")


@pytest.mark.data
def test_cifar80n_o_keeps_foreign_images_in_training_only(data_root: Path) -> None:
    from edgemask import noise

    bundle = load("cifar80n-o", root=data_root)
    assert (bundle.num_classes, len(bundle.class_names)) == (80, 80)
    assert (len(bundle.train), len(bundle.test)) == (50_000, 8_000)
    assert int((bundle.train.labels >= 80).sum()) == 10_000
    assert int(bundle.test.labels.max()) == 79
    with pytest.raises(DataError, match="open-set dataset needs its noise first"):
        Loader(bundle.train, bundle=bundle, batch_size=8)
    made = noise.open_set(bundle.train.labels, 0.2, bundle.label_classes)
    wrong = (made.noisy != bundle.train.labels).mean()
    assert abs(wrong - 0.36116) < 5e-6
    Loader(bundle.train, made.noisy, bundle=bundle, batch_size=8)


def test_a_missing_dataset_says_what_belongs_where(tmp_path: Path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.delenv("EDGEMASK_DATA", raising=False)
    with pytest.raises(DataError, match=r"set EDGEMASK_DATA.*cifar-10-batches-py"):
        load("cifar10")
    monkeypatch.setenv("EDGEMASK_DATA", str(tmp_path))
    with pytest.raises(DataError, match=r"cifar-10-batches-py: missing data_batch_1, .* 2 more"):
        load("cifar10")
    with pytest.raises(DataError, match=r"mnist: missing train-images-idx3-ubyte\.gz"):
        load("mnist")


def fake_cifar(root: Path) -> Path:
    folder = root / "cifar-100-python"
    folder.mkdir()
    for name in ("train", "test", "meta"):
        (folder / name).write_bytes(pickle.dumps({b"fine_label_names": [b"a"]}))
    return folder


def test_a_changed_cifar_archive_is_not_unpacked(tmp_path: Path) -> None:
    make_tar(tmp_path / "cifar-10-python.tar.gz", "cifar-10-batches-py/data_batch_1")
    with pytest.raises(DataError, match=r"cifar-10-python\.tar\.gz: md5 is .* c58f3010"):
        load("cifar10", root=tmp_path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["cifar-10-python.tar.gz"]


def test_a_changed_cifar_file_is_refused_by_its_md5(tmp_path: Path) -> None:
    fake_cifar(tmp_path)
    with pytest.raises(DataError, match=r"meta: md5 is .*, the official file has 7973b151"):
        load("cifar100", root=tmp_path)


@pytest.mark.data
def test_a_truncated_cifar_file_is_refused(tmp_path: Path, data_root: Path) -> None:
    for file in (data_root / "cifar-100-python").iterdir():
        target = tmp_path / "cifar-100-python" / file.name
        target.parent.mkdir(exist_ok=True)
        target.symlink_to(file)
    (tmp_path / "cifar-100-python" / "test").unlink()
    content = (data_root / "cifar-100-python" / "test").read_bytes()
    (tmp_path / "cifar-100-python" / "test").write_bytes(content[:-1000])
    with pytest.raises(DataError, match=r"test: md5 is .* truncated or changed"):
        load("cifar100", root=tmp_path)


def test_checked_reading_names_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="absent: there is no such file"):
        read_checked(tmp_path / "absent")


# idx --------------------------------------------------------------------------------------------


def idx(array: np.ndarray) -> bytes:
    header = struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape)
    return header + array.tobytes()


def write_mnist(folder: Path, labels: np.ndarray | None = None) -> None:
    folder.mkdir(parents=True)
    images = np.random.default_rng(0).integers(0, 256, (20, 28, 28)).astype(np.uint8)
    labels = (np.arange(20) % 10).astype(np.uint8) if labels is None else labels
    (folder / "train-images-idx3-ubyte").write_bytes(idx(images))
    (folder / "train-labels-idx1-ubyte").write_bytes(idx(labels))
    (folder / "t10k-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx(images[:10])))
    (folder / "t10k-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx(labels[:10])))


def test_mnist_plain_and_gzipped(tmp_path: Path) -> None:
    write_mnist(tmp_path / "mnist")
    bundle = load("mnist", root=tmp_path)
    assert (bundle.input_shape, len(bundle.train), len(bundle.test)) == ((1, 28, 28), 20, 10)
    assert bundle.normalisation == ((0.1307,), (0.3081,))


def test_mnist_label_out_of_range_names_file_and_sample(tmp_path: Path) -> None:
    labels = np.zeros(20, np.uint8)
    labels[13] = 10
    write_mnist(tmp_path / "mnist", labels)
    with pytest.raises(DataError, match="train-labels-idx1-ubyte: the label 10 of sample 13"):
        load("mnist", root=tmp_path)


@pytest.mark.skipif(
    not Path("/usr/share/datasets/fashion-mnist").is_dir(),
    reason="Debian's dataset-fashion-mnist is not installed",
)
def test_fashion_mnist_from_debian(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.delenv("EDGEMASK_DATA", raising=False)
    bundle = load("fashion-mnist")
    assert np.bincount(bundle.train.labels).tolist() == [6000] * 10
    assert np.bincount(bundle.test.labels).tolist() == [1000] * 10
    pixels = bundle.train.data.double() / 255
    assert abs(float(pixels.mean()) - bundle.normalisation[0][0]) < 1e-4
    assert abs(float(pixels.std()) - bundle.normalisation[1][0]) < 1e-4


GOOD = idx(np.zeros((3, 2, 2), np.uint8))


@sweep(
    ("data", "message"),
    [
        (GOOD[:-1], "promises 28 bytes"),
        (GOOD + b"x", "promises 28 bytes"),
        (GOOD[:6], "not an idx file"),
        (b"", "not an idx file"),
        (b"\0\0\x0d\x01" + GOOD[4:], "not an idx file"),
        (b"\0\0\x08\x03" + b"\xff" * 12, "promises"),
        (b"\0\0\x08\x00", "promises"),
        (gzip.compress(GOOD)[:-9], "cannot be read"),
        (gzip.compress(GOOD)[:12], "cannot be read"),
    ],
)
def test_broken_idx_files_are_named(data: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "file-ubyte").write_bytes(data)
    with pytest.raises(DataError, match=f"file-ubyte: .*{message}"):
        read_idx(tmp_path / "file-ubyte")


# archives ---------------------------------------------------------------------------------------


def make_zip(path: Path, *names: str) -> Path:
    with zipfile.ZipFile(path, "w") as file:
        for name in names:
            file.writestr(name, "content")
    return path


def make_tar(path: Path, *members: tarfile.TarInfo | str) -> Path:
    with tarfile.open(path, "w:gz") as file:
        for member in members:
            info = tarfile.TarInfo(member) if isinstance(member, str) else member
            info.size = 7 if info.isfile() else 0
            file.addfile(info, io.BytesIO(b"content") if info.isfile() else None)
    return path


def link(kind: bytes, target: str) -> tarfile.TarInfo:
    info = tarfile.TarInfo("link")
    info.type, info.linkname = kind, target
    return info


def test_honest_archives_are_unpacked(tmp_path: Path) -> None:
    extract(make_zip(tmp_path / "a.zip", "x/1.txt", "2.txt"), tmp_path / "zip")
    extract(make_tar(tmp_path / "a.tar.gz", "x/1.txt", "2.txt"), tmp_path / "tar")
    for name in ("zip", "tar"):
        assert (tmp_path / name / "x" / "1.txt").read_text() == "content"
        assert (tmp_path / name / "2.txt").read_text() == "content"
    extract(make_zip(tmp_path / "mac.zip", "top/1.txt", "__MACOSX/top/._1.txt"), tmp_path / "mac")
    assert [entry.name for entry in (tmp_path / "mac").iterdir()] == ["1.txt"]
    with pytest.raises(DataError, match="exists already"):
        extract(tmp_path / "a.zip", tmp_path / "zip")


@sweep("name", ["../out.txt", "x/../../out.txt", "/out.txt", "..\\out.txt", "C:/o"])
@sweep("make", [make_zip, make_tar])
def test_archives_that_leave_their_folder_are_refused(tmp_path: Path, make, name: str) -> None:  # type: ignore[no-untyped-def]
    inner = tmp_path / "inner"
    inner.mkdir()
    archive = make(tmp_path / "bad", "good.txt", name)
    with pytest.raises(DataError, match=r"bad: refused: its member .* would leave the folder"):
        extract(archive, inner / "data")
    assert list(inner.iterdir()) == []  # nothing half-written
    assert not (tmp_path / "out.txt").exists()


@sweep(
    "member",
    [link(tarfile.SYMTYPE, "/etc/passwd"), link(tarfile.LNKTYPE, "good.txt"),
     link(tarfile.CHRTYPE, ""), link(tarfile.FIFOTYPE, "")],
)  # fmt: skip
def test_links_and_devices_are_refused(tmp_path: Path, member: tarfile.TarInfo) -> None:
    with pytest.raises(DataError, match="'link' is no file or folder"):
        extract(make_tar(tmp_path / "bad.tar", "good.txt", member), tmp_path / "data")
    assert [entry.name for entry in tmp_path.iterdir()] == ["bad.tar"]


def test_zip_links_are_refused(tmp_path: Path) -> None:
    info = zipfile.ZipInfo("link")
    info.external_attr = 0o120777 << 16
    with zipfile.ZipFile(tmp_path / "bad.zip", "w") as file:
        file.writestr(info, "/etc/passwd")
    with pytest.raises(DataError, match="'link' is a link"):
        extract(tmp_path / "bad.zip", tmp_path / "data")
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("name", ["a.zip", "a.tar.gz"])
def test_truncated_archives_leave_nothing(tmp_path: Path, name: str) -> None:
    archive = tmp_path / name
    members = [f"{i}.txt" for i in range(50)]
    (make_zip if name == "a.zip" else make_tar)(archive, *members)
    archive.write_bytes(archive.read_bytes()[:-40])
    with pytest.raises(DataError, match="cannot be unpacked"):
        extract(archive, tmp_path / "data")
    assert [entry.name for entry in tmp_path.iterdir()] == [name]


# WebVision and Clothing1M, on tiny folders of the official layout -----------------------------


def picture(path: Path, value: int, size: tuple[int, int] = (40, 30)) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, (value, value, value)).save(path)


def make_webvision(root: Path, *, by_number: bool = False) -> Path:
    folder = root / "webvision"
    train, val = [], []
    for label in (*range(50), 50, 51):
        picture(folder / "google" / f"q{label:04d}" / "a.jpg", label)
        train.append(f"google/q{label:04d}/a.jpg {label}")
        picture(folder / "val_images_256" / f"val{label:06d}.jpg", label)
        val.append(f"val{label:06d}.jpg {label}")
        name = str(label) if by_number else f"n{label:08d}"
        picture(root / "imagenet" / "val" / name / "ILSVRC2012_val.JPEG", label)
    (folder / "info").mkdir()
    (folder / "info" / "train_filelist_google.txt").write_text("\n".join(train))
    (folder / "info" / "val_filelist.txt").write_text("\n".join(val))
    if not by_number:
        lines = [f"n{label:08d} fish {label}, other name" for label in range(1000)]
        (folder / "info" / "synsets.txt").write_text("\n".join(lines))
    return folder


@pytest.mark.parametrize("by_number", [False, True])
def test_webvision_mini_reads_fifty_classes_and_two_test_sets(
    tmp_path: Path, by_number: bool
) -> None:
    make_webvision(tmp_path, by_number=by_number)
    bundle = load("webvision-mini", root=tmp_path)
    assert list(bundle.tests) == ["webvision", "ilsvrc12"]
    assert bundle.class_names[7] == ("7" if by_number else "fish 7")
    assert bundle.input_shape == (3, 224, 224)
    assert not bundle.clean_known
    for split in (bundle.train, *bundle.tests.values()):
        assert isinstance(split, FileSplit)
        assert split.labels.tolist() == list(range(50))
        raw = split.raw(torch.tensor([7, 30]))
        assert (raw[:, 0, 100, 100].int() - torch.tensor([7, 30])).abs().max() <= 1
    loader = Loader(bundle.train, bundle=bundle, views=("weak", "strong"), batch_size=4,
                    indices=range(8))  # fmt: skip
    assert [tuple(b.views[1].shape) for b in loader] == [(4, 3, 224, 224)] * 2
    large = load("webvision-mini", root=tmp_path, recipe="dividemix", ilsvrc12=False)
    assert (large.input_shape, list(large.tests)) == ((3, 299, 299), ["webvision"])


def test_webvision_says_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"webvision: missing info/train_filelist_google.txt"):
        load("webvision-mini", root=tmp_path)
    folder = make_webvision(tmp_path)
    listing = folder / "info" / "val_filelist.txt"
    good = listing.read_text()
    listing.write_text(good + "\nval9.jpg three")
    with pytest.raises(DataError, match=r"val_filelist.txt, line 53: expected 'IMAGE NUMBER'"):
        load("webvision-mini", root=tmp_path)
    for outside in ("../../secret.jpg", "/etc/passwd"):
        listing.write_text(f"{outside} 1")
        with pytest.raises(DataError, match=r"val_filelist.txt: the path .* leaves the folder"):
            load("webvision-mini", root=tmp_path)
    listing.write_text("absent.jpg 1")
    with pytest.raises(DataError, match=r"its first image .*absent.jpg is missing"):
        load("webvision-mini", root=tmp_path)
    listing.write_text(good)
    (tmp_path / "imagenet" / "val" / "n00000003").rename(tmp_path / "elsewhere")
    with pytest.raises(DataError, match=r"no folder for class 3 \(3 or n00000003\)"):
        load("webvision-mini", root=tmp_path)
    (tmp_path / "imagenet").rename(tmp_path / "moved")
    with pytest.raises(DataError, match=r"imagenet/val: missing.*ilsvrc12=False"):
        load("webvision-mini", root=tmp_path)


def make_clothing(root: Path, *, annotations: bool = False) -> Path:
    folder = root / "clothing1m"
    lists = folder / "annotations" if annotations else folder
    lists.mkdir(parents=True)
    noisy, clean, keys = [], [], {}
    for part, count in (
        ("noisy_train", 56),
        ("clean_train", 5),
        ("clean_val", 4),
        ("clean_test", 3),
    ):
        keys[part] = [f"images/{part}/{i},1.jpg" for i in range(count)]
        for i, key in enumerate(keys[part]):
            picture(folder / key, i)
            if part == "noisy_train":
                noisy.append(f"{key} {i % 14 if i < 42 else 0}")
            else:
                clean.append(f"{key} {13 - i}")
    noisy.append(f"{keys['clean_train'][0]} 2")
    for part, names in keys.items():
        (lists / f"{part}_key_list.txt").write_text("\n".join(names) + "\n")
    (lists / "noisy_label_kv.txt").write_text("\n".join(noisy))
    (lists / "clean_label_kv.txt").write_text("\n".join(clean))
    return lists


@pytest.mark.parametrize("annotations", [False, True])
def test_clothing1m_has_noisy_training_and_clean_validation(
    tmp_path: Path, annotations: bool
) -> None:
    make_clothing(tmp_path, annotations=annotations)
    bundle = load("clothing1m", root=tmp_path)
    assert bundle.num_classes == 14
    assert (len(bundle.train), len(bundle.test)) == (56, 3)
    assert bundle.validation is not None
    assert bundle.validation.labels.tolist() == [13, 12, 11, 10]
    assert not bundle.clean_known
    subset = BalancedSubset(bundle.train.labels, 28)
    drawn = np.bincount(bundle.train.labels[subset(0)], minlength=14)
    assert drawn.tolist() == [2] * 14
    loader = Loader(bundle.train, bundle=bundle, batch_size=14, indices=subset, workers=1)
    assert [tuple(b.views[0].shape) for b in loader] == [(14, 3, 224, 224)] * 2
    more = load("clothing1m", root=tmp_path, with_clean_train=True)
    assert more.train.labels[56:].tolist() == [2, 12, 11, 10, 9]


def test_clothing1m_says_what_is_missing_or_wrong(tmp_path: Path) -> None:
    lists = make_clothing(tmp_path)
    labels = lists / "noisy_label_kv.txt"
    good = labels.read_text()
    labels.write_text(good.replace("1,1.jpg 1", "1,1.jpg 14"))
    with pytest.raises(DataError, match=r"noisy_label_kv.txt, line 2: label 14 is out of range"):
        load("clothing1m", root=tmp_path)
    labels.write_text(good.split("\n", 1)[1])
    with pytest.raises(DataError, match=r"noisy_train_key_list.txt, line 1: there is no label for"):
        load("clothing1m", root=tmp_path)
    labels.write_text(good)
    (tmp_path / "clothing1m" / "images" / "noisy_train" / "3,1.jpg").write_text("broken")
    with pytest.warns(EdgeMaskWarning, match=r"1 of 56 images .*3,1.jpg"):
        bundle = load("clothing1m", root=tmp_path, on_broken="skip")
    assert len(bundle.train) == 55
    labels.unlink()
    with pytest.raises(DataError, match=r"missing noisy_label_kv.txt"):
        load("clothing1m", root=tmp_path)
