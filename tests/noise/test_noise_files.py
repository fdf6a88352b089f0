"""Label files of a user: every format, every way to be broken, nothing executed."""

from __future__ import annotations

import json
import pickle
import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch

from edgemask import noise
from edgemask.errors import DataError
from sweeps import sweep

NOISY = [2, 0, 1, 1, 2, 0]
TRUE = [2, 0, 1, 0, 2, 1]


class Evil:
    """A pickle of it would write a file."""

    def __init__(self, path: Path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def _write(folder: Path) -> dict[str, Path | str]:
    np.save(folder / "a.npy", np.array(NOISY, dtype=np.uint8))
    np.savez(folder / "one.npz", anything=NOISY)
    np.savez(folder / "named.npz", other=TRUE, noisy_label=NOISY)
    np.savez(folder / "many.npz", first=TRUE, second=NOISY)
    (folder / "plain.csv").write_text("\n".join(map(str, NOISY)))
    (folder / "header.csv").write_text("path,label\n" + "".join(f"x,{y}\n" for y in NOISY))
    (folder / "column.csv").write_text("a,b\n" + "".join(f"0,{y}\n" for y in NOISY))
    rows = "".join(f"{i},{y}\n" for i, y in reversed(list(enumerate(NOISY))))
    (folder / "index.csv").write_text("\ufeffindex,guess\n" + rows, encoding="utf-8")
    (folder / "a.txt").write_text("\r\n".join(map(str, NOISY)) + "\r\n\r\n")
    torch.save(torch.tensor(NOISY), folder / "tensor.pt")
    torch.save({"labels": np.array(NOISY)}, folder / "dict.pt")
    torch.save(
        {"labels": torch.tensor(NOISY, dtype=torch.int32)},
        folder / "legacy.pt",
        _use_new_zipfile_serialization=False,
    )
    torch.save(NOISY, folder / "list.pth")
    names = "a.npy one.npz named.npz many.npz#second plain.csv header.csv column.csv#b index.csv "
    names += "a.txt tensor.pt dict.pt legacy.pt list.pth"
    return {name: folder / name for name in names.split()}


@sweep(
    "name",
    [
        "a.npy",
        "one.npz",
        "named.npz",
        "many.npz#second",
        "plain.csv",
        "header.csv",
        "column.csv#b",
        "index.csv",
        "a.txt",
        "tensor.pt",
        "dict.pt",
        "legacy.pt",
        "list.pth",
    ],
)
def test_formats(name, tmp_path):
    path = _write(tmp_path)[name]
    made = noise.from_file(TRUE, path, 3)
    assert made.noisy.tolist() == NOISY
    assert made.realised_rate == pytest.approx(2 / 6)
    assert made.rate is None
    assert made.details["file"] == name.split("#")[0]
    unknown = noise.from_file(None, str(path), 3)
    assert unknown.clean is None
    assert unknown.noisy.tolist() == NOISY


def test_key_as_an_argument(tmp_path):
    files = _write(tmp_path)
    assert noise.from_file(TRUE, files["named.npz"], 3, key="other").noisy.tolist() == TRUE


@sweep(
    ("name", "content", "message"),
    [
        ("x.csv", "label\n0\none\n1\n", "line 3: 'one' is not a whole number"),
        ("x.csv", "label,path\n0,a\n1\n", "line 3: 1 cells, but the header 2"),
        ("x.csv", "label,path\n0,a\n,b\n", "line 3: there is no label in column 'label'"),
        ("x.csv", "", "is empty"),
        ("x.csv", "a,b\n0,1\n", "which column holds the labels.*: a, b"),
        ("x.csv", "index,label\n0,1\n0,1\n", r"must name each of 0\.\.1 once"),
        ("x.csv", "label\n" + "1\n" * 5, r"shape \(5,\), but the dataset has 6"),
        ("x.csv", "label\n" + "3\n" * 6, r"x\.csv: labels\[0\] is 3, outside 0\.\.2"),
        ("x.txt", "0\n1.5\n", "line 2: '1.5' is not a whole number"),
        ("x.txt", "\n\n", r"shape \(0,\)"),
        ("x.json", "[0]", r"must be one of \.npy"),
        ("x.npy", "nonsense", "not a readable label file"),
        ("x.npz", "nonsense", "not a readable label file"),
        ("x.pt", "nonsense", "was not read"),
    ],
)
def test_broken_files(name, content, message, tmp_path):
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=message):
        noise.from_file(TRUE, tmp_path / name, 3)


