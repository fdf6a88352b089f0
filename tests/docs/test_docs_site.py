"""The site is built without a warning, and a link that leads nowhere is found."""

import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def load():
    spec = importlib.util.spec_from_file_location("docs_build", ROOT / "docs" / "build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_links_that_lead_nowhere_are_found(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "a.html").write_text(
        '<h2 id="here"></h2><a href="#here"></a><a href="#gone"></a><a href="sub/b.html#top"></a>'
        '<a href="sub/b.html#no"></a><img src="missing.png"><a href="https://example.org/x"></a>'
    )
    (tmp_path / "sub" / "b.html").write_text('<p id="top"><a href="../a.html"></a></p>')
    found = load().broken_links(tmp_path)
    assert found == ["a.html: #gone", "a.html: missing.png", "a.html: sub/b.html#no"]


def test_a_notebook_becomes_a_page(tmp_path):
    cells = [
        {"cell_type": "markdown", "source": ["# Title\n", "\n", "Words."]},
        {
            "cell_type": "code",
            "source": ["x = 1\n", "x"],
            "outputs": [
                {"output_type": "stream", "name": "stdout", "text": ["a\n", "b\n"]},
                {"output_type": "execute_result", "data": {"text/plain": ["1"]}},
                {
                    "data": {
                        "text/html": [
                            "<style>\n.a {}\n</style>\n<table border=1>\n\n  <tr>\n</table>"
                        ]
                    }
                },
                {"data": {"image/png": "iVBORw0KGgo=\n", "text/plain": ["<Figure>"]}},
                {"data": {"text/plain": [""]}},
            ],
        },
    ]
    notebook = tmp_path / "some.ipynb"
    notebook.write_text(json.dumps({"cells": cells}))
    page = load().notebook_page(notebook)
    assert page == (
        "# Title\n\n[Download this notebook](some.ipynb){ .md-button }\n\nWords.\n\n"
        "```python\nx = 1\nx\n```\n\n```{ .text .output }\na\nb\n```\n\n"
        "```{ .text .output }\n1\n```\n\n<table>\n<tr>\n</table>\n\n"
        "![what the cell drew](some-1-3.png)\n"
    )
    assert (tmp_path / "some-1-3.png").read_bytes() == b"\x89PNG\r\n\x1a\n"


@pytest.mark.slow
def test_the_site_is_built(tmp_path):
    for name in ("docs", "src", "results", "examples"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("mkdocs.yml", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"):
        shutil.copy(ROOT / name, tmp_path)
    command = [sys.executable, "docs/build.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    site = tmp_path / "build" / "site"
    for page in (ROOT / "docs").rglob("*.md"):
        assert (site / page.relative_to(ROOT / "docs")).with_suffix(".html").exists()
    for notebook in (ROOT / "docs" / "tutorials").glob("*.ipynb"):
        page = (site / "tutorials" / notebook.name).with_suffix(".html").read_text()
        assert f'href="{notebook.name}"' in page
    assert "<code>|g w|</code>" in (site / "methods.html").read_text()
    heads = (site / "api" / "heads.html").read_text()
    assert "SEMLinear" in heads
    assert ":class:" not in heads
