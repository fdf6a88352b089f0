"""The page on the default shows what the stored runs say, and names the default."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from edgemask.engine.default import DEFAULT_TRAINING

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "defaults.md").read_text(encoding="utf-8")


def suite(*words: str) -> str:
    pytest.importorskip("sklearn")
    command = [sys.executable, str(ROOT / "benchmarks" / "suite"), *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize(
    ("name", "words"), [("default", []), ("adaptive", ["--candidates", "ce adaptive"])]
)
def test_tables_are_those_of_the_stored_runs(name, words):
    table = PAGE.partition(f"<!-- {name}-table -->\n")[2].partition(f"\n<!-- /{name}-table")[0]
    assert table.strip() == suite("report", *words).strip()


def test_the_rule_chooses_the_default():
    best = suite("choose").splitlines()[0]
    assert best.endswith(f"  {DEFAULT_TRAINING['loss']['name']}: safe")
