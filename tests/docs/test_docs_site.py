"""The site is built without a warning, and a link that leads nowhere is found."""

import importlib.util
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


@pytest.mark.slow
def test_the_site_is_built(tmp_path):
    for name in ("docs", "src", "results"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("mkdocs.yml", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"):
        shutil.copy(ROOT / name, tmp_path)
    command = [sys.executable, "docs/build.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    site = tmp_path / "build" / "site"
    for page in (ROOT / "docs").rglob("*.md"):
        assert (site / page.relative_to(ROOT / "docs")).with_suffix(".html").exists()
    heads = (site / "api" / "heads.html").read_text()
    assert "SEMLinear" in heads
    assert ":class:" not in heads
