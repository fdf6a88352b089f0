"""The demo, in short: the same table, report and promises."""

from __future__ import annotations

import json

import pytest
import yaml

from edgemask.engine import load_run


@pytest.fixture(scope="module")
def shown(call, tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo")
    return folder, call("demo", "--out", folder, "--seeds", 2, "--epochs", 1).stdout


@pytest.mark.slow
def test_the_demo_states_its_setting_and_its_numbers(shown):
    folder, text = shown
    lines = text.splitlines()
    for words in ("60 %", "256 features", "shifts by one pixel", "SGD", "1 epoch,", "2 seeds"):
        assert words in text
    table = [line.split() for line in lines if line.startswith(("CE", "JAL"))]
    assert [row[0] for row in table] == ["CE", "CE-SEM", "JAL", "JAL-SEM"]
    values = [load_run(folder / f"ce-{seed}").summary["test/accuracy"]["last"] for seed in (0, 1)]
    assert table[0][1] == f"{100 * sum(values) / 2:.1f}"
    assert table[0][2] == "±"
    assert lines[-1] == f"report: {folder / 'report.html'}"
    assert (folder / "report.html").is_file()


@pytest.mark.slow
def test_the_demo_is_a_fair_comparison(shown):
    folder, _ = shown
    configs = {
        path.parent.name: yaml.safe_load(path.read_text()) for path in folder.glob("*/config.yaml")
    }
    assert len(configs) == 8
    for seed in (0, 1):
        kept = [dict(configs[f"{row}-{seed}"]) for row in ("ce", "ce-sem", "jal", "jal-sem")]
        for config in kept:
            assert (config["noise"]["spec"], config["noise"]["seed"]) == ("sym:0.6", seed)
            assert config["train"]["seed"] == seed
            for key in ("name", "loss", "head"):
                del config[key]
            del config["optim"]["l1"]  # a part of the published JAL loss
        assert all(config == kept[0] for config in kept)
    prints = {load_run(folder / f"{row}-0").noise.fingerprint for row in ("ce", "jal-sem")}
    assert len(prints) == 1


@pytest.mark.slow
def test_the_demo_is_not_done_twice(shown, call):
    folder, _ = shown
    before = (folder / "ce-0" / "summary.json").stat().st_mtime_ns
    found = json.loads(
        call("demo", "--out", folder, "--seeds", 2, "--epochs", 1, "--json", "--quiet").stdout
    )
    assert (folder / "ce-0" / "summary.json").stat().st_mtime_ns == before
    assert [row["name"] for row in found["rows"]] == ["CE", "CE-SEM", "JAL", "JAL-SEM"]
    assert len(found["rows"][0]["memorised"]["values"]) == 2
    assert found["report"] == str(folder / "report.html")


@pytest.mark.slow
def test_a_mistake_in_a_worker_reaches_the_person(call, tmp_path):
    (tmp_path / "ce-0").mkdir()
    (tmp_path / "ce-0" / "letter.txt").write_text("dear")
    message = call("demo", "--out", tmp_path, "--seeds", 1, "--epochs", 1, code=2).stderr
    assert "holds no run" in message
