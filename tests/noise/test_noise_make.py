"""``make`` and the registry: what a person types."""

from __future__ import annotations

import numpy as np
import pytest

from edgemask import noise
from edgemask.errors import DataError, UserError
from sweeps import sweep

LABELS = np.arange(200) % 10


def same(a, b) -> bool:
    return a.fingerprint == b.fingerprint


def test_every_kind_has_a_summary():
    for name, text in noise.NOISE.summaries().items():
        assert text.endswith("."), name


@sweep(
    ("spec", "expected"),
    [
        ("sym:0.6", lambda: noise.symmetric(LABELS, 0.6, 10, seed=3, protocol="jal")),
        (" Symmetric: 0.6 ", lambda: noise.symmetric(LABELS, 0.6, 10, seed=3, protocol="jal")),
        ("asym:.4", lambda: noise.asymmetric(LABELS, 0.4, 10, seed=3, protocol="jal")),
        ("clean", lambda: noise.clean(LABELS, 10)),
        ("none", lambda: noise.clean(LABELS, 10)),
        ("given", lambda: noise.given(LABELS, 10)),
    ],
)
def test_specs(spec, expected):
    assert same(noise.make(spec, LABELS, 10, seed=3, protocol="jal"), expected())


def test_short_and_former_names_stand_for_the_full_ones():
    short = {
        "none": "clean",
        "sym": "symmetric",
        "asym": "asymmetric",
        "pair": "pair-flip",
        "idn": "instance-dependent",
        "instance": "instance-dependent",
        "open": "open-set",
        "open-asym": "open-set-asymmetric",
    }
    assert {name: noise.NOISE.name_of(name) for name in short} == short
    assert not set(short) & set(noise.NOISE)
    for kind in ("pair_flip:0.45", "pair-flip:0.45"):
        assert same(noise.make(kind, LABELS, 10), noise.make("pair:0.45", LABELS, 10))


def test_specs_with_other_protocols():
    pixels = np.random.RandomState(0).rand(200, 3)
    made = noise.make("idn:0.4", LABELS, 10, features=pixels, seed=2)
    assert same(made, noise.instance_dependent(LABELS, 0.4, 10, features=pixels, seed=2))
    made = noise.make("pair:0.45", LABELS, 10, protocol="nust")
    assert same(made, noise.pair_flip(LABELS, 0.45, 10, protocol="nust"))
    made = noise.make("open-asym:0.4", LABELS, 10)
    assert same(made, noise.open_set(LABELS, 0.4, 10, closed="asymmetric", protocol="paper"))


def test_the_dataset_chooses_the_map():
    cifar = noise.make("asym:0.4", LABELS, 10, dataset="CIFAR-10")
    digits = noise.make("asym:0.4", LABELS, 10, dataset="digits")
    assert cifar.details["mapping"] == {"9": 1, "2": 0, "3": 5, "4": 7}
    assert digits.details["mapping"] == {"7": 1, "2": 7, "5": 6, "6": 5, "3": 8}
    with pytest.raises(UserError, match="mapping="):
        noise.make("asym:0.4", LABELS, 10, dataset="imagefolder:photos")
    own = noise.make("asym:0.4", LABELS, 10, dataset="imagefolder:photos", mapping={0: 1})
    assert own.transition[0, 1] == 0.4
    fine = np.arange(500) % 100
    true = noise.make("asym:1", fine, 100, dataset="cifar100")
    block = noise.make("asym:1", fine, 100, dataset="cifar100", protocol="jal")
    assert true.noisy[:2].tolist() == [51, 32]
    assert block.noisy[:2].tolist() == [1, 2]


