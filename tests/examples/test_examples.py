"""Every script of ``examples/`` runs as a reader would run it, and prints what it promises."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from torchrun_helper import torchrun

EXAMPLES = Path(__file__).parents[2] / "examples"
SCRIPTS = sorted(path.stem for path in EXAMPLES.glob("*.py"))
NEEDS = {
    "plain_pytorch": "sklearn",
    "timm_finetuning": "timm",
    "transformers_trainer": "transformers",
    "lightning_module": "lightning",
    "ray_sweep": "ray",
    "custom_loss": "accelerate",
    "custom_method": "accelerate",
    "torchrun_ddp": "sklearn",
}


def run(name: str, capsys: pytest.CaptureFixture[str]) -> tuple[str, list[float]]:
    """Run a script in this process; return what it printed, and the percentages in it."""
    if find_spec(NEEDS[name]) is None:
        pytest.skip(f"{NEEDS[name]} is not installed")
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    printed = capsys.readouterr().out
    return printed, [float(value) for value in re.findall(r"([\d.]+)%", printed)]


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["example"])


def test_every_script_is_tested_short_and_listed() -> None:
    assert sorted(NEEDS) == SCRIPTS
    listed = (EXAMPLES / "README.md").read_text()
    for name in SCRIPTS:
        text = (EXAMPLES / f"{name}.py").read_text()
        assert len(text.splitlines()) <= 80, name
        assert f"({name}.py)" in listed


def test_plain_pytorch(capsys: pytest.CaptureFixture[str]) -> None:
    _, (plain, masked) = run("plain_pytorch", capsys)
    assert 60 < plain < masked - 5 < 95


@pytest.mark.long
def test_timm_finetuning(capsys: pytest.CaptureFixture[str]) -> None:
    printed, (accuracy,) = run("timm_finetuning", capsys)
    assert "classifier: SEMLinear" in printed
    assert accuracy > 80


@pytest.mark.long
def test_transformers_trainer(capsys: pytest.CaptureFixture[str]) -> None:
    _, shares = run("transformers_trainer", capsys)
    assert shares[-1] > 85


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
def test_lightning_module(capsys: pytest.CaptureFixture[str]) -> None:
    _, (accuracy, found) = run("lightning_module", capsys)
    assert accuracy > 70
    assert found > 90


def test_custom_loss(capsys: pytest.CaptureFixture[str]) -> None:
    printed, accuracies = run("custom_loss", capsys)
    assert len(accuracies) == 3
    assert min(accuracies) > 30
    assert "tempered(t=0.5)" in printed


@pytest.mark.long
def test_custom_method(capsys: pytest.CaptureFixture[str]) -> None:
    _, (plain, trimmed, wrong) = run("custom_method", capsys)
    assert min(plain, trimmed) > 50
    assert wrong > 80


@pytest.mark.slow
@pytest.mark.long
def test_torchrun_ddp() -> None:
    pytest.importorskip("sklearn")
    printed = torchrun(EXAMPLES / "torchrun_ddp.py")
    assert "2 processes" in printed
    assert "(the same)" in printed
    assert float(re.search(r"([\d.]+)% of the test", printed)[1]) > 60


@pytest.mark.long
def test_ray_sweep() -> None:
    pytest.importorskip("ray")
    command = [sys.executable, str(EXAMPLES / "ray_sweep.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.count("done ") == 12
    assert re.search(r"sym:0\.6 .* 2$", done.stdout, re.MULTILINE)
