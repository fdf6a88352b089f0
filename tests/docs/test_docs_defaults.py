"""The pages on the suite show what the stored runs say, and name the default."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from edgemask.engine.default import DEFAULT_TRAINING

ROOT = Path(__file__).parents[2]


def suite(*words: str) -> subprocess.CompletedProcess[str]:
    pytest.importorskip("sklearn")
    command = [sys.executable, str(ROOT / "benchmarks" / "suite"), *words]
    return subprocess.run(command, check=False, capture_output=True, text=True)


def test_tables_are_those_of_the_stored_runs():
    done = suite("pages", "--check")
    assert done.returncode == 0, done.stderr


def test_the_rule_chooses_the_default():
    best = suite("choose").stdout.splitlines()[0]
    assert best.endswith(f"  {DEFAULT_TRAINING['loss']['name']}: safe")
    assert DEFAULT_TRAINING["head"] == {"name": "linear"}
