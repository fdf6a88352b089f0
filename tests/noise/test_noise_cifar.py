"""On the real CIFAR labels: the published figures."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from edgemask import noise
from edgemask.errors import DataError
from sweeps import sweep

pytestmark = pytest.mark.data


@pytest.fixture(scope="module")
def ten(data_root) -> np.ndarray:
    batches = [data_root / "cifar-10-batches-py" / f"data_batch_{i}" for i in range(1, 6)]
    return np.concatenate(
        [pickle.loads(path.read_bytes(), encoding="bytes")[b"labels"] for path in batches]
    )


@pytest.fixture(scope="module")
def hundred(data_root) -> np.ndarray:
    content = (data_root / "cifar-100-python" / "train").read_bytes()
    return np.array(pickle.loads(content, encoding="bytes")[b"fine_labels"])


@sweep(
    ("protocol", "rate", "expected"),
    [
        ("jal", 0.2, 0.1998),
        ("jal", 0.4, 0.3996),
        ("jal", 0.6, 0.5994),
        ("jal", 0.8, 0.7992),
        ("apl", 0.8, 0.8),
        ("paper", 0.8, 0.8),
    ],
)
def test_symmetric_rates_on_cifar10(ten, protocol, rate, expected):
    assert noise.symmetric(ten, rate, 10, protocol=protocol).realised_rate == expected


@sweep(("rate", "expected"), [(0.1, 0.0), (0.2, 0.198), (0.8, 0.792)])
def test_jal_symmetric_rates_on_cifar100(hundred, rate, expected):
    assert noise.symmetric(hundred, rate, 100, protocol="jal").realised_rate == expected


def test_asymmetric_rates_on_cifar10(ten):
    rates = {
        protocol: noise.asymmetric(ten, 0.4, 10, seed=123, protocol=protocol).realised_rate
        for protocol in ("paper", "jal", "apl", "dividemix")
    }
    assert rates["paper"] == 0.16
    assert rates["jal"] == 0.2
    assert rates["apl"] == 0.18476
    assert round(rates["dividemix"], 4) == 0.2002


@sweep(
    ("spec", "total", "closed"),
    [
        ("sym:0.2", 0.36116, 8058),
        ("sym:0.5", 0.60194, 20097),
        ("sym:0.8", 0.84148, 32074),
        ("asym:0.4", 0.51746, 15873),
    ],
)
def test_cifar80n_o(hundred, spec, total, closed):
    made = noise.make(spec, hundred, 80, dataset="cifar80n-o", protocol="nust", seed=0)
    assert made.realised_rate == total
    assert (made.wrong & ~made.open_set).sum() == closed
    assert made.open_set.sum() == 10_000


@sweep(
    ("spec", "classes", "percent"),
    [
        ("human:aggregate", 10, 9.01),
        ("human:random1", 10, 17.23),
        ("human:random2", 10, 18.12),
        ("human:random3", 10, 17.64),
        ("human:worst", 10, 40.21),
        ("human:fine", 100, 40.20),
    ],
)
def test_human_labels(ten, hundred, data_root, spec, classes, percent):
    labels = ten if classes == 10 else hundred
    made = noise.make(spec, labels, classes, root=data_root)
    assert round(100 * made.realised_rate, 2) == percent
    with pytest.raises(DataError, match="not those of the dataset"):
        noise.make(spec, labels[::-1], classes, root=data_root)


@sweep("rate", [0.2, 0.4, 0.6])
@sweep("classes", [10, 100])
def test_published_instance_labels(ten, hundred, data_root, rate, classes):
    labels = ten if classes == 10 else hundred
    made = noise.make(f"idn:{rate}", labels, classes, protocol="jal", root=data_root)
    assert made.realised_rate == pytest.approx(rate, abs=1e-9)
    name = f"file:idn-labels.npz#eps_cifar{classes}_dependent_{rate}"
    assert (noise.make(name, labels, classes, root=data_root).noisy == made.noisy).all()


def test_pdn_on_real_pixels(ten, data_root):
    content = (data_root / "cifar-10-batches-py" / "data_batch_1").read_bytes()
    pixels = pickle.loads(content, encoding="bytes")[b"data"]
    made = noise.make("idn:0.4", ten[:10_000], 10, seed=1, features=pixels)
    # standard deviation of the rate: sqrt(.24 / 10,000) = .005
    assert made.realised_rate == pytest.approx(0.4, abs=0.02)


def test_a_csv_with_human_labels(data_root):
    path = data_root / "noisy-agnews-train.csv"
    truth = noise.from_file(None, path, 4, key="gt")
    made = noise.from_file(truth.noisy, path, 4)
    assert len(made) == 10_000
    assert round(100 * made.realised_rate, 2) == 19.75
