"""A command line to call and a small finished run to call it on."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from cli_helpers import SMALL

Call = Callable[..., Result]


@pytest.fixture(scope="session")
def call() -> Call:
    """Call the command in this process: ``call("list", "heads")``."""
    from edgemask.cli.app import app

    def run(*arguments: object, code: int = 0) -> Result:
        result = CliRunner().invoke(app, [str(argument) for argument in arguments])
        assert result.exit_code == code, f"{result.output}\n{result.exception!r}"
        return result

    return run


@pytest.fixture(scope="session")
def read(call: Call) -> Callable[..., Any]:
    """Call the command with ``--json`` and return what a program would read."""

    def run(*arguments: object) -> Any:
        return json.loads(call(*arguments, "--json").stdout)

    return run


@pytest.fixture(scope="session")
def trained(call: Call, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished run."""
    folder = tmp_path_factory.mktemp("runs") / "small"
    call("train", *SMALL, "--out", folder, "--quiet")
    return folder
