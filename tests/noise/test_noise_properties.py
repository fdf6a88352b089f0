"""What holds for every generator, class count, rate and seed."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from edgemask import noise
from edgemask.errors import UserError
from sweeps import sweep


def generate(kind, labels, rate, classes, seed, protocol):
    if kind == "asymmetric":
        after = {label: (label + 1) % classes for label in range(0, classes, 2)}
        return noise.asymmetric(labels, rate, classes, seed=seed, protocol=protocol, mapping=after)
    if kind == "instance":
        pixels = np.random.RandomState(seed).randint(0, 256, size=(len(labels), 2, 3))
        return noise.instance_dependent(labels, rate, classes, seed=seed, features=pixels)
    if kind == "matrix":
        matrix = np.full((classes, classes), rate / classes) + (1 - rate) * np.eye(classes)
        return noise.from_matrix(labels, matrix, classes, seed=seed, protocol=protocol)
    function = {"symmetric": noise.symmetric, "pair": noise.pair_flip}[kind]
    return function(labels, rate, classes, seed=seed, protocol=protocol)


COMBINATIONS = [
    *(("symmetric", protocol) for protocol in noise.PROTOCOLS),
    *(("asymmetric", protocol) for protocol in noise.PROTOCOLS),
    *(("matrix", protocol) for protocol in ("paper", "jal", "apl", "nust")),
    ("pair", "paper"),
    ("pair", "nust"),
    ("instance", "paper"),
]


@sweep(("kind", "protocol"), COMBINATIONS)
@given(
    classes=st.integers(2, 12),
    copies=st.integers(1, 12),
    rate=st.floats(0, 1),
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=25)
def test_every_generator(kind, protocol, classes, copies, rate, seed):
    labels = np.arange(classes * copies) % classes
    random.seed(1)
    np.random.seed(1)
    torch.manual_seed(1)
    before = random.getstate(), np.random.get_state(), torch.get_rng_state()
    made = generate(kind, labels, rate, classes, seed, protocol)
    after = random.getstate(), np.random.get_state(), torch.get_rng_state()
    # the global generators are where they were
    assert before[0] == after[0]
    assert all(np.array_equal(a, b) for a, b in zip(before[1], after[1], strict=True))
    assert torch.equal(before[2], after[2])
    # the same whatever their state, and labels are as promised
    np.random.seed(2)
    random.seed(2)
    again = generate(kind, labels, rate, classes, seed, protocol)
    assert made.fingerprint == again.fingerprint
    assert made.noisy.dtype == np.int64
    assert made.noisy.min() >= 0
    assert made.noisy.max() < classes
    assert made.clean.tolist() == labels.tolist()
    np.testing.assert_allclose(made.transition.sum(axis=1), 1.0)
    assert made.realised_rate == np.mean(made.noisy != labels)
    if rate == 0:
        assert made.realised_rate == 0


@given(
    labels=st.lists(st.integers(0, 4), min_size=1, max_size=200),
    rate=st.floats(0, 1),
    seed=st.integers(0, 99),
)
def test_paper_symmetric_is_exact_and_never_flips_to_itself(labels, rate, seed):
    made = noise.symmetric(labels, rate, 5, seed=seed)
    # as many as asked for: no flip gives back the label that it had
    assert made.wrong.sum() == np.floor(rate * len(labels) + 0.5)
    for label in range(5):
        members = np.array(labels) == label
        assert abs(made.wrong[members].sum() - rate * members.sum()) < 1 + 1e-9


@given(
    labels=st.lists(st.integers(0, 3), min_size=1, max_size=200),
    rate=st.floats(0, 1),
    seed=st.integers(0, 99),
)
def test_paper_asymmetric_flips_the_sources_only(labels, rate, seed):
    mapping = {0: 2, 3: 1}
    made = noise.asymmetric(labels, rate, 4, seed=seed, mapping=mapping)
    sources = sum(label in mapping for label in labels)
    assert made.wrong.sum() == np.floor(rate * sources + 0.5)
    for before, after in zip(labels, made.noisy, strict=True):
        assert after in (before, mapping.get(before, before))


def test_halves_are_rounded_up_and_fractions_carry_over():
    # 0.5 of 9 is 4.5; three classes of 3 give 2 + 1 + 2
    made = noise.symmetric([0, 0, 0, 1, 1, 1, 2, 2, 2], 0.5, 3)
    assert [int(made.wrong[i : i + 3].sum()) for i in (0, 3, 6)] == [2, 1, 2]
    # 0.1 of 5 alone would round to nothing or to twice the rate in each of the 20 classes
    assert noise.symmetric(np.repeat(np.arange(20), 5), 0.1, 20).realised_rate == 0.1


def test_at_rate_one_everything_is_wrong():
    labels = np.arange(300) % 6
    for protocol in ("paper", "apl", "nust"):
        assert noise.symmetric(labels, 1.0, 6, protocol=protocol).realised_rate == 1.0
    for protocol in ("paper", "nust"):
        made = noise.pair_flip(labels, 1.0, 6, protocol=protocol)
        assert made.noisy.tolist() == ((labels + 1) % 6).tolist()


def test_targets_of_symmetric_noise_are_uniform():
    # 45,000 flips to 9 classes each: 5,000 expected in a cell's row, standard deviation 67.
    labels = np.repeat(np.arange(10), 10_000)
    for protocol in ("paper", "apl", "nust"):
        made = noise.symmetric(labels, 0.45, 10, seed=0, protocol=protocol)
        share = made.transition[~np.eye(10, dtype=bool)]
        assert abs(share - 0.05).max() < 5 * np.sqrt(0.05 * 0.95 / 10_000)


def test_seeds_give_different_labels():
    labels = np.arange(500) % 5
    for kind, protocol in COMBINATIONS:
        first, second = (generate(kind, labels, 0.4, 5, seed, protocol) for seed in (0, 1))
        assert first.noisy.tolist() != second.noisy.tolist(), (kind, protocol)


def test_dividemix_includes_the_true_class():
    labels = np.arange(50_000) % 10
    made = noise.symmetric(labels, 0.8, 10, seed=123, protocol="dividemix")
    assert made.realised_rate == pytest.approx(0.72, abs=0.01)


def test_apl_visits_cifar10_classes_on_labels_already_flipped():
    labels = np.arange(5000) % 10
    made = noise.asymmetric(labels, 0.4, 10, seed=0, protocol="apl")
    exact = noise.asymmetric(labels, 0.4, 10, seed=0, protocol="jal")
    assert exact.transition[3, 5] == 0.4
    assert made.transition[3, 5] < 0.3  # cats that came back
    # a map of one's own is drawn sample by sample, as on MNIST and CIFAR-100
    own = noise.asymmetric(labels, 0.4, 10, protocol="apl", mapping={0: 1})
    assert own.transition[1, 1] == 1.0


def test_open_set_foreign_labels_are_uniform():
    labels = np.arange(100_000) % 100
    made = noise.open_set(labels, 0.2, 100)
    assert made.num_classes == 80
    assert made.open_set.sum() == 20_000
    assert made.noisy.max() == 79
    shares = np.bincount(made.noisy[made.open_set], minlength=80) / 20_000
    assert abs(shares - 1 / 80).max() < 5 * np.sqrt(1 / 80 / 20_000)
    assert made.realised_rate == pytest.approx(0.36, abs=0.01)


def test_open_set_takes_minus_one_for_any_foreign_class():
    labels = np.arange(1000) % 10
    hidden = np.where(labels >= 8, -1, labels)
    a, b = (noise.open_set(values, 0.3, 10) for values in (labels, hidden))
    assert a.fingerprint == b.fingerprint
    c = noise.open_set(labels, 0.3, 10, open_ratio=0.9 - 0.2)
    assert c.num_classes == 3  # not 2, for all that 10 * (1 - 0.7) is in binary
    with pytest.raises(UserError, match="leaves 1 of 10"):
        noise.open_set(labels, 0.3, 10, open_ratio=0.9)
    with pytest.raises(UserError, match="open_ratio is 0"):
        noise.open_set(hidden, 0.3, 10, open_ratio=0.0)
    with pytest.raises(UserError, match="closed='pair': expected 'symmetric' or 'asymmetric'"):
        noise.open_set(labels, 0.3, 10, closed="pair")


def test_pdn_on_raw_pixels_has_one_wrong_label_a_sample():
    rng = np.random.RandomState(0)
    pixels = rng.randint(0, 256, size=(1, 3, 8, 8)).repeat(4000, axis=0).astype(np.uint8)
    labels = np.zeros(4000, dtype=int)
    made = noise.instance_dependent(labels, 0.3, 10, seed=2, features=pixels)
    assert len(np.unique(made.noisy)) == 2  # the images are equal, so are their mistakes
    assert made.realised_rate == pytest.approx(0.3, abs=5 * np.sqrt(0.21 / 4000))
    soft = noise.instance_dependent(labels, 0.3, 10, seed=2, features=pixels / 255 / 100)
    assert len(np.unique(soft.noisy)) == 10


def test_pdn_in_plain_steps():
    scipy_stats = pytest.importorskip("scipy.stats")
    rng = np.random.RandomState(7)
    x, y = rng.rand(60, 5).astype(np.float32), rng.randint(0, 3, 60)
    made = noise.instance_dependent(y, 0.5, 3, seed=11, features=x, std=0.2)
    stream = np.random.RandomState(11)
    law = scipy_stats.truncnorm(-0.5 / 0.2, 0.5 / 0.2, loc=0.5, scale=0.2)
    rates = law.ppf(stream.random_sample(60))
    weights = stream.standard_normal((3, 5, 3)).astype(np.float32)
    rows = []
    for i in range(60):
        scores = x[i] @ weights[y[i]]
        scores[y[i]] = -np.inf
        chances = rates[i] * np.exp(scores) / np.exp(scores).sum()
        chances[y[i]] += 1 - rates[i]
        rows.append(chances)
    expected = [stream.choice(3, p=row / row.sum()) for row in rows]
    assert made.noisy.tolist() == expected
