"""What the README promises by name exists."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def test_linked_pages_exist() -> None:
    links = re.findall(r"\]\((?!http)([^)#]+)", README)
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_make_targets_exist() -> None:
    targets = set(re.findall(r"^make (\w+)", README, flags=re.MULTILINE))
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
    promised = {name.lower().replace("-", "") for name in row[1].split(", ")}
    assert promised == set(METHODS) - {"supervised"}