@pytest.mark.parametrize("num_classes", [80, 100])
def test_cifar80n_o_is_always_open(num_classes):
    fine = np.arange(2000) % 100
    expected = noise.open_set(fine, 0.2, 100, protocol="nust")
    for labels in (fine, np.where(fine >= 80, -1, fine)):
        made = noise.make("sym:0.2", labels, num_classes, dataset="cifar80n-o", protocol="nust")
        assert same(made, expected)
    asym = noise.make("asym:0.4", fine, num_classes, dataset="cifar80n-o", protocol="nust")
    assert asym.kind == "open-asym"
    clean = noise.make("clean", fine, num_classes, dataset="cifar80n-o")
    assert clean.realised_rate == 0.2
    with pytest.raises(UserError, match="takes no value"):
        noise.make("clean:0.4", fine, num_classes, dataset="cifar80n-o")
    with pytest.raises(UserError, match="needs a rate"):
        noise.make("sym", fine, num_classes, dataset="cifar80n-o")
    with pytest.raises(UserError, match="open_set: protocol='jal': expected 'paper' or 'nust'"):
        noise.make("sym:0.2", fine, num_classes, dataset="cifar80n-o", protocol="jal")


def test_cifar80n_o_from_a_file(tmp_path):
    fine = np.arange(2000) % 100
    made = noise.make("sym:0.2", fine, 80, dataset="cifar80n-o", seed=1)
    made.save(tmp_path / "noise.npz")
    np.save(tmp_path / "plain.npy", made.noisy)
    again = noise.make("file:noise.npz", fine, 80, dataset="cifar80n-o", root=tmp_path)
    assert same(again, made)
    plain = noise.make("file:plain.npy", fine, 80, dataset="cifar80n-o", root=tmp_path)
    assert plain.num_classes == 80
    assert plain.open_set.sum() == 400
    assert plain.realised_rate == made.realised_rate


def test_files_are_found_from_here_and_from_the_root(tmp_path, monkeypatch):
    (tmp_path / "data").mkdir()
    np.save(tmp_path / "data" / "mine.npy", LABELS[::-1])
    np.savetxt(tmp_path / "data" / "T.csv", np.eye(10), delimiter=",")
    np.save(tmp_path / "data" / "T.npy", np.eye(10))
    made = noise.make("file:mine.npy", LABELS, 10, root=tmp_path / "data")
    assert made.noisy.tolist() == LABELS[::-1].tolist()
    for name in ("T.csv", "T.npy"):
        assert noise.make(f"matrix:{name}", LABELS, 10, root=tmp_path / "data").realised_rate == 0
    monkeypatch.chdir(tmp_path)
    assert same(noise.make("file:data/mine.npy", LABELS, 10), made)
    with pytest.raises(DataError, match=r"there is no file other\.npy or .*other\.npy"):
        noise.make("file:other.npy", LABELS, 10, root=tmp_path)
    (tmp_path / "T.txt").write_text("1 0\nx 1\n")
    with pytest.raises(DataError, match="does not hold a matrix"):
        noise.make("matrix:T.txt", LABELS, 10)


@sweep(
    ("spec", "message"),
    [
        ("symetric:0.4", r"did you mean 'symmetric'.*Examples: sym:0\.4"),
        ("", "unknown noise ''.*Examples"),
        ("0.4", "Examples"),
        ("sym", r"needs a rate, as in sym:0\.4"),
        ("sym:", r"needs a rate, as in sym:0\.4"),
        ("sym:60", r"'sym:60': rate=60.0: expected a number in \[0, 1\]; did you mean 0\.6"),
        ("sym:lots", "'sym:lots': rate='lots': expected a number"),
        ("clean:0.4", "'clean' takes no value"),
        ("human", r"needs the name of a label set, as in human:worst"),
        ("file", r"needs a file, as in file:labels\.csv"),
        ("matrix:", r"needs a file, as in matrix:T\.csv"),
    ],
)
def test_specs_that_are_wrong(spec, message):
    with pytest.raises(UserError, match=message):
        noise.make(spec, LABELS, 10)


def test_a_map_is_not_swallowed():
    with pytest.raises(UserError, match="mapping= is for asymmetric noise"):
        noise.make("sym:0.4", LABELS, 10, mapping={0: 1})
