"""The command starts at once and says what it can do."""

from __future__ import annotations

import subprocess
import sys

import pytest

import edgemask
from sweeps import sweep

VERBS = (
    "demo", "train", "audit", "resume", "eval", "predict", "noise", "list", "explain", "report",
    "reproduce", "sweep", "export", "doctor",
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


def test_without_a_verb_the_help_is_shown(call):
    assert "train" in call(code=2).output


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
