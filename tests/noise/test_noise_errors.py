"""Mistakes end in an error that says what was wrong and what to do."""

from __future__ import annotations

import numpy as np
import pytest

from edgemask import noise
from edgemask.errors import UserError
from sweeps import sweep

LABELS = np.arange(20) % 4


@sweep("rate", [-0.1, 1.01, 40, float("nan"), float("inf"), "much", None])
@sweep("function", [noise.symmetric, noise.pair_flip, noise.open_set])
def test_rates(function, rate):
    with pytest.raises(UserError, match=r"rate=.*: expected a number"):
        function(LABELS, rate, 4)


def test_a_percentage_gets_a_hint():
    with pytest.raises(UserError, match=r"did you mean 0\.4\?"):
        noise.symmetric(LABELS, 40, 4)


@sweep(
    ("labels", "message"),
    [
        ([], "labels is empty"),
        ([0, 1, 4], r"labels\[2\] is 4, outside 0\.\.3"),
        ([0, -1, 1], r"labels\[1\] is -1, outside 0\.\.3"),
        ([0, 0.5], r"labels\[1\] is 0\.5, which is not a whole number"),
        ([0, float("nan")], "not a whole number"),
        (["cat", "dog"], "must be whole numbers"),
        ([True, False], "must be whole numbers"),
        ([[0, 1]], "one dimension"),
        (3, "one dimension"),
        (np.array([0, 2**64 - 1], dtype=np.uint64), "outside"),
    ],
)
@sweep("protocol", noise.PROTOCOLS)
def test_labels(labels, message, protocol):
    with pytest.raises(UserError, match=message):
        noise.symmetric(labels, 0.4, 4, protocol=protocol)


def test_whole_floats_and_tensors_are_labels():
    torch = pytest.importorskip("torch")
    expected = noise.symmetric(LABELS, 0.4, 4).fingerprint
    assert noise.symmetric(LABELS.astype(np.float32), 0.4, 4).fingerprint == expected
    assert noise.symmetric(torch.tensor(LABELS), 0.4, 4).fingerprint == expected
    assert noise.symmetric(LABELS.astype(np.uint8), 0.4, 4).fingerprint == expected


@sweep("classes", [1, 0, -3, 2.5, "ten", True, None])
def test_class_counts(classes):
    with pytest.raises(UserError, match=r"num_classes=.*: expected a (whole )?number"):
        noise.symmetric([0, 0], 0.4, classes)


@sweep("seed", [-1, 2**32, 1.5, None, True])
def test_seeds(seed):
    with pytest.raises(UserError, match=r"seed=.*: expected a (whole )?number"):
        noise.symmetric(LABELS, 0.4, 4, seed=seed)


def test_unknown_protocol():
    with pytest.raises(UserError, match="did you mean 'dividemix'"):
        noise.symmetric(LABELS, 0.4, 4, protocol="dividemx")


@sweep(
    ("function", "undefined"),
    [
        (noise.pair_flip, ("jal", "apl", "dividemix")),
        (noise.open_set, ("jal", "apl", "dividemix")),
        (noise.instance_dependent, ("apl", "dividemix", "nust")),
    ],
)
def test_protocols_that_do_not_define_a_kind(function, undefined):
    for protocol in undefined:
        with pytest.raises(UserError, match=f"protocol='{protocol}': expected 'paper' or"):
            function(LABELS, 0.4, 4, protocol=protocol)
    with pytest.raises(UserError, match="expected 'paper' or 'jal' or 'apl' or 'nust'"):
        noise.from_matrix(LABELS, np.eye(4), protocol="dividemix")


@sweep("protocol", ["paper", "jal", "apl", "dividemix"])
def test_asymmetric_without_a_map_names_the_argument(protocol):
    with pytest.raises(UserError, match=r"4 classes; give mapping="):
        noise.asymmetric(LABELS, 0.4, 4, protocol=protocol)
    with pytest.raises(UserError, match=r"dataset 'fashion-mnist'; give mapping="):
        noise.asymmetric(LABELS, 0.4, 10, protocol=protocol, dataset="fashion-mnist")


def test_dividemix_has_no_map_for_a_hundred_classes():
    with pytest.raises(UserError, match="mapping="):
        noise.asymmetric(LABELS, 0.4, 100, protocol="dividemix")


@sweep(
    ("mapping", "message"),
    [
        ({0: 4}, "class 0 to 4, but there are only classes 0..3"),
        ({-1: 0}, "class -1 to 0"),
        ({1: 1}, "class 1 to itself"),
        ({}, "mapping is empty"),
        ("cifar10-papr", "did you mean 'cifar10-paper'"),
        ("mnist", "there are only classes 0..3"),
    ],
)
def test_maps(mapping, message):
    with pytest.raises(UserError, match=message):
        noise.asymmetric(LABELS, 0.4, 4, mapping=mapping)


def test_apl_wants_classes_of_equal_size():
    with pytest.raises(UserError, match="class 3 has only 1; use protocol='paper'"):
        noise.symmetric([0, 1, 2] * 20 + [3], 0.5, 4, protocol="apl")


@sweep(
    ("matrix", "message"),
    [
        ([[0.5, 0.6], [0.5, 0.5]], "row 0 of matrix is not a distribution"),
        ([[1.0, 0.0], [-0.1, 1.1]], "row 1 of matrix"),
        ([[1.0, float("nan")], [0, 1]], "row 0 of matrix"),
        ([[1.0, 0.0]], "must be square"),
        ([[1.0, 0.0], [1.0]], "rows of equal length"),
        (np.eye(3), "matrix has 3 classes, but num_classes is 2"),
    ],
)
def test_matrices(matrix, message):
    with pytest.raises(UserError, match=message):
        noise.from_matrix([0, 1], matrix, 2)


def test_rounded_matrices_are_taken():
    third = np.full((3, 3), 1 / 3, dtype=np.float32)
    assert noise.from_matrix([0, 1, 2], third).rate == pytest.approx(2 / 3)


@sweep(
    ("features", "message"),
    [
        (None, "give features="),
        (np.zeros((19, 3)), "must have 20 rows"),
        (np.zeros(20), "must have 20 rows"),
        (np.full((20, 2), np.nan), r"features\[0\] holds a value that is not finite"),
        (np.full((20, 2), "x"), "must be numbers"),
    ],
)
def test_features(features, message):
    with pytest.raises(UserError, match=message):
        noise.instance_dependent(LABELS, 0.4, 4, features=features)
    with pytest.raises(UserError, match="std=0: expected a number above 0"):
        noise.instance_dependent(LABELS, 0.4, 4, features=np.zeros((20, 2)), std=0)


def test_published_instance_labels_exist_for_few_settings(tmp_path):
    with pytest.raises(UserError, match="CIFAR-10 and CIFAR-100 at the rates"):
        noise.instance_dependent(LABELS, 0.4, 4, protocol="jal")
    with pytest.raises(UserError, match="use protocol='paper'"):
        noise.instance_dependent(LABELS, 0.3, 10, protocol="jal")
    with pytest.raises(UserError, match=r"there is no file idn-labels\.npz or .*idn-labels\.npz"):
        noise.instance_dependent(LABELS, 0.4, 10, protocol="jal", root=tmp_path)
