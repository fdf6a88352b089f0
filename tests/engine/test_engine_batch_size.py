"""The batch size where none is named."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import edgemask as em
from edgemask.cli.app import app
from edgemask.engine import compose
from sweeps import sweep


def images(count, side=8):
    x = np.random.default_rng(0).integers(0, 256, (count, side, side, 3), dtype=np.uint8)
    return x, np.arange(count) % 2


def table(count):
    return np.random.default_rng(0).normal(size=(count, 4)).astype(np.float32), np.arange(count) % 2


def batch_size(data, labels=None, **said):
    return em.fit(data, labels, dry_run=True, **said).config.train.batch_size


# A fifth of the samples is held out: 2,499 leave 1,999 or 2,000 to train on.
@pytest.mark.parametrize(
    ("count", "expected"), [(60, 32), (2_490, 32), (2_510, 64), (12_490, 64), (12_510, 128)]
)
def test_few_samples_come_in_small_batches(count, expected):
    assert batch_size(*images(count)) == batch_size(*table(count)) == expected


def test_so_do_few_texts():
    texts = [f"word{number % 7} and word{number % 3}" for number in range(60)]
    assert batch_size(texts, [0, 1] * 30) == 32


@sweep(
    "said",
    [
        {"batch_size": 128},
        {"settings": {"train": {"batch_size": 128}}},
        {"set": ["train.batch_size=128"]},
        {"recipe": "cifar10/ce"},
    ],
)
def test_a_batch_size_that_is_given_or_in_a_recipe_stays(said):
    assert batch_size(*images(60), **said) == 128


def test_a_file_of_settings_may_give_it(tmp_path):
    path = tmp_path / "own.yaml"
    path.write_text("train: {batch_size: 128}\n")
    assert batch_size(*images(60), config=path) == 128
    path.write_text("train: {epochs: 3}\n")
    assert batch_size(*images(60), config=path) == 32


@sweep("said", [{}, {"loss": "gce"}, {"model": "mlp", "loss": "ce"}, {"method": "co-teaching"}])
def test_whatever_else_is_named_the_rule_holds_for_python_and_the_command(said):
    assert batch_size("digits", **said) == 32  # 1,438 images
    flags = [word for key, value in said.items() for word in (f"--{key}", value)]
    result = CliRunner().invoke(app, ["train", "--data", "digits", *flags, "--dry-run", "--json"])
    found = json.loads(result.stdout)
    assert found["config"]["train"]["batch_size"] == 32
    assert found["plan"]["steps_of_a_pass"] == 45  # 1,438 / 32


def test_a_limit_counts():
    x, y = images(2_600)
    assert batch_size(x, y) == 64
    assert batch_size(x, y, set=["data.limit=500"]) == 32


def test_data_that_was_read_for_the_choice_is_not_read_again():
    _, objects = compose(keywords={"data": "digits", "model": "mlp", "loss": "ce"})
    assert objects.bundle is not None
    assert len(objects.bundle.train) == 1438