def test_names_that_are_not_there(tmp_path):
    files = _write(tmp_path)
    with pytest.raises(DataError, match=r"several label sets; name one as many\.npz#NAME: first"):
        noise.from_file(TRUE, tmp_path / "many.npz", 3)
    with pytest.raises(DataError, match="has no 'third'; it has: first, second"):
        noise.from_file(TRUE, f"{tmp_path / 'many.npz'}#third", 3)
    with pytest.raises(DataError, match="has no column 'c'; it has: a, b"):
        noise.from_file(TRUE, tmp_path / "column.csv", 3, key="c")
    with pytest.raises(DataError, match="there is no 'x' in it"):
        noise.from_file(TRUE, files["tensor.pt"], 3, key="x")


@sweep("name", ["named.npz", "dict.pt", "legacy.pt", "a.npy"])
@sweep("share", [0.0, 0.3, 0.7, 0.95])
def test_truncated_files(name, share, tmp_path):
    path = _write(tmp_path)[name]
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(DataError, match=name):
        noise.from_file(TRUE, path, 3)


@pytest.mark.parametrize("zipped", [True, False])
def test_a_malicious_torch_file_runs_nothing(zipped, tmp_path):
    proof, path = tmp_path / "executed", tmp_path / "evil.pt"
    torch.save({"labels": Evil(proof)}, path, _use_new_zipfile_serialization=zipped)
    with pytest.raises(DataError, match=r"evil\.pt was not read: .* does not need"):
        noise.from_file(TRUE, path, 3)
    assert not proof.exists()
    torch.load(path, weights_only=False)  # what it would have done
    assert proof.exists()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # TorchScript is on its way out
def test_malicious_arrays_and_programs_are_refused(tmp_path):
    proof = tmp_path / "executed"
    np.save(tmp_path / "evil.npy", np.array([Evil(proof)], dtype=object), allow_pickle=True)
    (tmp_path / "raw.pt").write_bytes(pickle.dumps(Evil(proof)))
    torch.jit.save(torch.jit.script(torch.nn.Linear(1, 1)), tmp_path / "script.pt")
    with tarfile.open(tmp_path / "tar.pt", "w") as archive:
        archive.add(tmp_path / "raw.pt", "storages")
    for name, reason in (
        ("evil.npy", "not a readable label file"),
        ("raw.pt", "was not read"),
        ("script.pt", "was not read"),
        ("tar.pt", "was not read"),
    ):
        with pytest.raises(DataError, match=f"{name} {reason}|{name} is {reason}"):
            noise.from_file(TRUE, tmp_path / name, 3)
    assert not proof.exists()


def test_a_manifest_is_a_label_file(tmp_path):
    made = noise.symmetric(TRUE, 0.5, 3, seed=4, protocol="nust")
    path = made.save(tmp_path / "noise.npz")
    for labels in (TRUE, None):
        again = noise.from_file(labels, path, 3)
        assert again.fingerprint == made.fingerprint
        assert again.seed == 4
    with pytest.raises(DataError, match="is for 3 classes, not for 4"):
        noise.from_file(TRUE, path, 4)
    for other in (TRUE[::-1], TRUE[:-1]):
        with pytest.raises(DataError, match="made for other labels"):
            noise.from_file(other, path, 3)
    with np.load(path) as archive:
        arrays = dict(archive)
    arrays["noisy"] = (arrays["noisy"] + 1) % 3
    np.savez(path, **arrays)
    with pytest.raises(DataError, match="changed after it was written"):
        noise.from_file(TRUE, path, 3)
    assert noise.from_file(TRUE, f"{path}#clean", 3).noisy.tolist() == TRUE


