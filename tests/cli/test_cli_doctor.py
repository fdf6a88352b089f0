"""What the machine has."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import torch

from edgemask.cli import doctor
from edgemask.data import DATASETS


def test_doctor_tells_versions_devices_and_data(read, tmp_path):
    found = read("doctor", "--data-root", tmp_path)
    packages = {row["name"]: row for row in found["packages"]}
    assert packages["torch"]["version"] == torch.__version__
    assert found["devices"][0]["name"] == "cpu"
    assert found["precision"]["fp32"] is None
    assert set(found["precision"]) == {"fp32", "bf16", "fp16"}
    data = {row["name"]: row for row in found["data"]}
    assert list(data) == list(DATASETS)
    assert data["digits"]["found"] is True
    assert data["cifar10"]["found"] is False
    assert "https://www.cs.toronto.edu" in data["cifar10"]["about"]
    assert str(tmp_path) in data["cifar10"]["about"]
    assert data["npz"]["found"] is None


def test_doctor_prints_tables(call, monkeypatch):
    monkeypatch.setattr(doctor, "_precision", lambda: {"fp32": None, "bf16": "it dies of it"})
    text = call("doctor", "--no-data").stdout
    assert "it dies of it" in text
    assert "imagefolder" not in text


def test_doctor_says_how_to_get_what_is_missing(monkeypatch):
    monkeypatch.setattr(doctor, "_PACKAGES", {"timm": ("no-such-package",)})
    (row,) = doctor._packages()
    assert row["version"] is None
    assert row["install"] == 'pip install "edgemask[timm]"'


def test_doctor_knows_the_packages_of_every_extra():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    extras = {"base": project["dependencies"], **project["optional-dependencies"]}
    del extras["dev"]
    wanted = {
        name: {re.split("[<>=]", line)[0] for line in lines} for name, lines in extras.items()
    }
    assert {name: set(packages) for name, packages in doctor._PACKAGES.items()} == wanted
