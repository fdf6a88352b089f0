"""What the machine has."""

from __future__ import annotations

import itertools
import json
import re
import tomllib
from pathlib import Path

import pytest
import torch

from edgemask.cli import doctor
from edgemask.data import DATASETS
from edgemask.engine import device_check
from edgemask.engine.device_check import DeviceCheck, check_device


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


def test_doctor_reads_datasets_only_when_asked(read, tmp_path):
    (tmp_path / "mnist").mkdir()
    (tmp_path / "mnist" / "train-images-idx3-ubyte").write_bytes(bytes(2_000_000))
    mnist = {row["name"]: row for row in read("doctor", "--data-root", tmp_path)["data"]}["mnist"]
    assert mnist["found"] is True
    assert "2 MB (not read" in mnist["about"]
    rows = read("doctor", "--data", "--data-root", tmp_path)["data"]
    data = {row["name"]: row for row in rows}
    assert data["mnist"]["found"] is False
    assert "missing train-labels" in data["mnist"]["about"]
    assert data["digits"]["about"].startswith("read and checked: 1,438 training")


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


def test_doctor_without_a_gpu_says_so_in_one_line(call):
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    done = call("doctor", "--gpu", code=2)
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert "no CUDA device" in line


@pytest.mark.parametrize(
    ("states", "code", "verdict"),
    [
        (["ok", "ok"], 0, "2 of 2 checks hold on cpu"),
        (["ok", "skipped"], 0, "1 of 2 checks hold on cpu, 1 skipped"),
        (["failed", "ok", "skipped"], 1, "1 of 3 checks hold on cpu, 1 failed, 1 skipped"),
    ],
)
def test_doctor_tells_each_check_and_a_verdict(states, code, verdict, call, monkeypatch):
    checks = [DeviceCheck(f"check {number}", state, "seen") for number, state in enumerate(states)]
    monkeypatch.setattr(device_check, "check_device", lambda _: iter(checks))
    lines = call("doctor", "--gpu", "--device", "cpu", code=code).stdout.splitlines()
    assert lines[:-2] == [f"{state:<8} check {n}: seen" for n, state in enumerate(states)]
    assert lines[-2] == verdict
    assert f"torch {torch.__version__}" in lines[-1]
    found = call("doctor", "--gpu", "--device", "cpu", "--json", code=code).stdout
    assert [row["state"] for row in json.loads(found)["checks"]] == states


def test_checks_of_a_device_find_other_masks(monkeypatch):
    first = next(check_device("cpu"))
    assert (first.state, first.about) == ("ok", "0 of 256,000 edges differ in 5 steps")
    real = device_check._twins

    def other_seed(device):
        there, here, inputs = real(device)
        here.reset_state(seed=8)
        return there, here, inputs

    monkeypatch.setattr(device_check, "_twins", other_seed)
    masks, gradients = itertools.islice(check_device("cpu"), 2)
    assert masks.state == gradients.state == "failed"
    assert "edges differ" in masks.about


@pytest.mark.long
def test_all_checks_hold_on_the_cpu():
    for check in check_device("cpu"):
        allowed = ("ok", "skipped") if check.name in ("torch.compile", "autocast") else ("ok",)
        assert check.state in allowed, check