def test_torch_files_that_hold_no_labels(tmp_path):
    path = tmp_path / "x.pt"
    for content in ([[0], [0, 1]], torch.eye(6), "text", None, {"labels": {"a": 1}}, {}):
        torch.save(content, path)
        with pytest.raises(DataError, match=r"x\.pt"):
            noise.from_file(TRUE, path, 3)


def test_headers_that_promise_too_much(tmp_path):
    header = b"{'descr': '<i8', 'fortran_order': False, 'shape': (%d,), }"
    for name, size in (("big.npy", 10**14), ("huge.npy", 10**30)):
        text = (header % size).ljust(117) + b"\n"
        (tmp_path / name).write_bytes(b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text)
        with pytest.raises(DataError, match=name):
            noise.from_file(TRUE, tmp_path / name, 3)
    (tmp_path / "wide.csv").write_text('label\n"' + "1" * 200_000 + '"\n')
    (tmp_path / "large.csv").write_text("label\n" + "9" * 30 + "\n")
    for name in ("wide.csv", "large.csv"):
        with pytest.raises(DataError, match=name):
            noise.from_file(TRUE, tmp_path / name, 3)


def _human(folder: Path, **changes):
    rng = np.random.RandomState(0)
    names = ("clean", "aggre", "worse", "random1", "random2", "random3")
    keys = [f"random_label{name[-1]}" if "random" in name else f"{name}_label" for name in names]
    content = {key: rng.randint(0, 10, 50) for key in keys} | changes
    torch.save(content, folder / "CIFAR-10_human.pt", _use_new_zipfile_serialization=False)
    fine = {"clean_label": rng.randint(0, 100, 50), "noisy_label": rng.randint(0, 100, 50)}
    torch.save(fine | {"noisy_coarse_label": fine["noisy_label"]}, folder / "CIFAR-100_human.pt")
    return content, fine


def test_human_labels_from_the_published_files(tmp_path):
    ten, hundred = _human(tmp_path)
    for subset, key in noise.HUMAN_SUBSETS[10].items():
        made = noise.make(f"human:{subset}", ten["clean_label"], 10, root=tmp_path)
        assert made.noisy.tolist() == ten[key].tolist()
        assert made.rate == made.realised_rate == np.mean(ten[key] != ten["clean_label"])
    made = noise.human(None, "fine", 100, root=tmp_path / "CIFAR-100_human.pt")
    assert made.noisy.tolist() == hundred["noisy_label"].tolist()
    assert made.clean.tolist() == hundred["clean_label"].tolist()


def test_human_mistakes(tmp_path):
    with pytest.raises(DataError, match=r"neither .*cifar-n\.npz nor .*CIFAR-10_human\.pt; get"):
        noise.human(None, "worst", 10, root=tmp_path)
    ten, _ = _human(tmp_path)
    with pytest.raises(ValueError, match="did you mean 'worst'"):
        noise.human(None, "worse", 10, root=tmp_path)
    with pytest.raises(ValueError, match="unknown human label set for 100 classes 'worst'"):
        noise.human(None, "worst", 100, root=tmp_path)
    with pytest.raises(ValueError, match="not for 7 classes"):
        noise.human(None, "worst", 7, root=tmp_path)
    for labels in (ten["clean_label"][::-1], ten["clean_label"][:10]):
        with pytest.raises(DataError, match="are not those of the dataset"):
            noise.human(labels, "worst", 10, root=tmp_path)
    _human(tmp_path, worse_label=np.full(50, 11))
    with pytest.raises(DataError, match=r"CIFAR-10_human\.pt: worse_label\[0\] is 11"):
        noise.human(None, "worst", 10, root=tmp_path)
    _human(tmp_path, worse_label=Evil(tmp_path / "executed"))
    with pytest.raises(DataError, match="does not need"):
        noise.human(None, "worst", 10, root=tmp_path)
    assert not (tmp_path / "executed").exists()


def test_the_details_are_plain(tmp_path):
    made = noise.from_file(None, _write(tmp_path)["many.npz#second"], 3)
    assert json.loads(json.dumps(made.details)) == {"file": "many.npz", "key": "second"}
