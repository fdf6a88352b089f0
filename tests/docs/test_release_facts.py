"""The version is the same wherever it is stated, and the citation names software and paper."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import yaml

import edgemask

ROOT = Path(__file__).parents[2]


def test_the_version_is_the_same_everywhere() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    sections = re.findall(r"^## \[(\d[^]]*)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    stated = {project["version"], citation["version"], sections[0]}
    assert stated == {edgemask.__version__}


def test_the_citation_has_what_the_format_requires() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert {"cff-version", "message", "title", "authors"} <= citation.keys()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert citation["license"] == project["license"]
    paper = citation["preferred-citation"]
    assert paper["title"] == "Label-Noise Resistant Learning via Optimal Brain Damage Masking"
    names = [f"{author['given-names']} {author['family-names']}" for author in paper["authors"]]
    assert names == [
        "Xinlei Zhang",
        "Fan Liu",
        "Chuanyi Zhang",
        "Xiaoying Ji",
        "Wenhui Wang",
        "Wei Zhou",
        "Yuhui Zheng",
    ]
