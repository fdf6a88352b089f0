"""The named protocols give the official labels, bit for bit."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np

from edgemask import noise
from edgemask.noise.instance import _truncated_normal
from sweeps import sweep

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "noise.json").read_text())
FUNCTIONS = {
    "symmetric": noise.symmetric,
    "asymmetric": noise.asymmetric,
    "openset+symmetric": noise.open_set,
    "openset+asymmetric": noise.open_set_asymmetric,
}


def sha256(labels: np.ndarray) -> str:
    return hashlib.sha256(labels.astype("<i8").tobytes()).hexdigest()


@sweep("case", GOLDEN["labels"])
def test_official_labels(case):
    labels = np.arange(case["n"]) % case["num_classes"]
    made = FUNCTIONS[case["kind"]](
        labels, case["rate"], case["num_classes"], seed=case["seed"], protocol=case["protocol"]
    )
    assert made.noisy[:40].tolist() == case["first40"]
    assert sha256(made.noisy) == case["sha256_int64le"]
    assert made.realised_rate == case["changed"] / case["n"]


def test_pdn_labels_and_rates():
    tiny = GOLDEN["pdn_tiny"]
    rng = np.random.RandomState(1)
    rates = _truncated_normal(rng.random_sample(len(tiny["y"])), 0.4, 0.1)
    np.testing.assert_allclose(rates, tiny["flip_rate"], rtol=1e-12)
    np.testing.assert_allclose(
        rng.standard_normal((4, 12, 4)).ravel()[:5], tiny["W_after_rates_first5"], rtol=1e-6
    )
    made = noise.instance_dependent(tiny["y"], 0.4, 4, seed=1, features=tiny["X"])
    assert made.noisy.tolist() == tiny["noisy"]


def test_class_maps():
    assert list(noise.CIFAR100_FINE_TO_COARSE) == GOLDEN["cifar100_fine_to_coarse"]
    for name, key in [
        ("cifar100-superclass", "cifar100_true_superclass_next"),
        ("cifar100-block", "cifar100_contiguous_block_next"),
    ]:
        assert [noise.MAPS[name][label] for label in range(100)] == GOLDEN[key]


def _plain_apl(labels, rate, classes, seed):
    """The symmetric APL generator in plain steps: one draw a sample, from a list of the others."""
    rng = np.random.RandomState(seed)
    chosen = []
    for label in range(classes):
        pool = np.where(labels == label)[0]
        chosen.extend(rng.choice(pool, int(int(rate * len(labels)) / classes), replace=False))
    noisy = labels.copy()
    for row in chosen:
        noisy[row] = rng.choice([other for other in range(classes) if other != labels[row]])
    return noisy


@sweep("classes", [2, 3, 7, 100, 300])
def test_apl_symmetric_at_other_class_counts(classes):
    labels = np.arange(3000) % classes
    made = noise.symmetric(labels, 0.6, classes, seed=5, protocol="apl")
    np.testing.assert_array_equal(made.noisy, _plain_apl(labels, 0.6, classes, 5))


def _plain_draws(labels, matrix, seed):
    rng = np.random.RandomState(seed)
    return [int(np.where(rng.multinomial(1, matrix[y], 1)[0] == 1)[0][0]) for y in labels]


@sweep("classes", [2, 5, 14])
def test_nust_at_other_class_counts(classes):
    labels = np.arange(1000) % classes
    matrix = [
        [0.7 if i == j else 0.3 / (classes - 1) for j in range(classes)] for i in range(classes)
    ]
    made = noise.symmetric(labels, 0.3, classes, seed=0, protocol="nust")
    assert made.noisy.tolist() == _plain_draws(labels, matrix, 0)


def test_jal_counts_are_rounded_down_to_no_noise_at_all():
    labels = np.arange(50_000) % 100
    assert noise.symmetric(labels, 0.1, 100, protocol="jal").realised_rate == 0.0
    assert noise.symmetric(labels, 0.1, 100, protocol="paper").realised_rate == 0.1
