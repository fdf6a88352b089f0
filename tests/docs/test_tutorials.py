"""The tutorials run from top to bottom, and show what they printed."""

from __future__ import annotations

import ast
import json
from importlib.util import find_spec
from pathlib import Path

import pytest

import edgemask  # noqa: F401  (before transformers, as the pages say)

# Those that take longer than a few seconds of computing.
LONG = ("compare-methods", "photographs", "scikit-learn", "transformers")
TUTORIALS = sorted((Path(__file__).parents[2] / "docs" / "tutorials").glob("*.ipynb"))
NEEDS = {"transformers": "transformers"}


def cells(path: Path) -> list[dict]:
    return json.loads(path.read_text(encoding="utf-8"))["cells"]


def code(path: Path) -> list[str]:
    return ["".join(cell["source"]) for cell in cells(path) if cell["cell_type"] == "code"]


def run(path: Path) -> list[object]:
    """Run the cells in one namespace; return the value of each, as a notebook shows it."""
    namespace: dict[str, object] = {"__name__": "__main__"}
    values = []
    for number, source in enumerate(code(path)):
        tree = ast.parse(source)
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        name = f"{path.name}, cell {number}"
        exec(compile(tree, name, "exec", dont_inherit=True), namespace)
        values.append(last and eval(compile(ast.Expression(last.value), name, "eval"), namespace))
    return values


def test_tutorials_are_short_and_hold_their_outputs() -> None:
    assert len(TUTORIALS) == 5
    for path in TUTORIALS:
        assert len(cells(path)) <= 10
        assert cells(path)[0]["source"][0].startswith("# ")
        for cell in cells(path):
            if cell["cell_type"] == "code":
                outputs = json.dumps(cell["outputs"])
                assert cell["execution_count"], path.name
                assert '"error"' not in outputs
                assert "/home/" not in outputs
                assert "/work/" not in outputs
                assert "Warning" not in outputs


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, id=path.stem, marks=[pytest.mark.long] if path.stem in LONG else [])
        for path in TUTORIALS
    ],
)
def test_tutorial_runs(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if find_spec(NEEDS.get(path.stem, "json")) is None:
        pytest.skip(f"{NEEDS[path.stem]} is not installed")
    import matplotlib as mpl

    mpl.use("Agg")
    monkeypatch.chdir(tmp_path)
    values = run(path)
    assert len(values) == len(code(path))
    shown = [value for value in values if value is not None]
    assert capsys.readouterr().out.count("\n") + len(shown) >= 3
