"""The line that repeats a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from edgemask.report import load_run
from edgemask.report.repeat import command
from report.rundirs import RunMaker


def told(path: Path, value: Any) -> str:
    summary = json.loads((path / "summary.json").read_text())
    (path / "summary.json").write_text(json.dumps(summary | {"command": value}))
    return command(load_run(path))


def test_the_command_of_a_training_is_repeated(make_run: RunMaker) -> None:
    path = make_run("a run", epochs=3)
    assert told(path, "/opt/bin/edgemask train --data x") == "edgemask train --data x"
    words = ["edgemask", "train", "--data", "npz:a b.npz"]
    assert told(path, words) == "edgemask train --data 'npz:a b.npz'"


@pytest.mark.parametrize("value", ["edgemask resume runs/a", "demo.py", "edgemask demo", "", None])
def test_any_other_start_is_repeated_from_the_config(make_run: RunMaker, value: Any) -> None:
    path = make_run("a run", epochs=3)
    assert told(path, value) == f"edgemask train --config '{path}/config.yaml' --out 'a run-again'"


def test_objects_made_in_python_have_no_command(make_run: RunMaker) -> None:
    path = make_run(epochs=3)
    config = yaml.safe_load((path / "config.yaml").read_text())
    config["model"]["name"] = "object:Net"
    (path / "config.yaml").write_text(yaml.safe_dump(config))
    assert "from Python with its own model" in told(path, "script.py")
