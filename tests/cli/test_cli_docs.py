"""The page of the command line keeps its word: every line on it is one that the command takes."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import yaml
from typer.main import get_command

from edgemask.cli.app import app
from edgemask.engine import resolve
from edgemask.engine.batch_size import batch_size_for
from edgemask.engine.default import DEFAULT_TRAINING
from sweeps import sweep

PAGE = (Path(__file__).parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
LINES = [
    re.sub(r"^\$ ", "", line).split("  #")[0].strip()
    for block in BLOCKS
    for line in block.splitlines()
    if re.match(r"(\$ )?edgemask ", line)
]


def parse(words):
    """Read a command line as the command would, without running it."""
    command = get_command(app)
    name = "edgemask"
    while True:
        context = command.make_context(name, list(words))
        if not hasattr(command, "commands"):
            return context
        words = [*getattr(context, "_protected_args", []), *context.args]
        name, command, words = command.resolve_command(context, words)


def test_the_page_has_lines():
    assert len(LINES) > 10


@sweep("line", LINES)
def test_every_line_is_understood(line):
    parse(shlex.split(line)[1:])


def test_a_line_with_a_wrong_flag_would_be_found():
    with pytest.raises(Exception, match="No such option"):
        parse(["train", "--no-such-flag"])


def test_defaults_in_the_help_are_those_of_the_config():
    config = resolve()
    said = dict(
        re.findall(r"^\| `--([\w-]+)[^|]*\| .*\(default: ([\w.]+)\) \|$", PAGE, re.MULTILINE)
    )
    true = {
        "data": config.data.spec, "head": config.head.name,
        "method": config.method.name, "epochs": config.train.epochs, "lr": config.optim.lr,
        "seed": config.train.seed,
        "noise-seed": config.noise.seed, "track": config.log.trackers[0],
    }  # fmt: skip
    assert {key: yaml.safe_load(said[key]) for key in true} == true
    line = "(default: 128; 64 for fewer than 10,000 samples, 32 for fewer than 2,000)"
    assert re.search(r"^\| `--batch-size N` .*" + re.escape(line), PAGE, re.MULTILINE)
    sizes = [batch_size_for(samples) for samples in (1_999, 2_000, 9_999, 10_000)]
    assert [*sizes, config.train.batch_size] == [32, 64, 64, 128, 128]
    line = "(default: elr where no head, method or recipe is named, else ce)"
    assert re.search(r"^\| `--loss NAME` .*" + re.escape(line), PAGE, re.MULTILINE)
    assert DEFAULT_TRAINING["loss"]["name"] == "elr"
    assert config.loss.name == "ce"
