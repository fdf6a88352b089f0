"""What the README promises by name exists."""

from __future__ import annotations

import json
import re
import statistics
from pathlib import Path

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def test_linked_pages_exist() -> None:
    links = re.findall(r"\]\((?!http)([^)#]+)", README)
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_make_targets_exist() -> None:
    targets = set(re.findall(r"`make ([\w-]+)`", README))
    makefile = (ROOT / "Makefile").read_text()
    assert targets
    assert [t for t in targets if not re.search(rf"^{t}:", makefile, flags=re.MULTILINE)] == []


def test_number_of_losses_is_true() -> None:
    from edgemask.losses import LOSSES

    promised = re.search(r"(\d+) robust losses", README)
    assert promised is not None
    classes = set(LOSSES.values())
    assert int(promised[1]) == len(classes)


def test_commands_exist() -> None:
    import typer

    from edgemask.cli.app import app

    row = re.search(r"\| command line \| `([^`]+)`", README)
    assert row is not None
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    assert [verb for verb in row[1].split() if verb not in commands] == []


def test_methods_exist() -> None:
    from edgemask.methods import METHODS

    row = re.search(r"\| methods \| (.*?), and plain", README)
    assert row is not None
    promised = {name.lower() for name in row[1].split(", ")}
    assert promised == set(METHODS) - {"supervised"}


def test_results_are_those_of_the_runs() -> None:
    """The table of the README is what `results/` holds, to the digit."""
    held = json.loads((ROOT / "results/laptop/controls.json").read_text())["results"]
    columns = ("cifar10-sym-60", "cifar10n-worst", "cifar10-clean")
    lines = re.findall(r"^\| .*<!-- ([\w.-]+) -->(.*)\|$", README, flags=re.MULTILINE)
    assert len(lines) >= 4
    for row, cells in lines:
        shown = [cell.strip() for cell in cells.split("|")[1:]]
        values = [
            [100 * r["value"] for r in held if (r["row"], r["column"]) == (row, column)]
            for column in columns
        ]
        assert shown == [_spread(found) for found in values], row


def _spread(values: list[float]) -> str:
    if not values:
        return ""
    mean = f"{statistics.fmean(values):.1f}"
    return mean if len(values) == 1 else f"{mean} ± {statistics.stdev(values):.1f}"
