"""Labels of any kind: which classes they make, and what is refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch

from edgemask.data.labels import Classes, find_classes, labels_from_text
from edgemask.errors import DataError
from sweeps import sweep


@sweep(
    ("labels", "names", "values"),
    [
        ([3, 1, 3, 2], ("1", "2", "3"), (1, 2, 3)),  # no phantom class 0
        (np.array([7, 999_999, 7]), ("7", "999999"), (7, 999_999)),
        ([2.0, 1.0], ("1", "2"), (1.0, 2.0)),
        (torch.tensor([1, 0]), ("0", "1"), (0, 1)),
        ([True, False, True], ("False", "True"), (False, True)),
        (["b", "a"], ("a", "b"), ("a", "b")),
        (np.array([b"x", b"y"]), ("x", "y"), ("x", "y")),
        (["1", 2], ("1", "2"), ("1", "2")),
        ([-1, 1, 0], ("-1", "0", "1"), (-1, 0, 1)),
        (pd.Series(["u", "v", "u"], dtype="category"), ("u", "v"), ("u", "v")),
        (pd.Series([1, 2], dtype="Int64"), ("1", "2"), (1, 2)),
        (pl.Series(["u", "v"]), ("u", "v"), ("u", "v")),
        (np.array([[0], [1]]), ("0", "1"), (0, 1)),
    ],
)
def test_classes_are_the_labels_that_occur(labels, names, values) -> None:
    classes = find_classes([labels], where="y")
    assert (classes.names, classes.values) == (names, values)
    assert [type(value) for value in classes.values] == [type(value) for value in values]
    numbers = classes.numbers(labels, where="y")
    flat = np.ravel(labels).tolist() if not hasattr(labels, "to_list") else labels.to_list()
    given = [item.decode() if isinstance(item, bytes) else item for item in flat]
    found = [classes.values[number] for number in numbers]
    assert [str(value) for value in found] == [str(value) for value in given]


@sweep(
    ("labels", "message"),
    [
        ([0.5, 1.0], "real numbers .0.5 in sample 0.: EdgeMask is for classification, not for reg"),
        ([np.inf, 1.0], "real numbers"),
        ([1.0, np.nan, 2.0], "1 label is missing .sample 1.; fill them in"),
        (["a", None, "b", ""], "2 labels are missing .sample 1, sample 3."),
        (pd.Series([1, None], dtype="Int64"), "1 label is missing .sample 1."),
        (np.eye(3, dtype=int), "multi-label.*argmax"),
        ([["a", "b"], ["a"]], "several labels.*multi-label"),
        ([{"a"}, {"b"}], "several labels"),
        (["a", "b", "a|b", "b"], r"1 label looks like a set of labels .'a\|b'; multi-label.*yes"),
        (["1", "2", "3", "3; 1"], "a set of labels .'3; 1'"),
        (["['a', 'b']", "['a']", "b"], "2 labels look like sets"),
        (["a", "a"], "all labels are 'a', which is one class"),
        ([], "no labels"),
        (np.arange(200), "200 different labels for 200 samples.*regression"),
        ([f"name {i}" for i in range(200)], "200 different labels.*check which column"),
        (np.array([1j, 2j]), "names, whole numbers or booleans"),
    ],
)
def test_what_is_no_label_is_refused(labels, message) -> None:
    with pytest.raises(DataError, match=message):
        find_classes([labels], where="y")


def test_names_with_separators_are_no_sets() -> None:
    """A name is a set only if its parts are labels, and only if that happens often."""
    for labels in (
        ["rock", "rock|pop", "jazz"],
        ["Paris, France", "Rome, Italy"],
        ["[unknown]", "cat", "(dog)"],
        ["a"] * 100 + ["b"] * 100 + ["a|b"],
    ):
        assert len(find_classes([labels], where="y").names) == len(set(labels))


def test_numbers_and_names_do_not_mix_between_sets() -> None:
    with pytest.raises(DataError, match="all numbers or all names"):
        find_classes([[1, 2], ["1", "2"]], where="y")


def test_given_names_make_numbers_positions_and_refuse_others() -> None:
    classes = find_classes([[0, 2]], where="y", class_names=["a", "b", "c"])
    assert classes.numbers([2, 0], where="y").tolist() == [2, 0]
    by_name = find_classes([["c", "a"]], where="y", class_names=["a", "b", "c"])
    assert by_name.numbers(["c", "a"], where="y").tolist() == [2, 0]
    with pytest.raises(
        DataError, match=r"label 3 of sample 1 is unknown .*the classes are a, b, c"
    ):
        classes.numbers([0, 3], where="y")
    with pytest.raises(DataError, match="label 'd' of line 7 is unknown"):
        by_name.numbers(["d"], where="y", rows=["line 7"])


def test_words_of_a_file_are_numbers_only_where_all_are() -> None:
    assert labels_from_text([" 3", "1 "]).tolist() == [3, 1]
    assert labels_from_text(["1.0", "2.0"]).tolist() == [1.0, 2.0]
    assert labels_from_text(["007", "1"]).tolist() == ["007", "1"]
    assert labels_from_text(["1_000", "1"]).tolist() == ["1_000", "1"]
    assert labels_from_text(["None", "b"]).tolist() == ["None", "b"]  # a name like any other
    assert labels_from_text(["a", "NA", ""]).tolist() == ["a", None, None]
    assert np.isnan(labels_from_text(["1", ""])[1])


def test_class_numbers_of_any_values() -> None:
    classes = Classes(("x", "y"), (10, -3))
    assert classes.numbers(np.array([-3, 10, 10]), where="y").tolist() == [1, 0, 0]
