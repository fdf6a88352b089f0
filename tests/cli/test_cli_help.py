"""The command starts at once and says what it can do."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

import edgemask
from sweeps import sweep

VERBS = (
    "demo", "train", "audit", "resume", "eval", "predict", "noise", "list", "explain", "report",
    "reproduce", "sweep", "export", "doctor", "correct",
)  # fmt: skip


def test_help_names_every_verb(call):
    text = call("--help").stdout
    assert all(verb in text for verb in VERBS)


@sweep("verb", [*VERBS, ("noise", "make"), ("noise", "show")])
def test_every_verb_has_help(call, verb):
    words = (verb,) if isinstance(verb, str) else verb
    text = call(*words, "--help").stdout
    assert "Usage: " in text


def test_the_version_is_that_of_the_package(call):
    assert call("--version").stdout == f"edgemask {edgemask.__version__}\n"


def test_without_a_verb_it_says_what_to_do_next(call):
    text = call().stdout
    for command in ("audit imagefolder:", "train --data imagefolder:", "report runs/", "--help"):
        assert f"edgemask {command}" in text
    assert len(text.splitlines()) < 12


@sweep("verb", [(), *VERBS, ("noise", "make"), ("noise", "show")])
def test_help_is_in_words(call, verb):
    words = (verb,) if isinstance(verb, str) else verb
    text = call(*words, "--help").stdout
    assert re.findall(r"<(?:bool|str|int|float|path|list)\b|\bINTEGER\b|\bFLOAT\b", text) == []
    usage = re.search(r"Usage: (.*?)\s*\n", text)[1]
    assert re.fullmatch(r"edgemask[a-z ]* \[OPTIONS\]( \[?[A-Z]+(\.\.\.)?\]?(\.\.\.)?)*", usage), (
        usage
    )


def test_options_say_what_they_take_and_mean():
    from typer.main import get_command

    from edgemask.cli.app import app

    groups = [get_command(app), *get_command(app).commands.values()]
    inner = [verb for group in groups for verb in getattr(group, "commands", {}).values()]
    for verb in {id(verb): verb for verb in [*groups, *inner]}.values():
        for option in verb.params:
            if option.name not in ("install_completion", "show_completion", "help"):
                assert option.help, f"{verb.name} {option.name}"
                assert getattr(option, "is_flag", False) or option.metavar, (
                    f"{verb.name} {option.name}"
                )


MISSING = [
    ("train", "--data", "imagefolder:none"),
    ("train", "--data", "csv:none.csv"),
    ("train", "--corrections", "none.csv"),
    ("train", "--config", "none.yaml"),
    ("audit", "npz:none.npz"),
    ("audit", "digits", "--probabilities", "none.npy"),
    ("correct", "csv:none.csv", "--corrections", "none.csv", "--out", "out.csv"),
    ("report", "none"),
    *((verb, "none") for verb in ("resume", "eval", "predict", "export")),
    ("train", "--dta", "digits"),
    ("train", "--data", "."),
    ("train", "--data", "none10"),
    ("audit", "nonefolder:none"),
    ("audit", "none/none"),
    ("train", "--loss", "none"),
    ("train", "--head", "none(rho=0.3)"),
    ("train", "--method", "none"),
    ("train", "--model", "none"),
    ("audit", "digits", "--loss", "none"),
    ("audit", "digits", "--model", "none"),
]


def test_what_is_missing_is_said_without_heavy_imports(tmp_path):
    """One process for all: what the first imports, the others would not import again."""
    code = (
        "import json, sys\n"
        "from typer.testing import CliRunner\n"
        "from edgemask.cli.app import app\n"
        "for words in json.loads(sys.argv[1]):\n"
        "    result = CliRunner().invoke(app, words)\n"
        "    heavy = [n for n in ('torch', 'sklearn', 'pandas') if n in sys.modules]\n"
        "    print(json.dumps([result.exit_code, result.output, heavy]))\n"
    )
    command = [sys.executable, "-c", code, json.dumps(MISSING)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    for words, line in zip(MISSING, done.stdout.splitlines(), strict=True):
        exit_code, output, heavy = json.loads(line)
        assert (exit_code, heavy) == (2, []), (words, output)
        assert "none" in output or "--dta" in output or "imagefolder:." in output
        assert "Traceback" not in output


@pytest.mark.parametrize("words", [["--help"], ["train", "--help"], ["--version"]])
def test_help_imports_nothing_heavy(words):
    code = (
        "import sys, atexit\n"
        "heavy = ('torch', 'numpy', 'sklearn', 'accelerate', 'matplotlib', 'yaml')\n"
        "atexit.register(lambda: print('HEAVY', [n for n in heavy if n in sys.modules]))\n"
        f"sys.argv = ['edgemask', *{words!r}]\n"
        "from edgemask.cli import main\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "HEAVY []"


def test_it_runs_as_a_module():
    command = [sys.executable, "-m", "edgemask", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("edgemask ")


def test_without_the_extra_the_message_names_it():
    code = "import sys\nsys.modules['typer'] = None\nfrom edgemask.cli import main\nmain()\n"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert 'pip install "edgemask[app]"' in done.stderr
    assert "Traceback" not in done.stderr
