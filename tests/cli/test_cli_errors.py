"""Exit codes: 0 done, 1 failed, 2 a mistake, 128 + signal stopped; never a traceback for people."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cli_helpers import SMALL
from edgemask.cli import listing
from edgemask.errors import EdgeMaskWarning, MissingExtraError
from sweeps import sweep


@sweep(
    ("arguments", "words"),
    [
        (["--data", "digis"], "did you mean 'digits'"),
        (["--head", "smm"], "did you mean 'sem'"),
        (["--loss", "jaal"], "did you mean 'jal'"),
        (["--model", "cnn88"], "did you mean 'cnn8'"),
        (["--method", "supervise"], "did you mean 'supervised'"),
        (["--noise", "sym:2"], "sym:2"),
        (["--noise", "syn:0.2"], "did you mean 'sym'"),
        (["--protocol", "papr", "--noise", "sym:0.2"], "paper"),
        (["--recipe", "digits/cee"], "did you mean 'digits/ce'"),
        (["--set", "optim.lrr=1"], "optim.lrr: no such key; did you mean 'lr'"),
        (["--set", "optim.lr"], "set takes key=value"),
        (["--set", "optim.lr=fast"], "optim.lr"),
        (["--set", "head.options.rhoo=1", "--head", "sem"], "did you mean 'rho'"),
        (["--head", "sem(rhoo=1)"], "did you mean 'rho'"),
        (["--epochs", "0"], "train.epochs=0: expected a number of at least 1"),
        (["--precision", "fp8"], "train.precision"),
        (["--select", "best"], "train.select"),
        (["--select", "validation"], "data.validation is 0"),
        (["--select", "clean_validation"], "'digits' has no clean validation samples"),
        (["--set", "train.rollback=true"], "train.rollback"),
        (["--config", "no.yaml"], "no.yaml"),
        (["--data", "npz:no.npz"], "no.npz: there is no such file"),
        (["--data", "imagefolder:nowhere"], "nowhere: there is no such folder"),
        (["--device", "tpu"], "device must be"),
        (["--model", "mlp", "--pretrained"], "no published weights for 'mlp'"),
    ],
)
def test_a_mistake_is_named(call, arguments, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = call("train", "--epochs", "1", *arguments, code=2)
    assert words in result.stderr
    assert result.stdout == ""


@sweep("arguments", [["--epochs", "many"], ["--no-such-flag"], ["extra"]])
def test_a_wrong_command_line_is_a_mistake(call, arguments):
    assert "Usage" in call("train", *arguments, code=2).stderr


def test_after_a_mistake_the_same_folder_may_be_used(call, tmp_path):
    call("train", *SMALL, "--noise", "syn:0.4", "--out", tmp_path, code=2)
    call("train", *SMALL, "--out", tmp_path, "--quiet")
    assert (tmp_path / "summary.json").is_file()


def test_a_folder_with_other_things_is_left_alone(call, tmp_path):
    (tmp_path / "letter.txt").write_text("dear")
    message = call("train", *SMALL, "--out", tmp_path, "--fresh", code=2).stderr
    assert "holds no run" in message
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="no folder that refuses even root")
def test_an_unwritable_folder_is_a_mistake(call):
    message = call("train", *SMALL, "--out", "/proc/edgemask", code=2).stderr
    assert "cannot make the run folder /proc/edgemask" in message


def test_a_file_in_the_way_is_a_mistake(call, tmp_path):
    path = tmp_path / "file"
    path.write_text("")
    assert "is a file" in call("train", *SMALL, "--out", path, code=2).stderr
    assert (
        "cannot make the run folder"
        in call("train", *SMALL, "--out", path / "below", code=2).stderr
    )


def test_a_missing_extra_is_named(call, monkeypatch):
    def missing(kind):
        raise MissingExtraError("timm", "timm", "to list models")

    monkeypatch.setattr(listing, "registry", missing)
    assert 'pip install "edgemask[timm]"' in call("list", "models", code=2).stderr


def test_a_full_disk_is_a_failure(call, monkeypatch):
    def full(kind):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "runs/x/model.safetensors")

    monkeypatch.setattr(listing, "registry", full)
    message = call("list", "models", code=1).stderr
    assert message == "error: No space left on device: runs/x/model.safetensors\n"


def test_a_loss_that_is_not_finite_is_a_failure(call, tmp_path):
    message = call("train", *SMALL, "--lr", "1e30", "--out", tmp_path / "run", code=1).stderr
    assert "the loss became" in message
    assert "Traceback" not in message


def test_a_warning_is_one_line(call, monkeypatch):
    import warnings

    def warn(kind):
        warnings.warn("mind the step", EdgeMaskWarning, stacklevel=2)
        return {}

    class Names(dict):
        def summaries(self):
            return self

    monkeypatch.setattr(listing, "registry", lambda kind: Names(warn(kind)))
    with warnings.catch_warnings():
        warnings.simplefilter("default", EdgeMaskWarning)
        assert call("list", "models").stderr == "warning: mind the step\n"


def test_ctrl_c_outside_a_run(call, monkeypatch):
    def stop(kind):
        raise KeyboardInterrupt

    monkeypatch.setattr(listing, "registry", stop)
    assert call("list", "models", code=130).stderr == "error: stopped\n"


def test_a_defect_shows_where_it_is(tmp_path):
    code = (
        "from edgemask.cli import listing\n"
        "listing.registry = lambda kind: 1 / 0\n"
        "import sys; sys.argv = ['edgemask', 'list', 'heads']\n"
        "from edgemask.cli import main\n"
        "main()\n"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "ZeroDivisionError" in done.stderr
