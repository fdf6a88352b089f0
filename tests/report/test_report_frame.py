"""Runs as a frame: what is in the folders, nothing else."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import yaml

import edgemask as em
from edgemask.errors import UserError

FOLDERS = Path(__file__).parents[1] / "fixtures" / "runs"


def changed(folder: Path, **settings: object) -> Path:
    """Copy a run and change its stored settings, given by dotted key with __ for the dots."""
    shutil.copytree(FOLDERS / "v2", folder)
    file = folder / "config.yaml"
    config = yaml.safe_load(file.read_text())
    for key, value in settings.items():
        *outer, last = key.split("__")
        place = config
        for name in outer:
            place = place[name]
        place[last] = value
    file.write_text(yaml.safe_dump(config))
    summary = json.loads((folder / "summary.json").read_text())
    summary["seed"] = config["train"]["seed"]
    (folder / "summary.json").write_text(json.dumps(summary))
    return folder


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    for seed in (0, 1):
        changed(tmp_path / f"a/{seed}", train__seed=seed, noise__seed=seed)
        changed(tmp_path / f"b/{seed}", train__seed=seed, head__options__rho=0.3, log__record=["x"])
    return tmp_path


def test_values_are_those_of_the_files(runs: Path) -> None:
    row = em.load_runs(runs / "a" / "1").iloc[0]
    summary = json.loads((runs / "a/1/summary.json").read_text())
    assert row["path"] == str(runs / "a" / "1")
    assert (row["name"], row["finished"], row["epochs"], row["seed"]) == ("1", True, 3, 1)
    parts = ["data", "noise", "model", "head", "loss", "method"]
    assert row[parts].tolist() == ["digits", "sym:0.4", "mlp", "sem", "ce", "supervised"]
    assert row["noise_rate"] == summary["noise"]["realised_rate"]
    for way in ("last", "mean_last_10", "best"):
        assert row[f"accuracy_{way}"] == summary["test/accuracy"][way]
    assert row["balanced_accuracy_last"] == summary["test/balanced_accuracy"]["last"]
    assert row[["accuracy_at_validation", "accuracy_selected"]].isna().all()
    assert (row["seconds"], row["problems"]) == (summary["seconds"], "")


def test_settings_that_differ_are_columns_and_seeds_share_a_setting(runs: Path) -> None:
    frame = em.load_runs(runs)
    assert [Path(path).relative_to(runs).as_posix() for path in frame["path"]] == [
        "a/0",
        "a/1",
        "b/0",
        "b/1",
    ]
    further = list(frame.columns[frame.columns.get_loc("problems") + 1 :])
    assert further == ["head.options.rho"]  # neither seeds nor logging
    assert frame["head.options.rho"].tolist() == [0.5, 0.5, 0.3, 0.3]
    assert frame.groupby("setting")["seed"].apply(list).tolist() == [[0, 1], [0, 1]]
    assert em.load_runs([runs / "b", runs / "a" / "0"])["seed"].tolist() == [0, 1, 0]


def test_unfinished_and_damaged_runs_are_rows_too(runs: Path) -> None:
    (runs / "a/0/summary.json").unlink()
    (runs / "a/1/summary.json").write_text("{")
    (runs / "b/0/config.yaml").write_text("[")
    frame = em.load_runs(runs)
    assert frame["finished"].tolist() == [False, False, True, True]
    history = [json.loads(line) for line in (runs / "a/0/metrics.jsonl").read_text().splitlines()]
    assert frame["accuracy_last"][0] == history[-1]["test/accuracy"]
    assert frame["accuracy_best"][0] == max(row["test/accuracy"] for row in history)
    assert frame["problems"][0] == frame["problems"][3] == ""
    assert "summary.json is not valid JSON" in frame["problems"][1]
    assert "config.yaml" in frame["problems"][2]
    assert frame["head"].isna().tolist() == [False, False, True, False]


def test_selected_weights_have_their_accuracy(runs: Path) -> None:
    file = runs / "a/0/summary.json"
    summary = json.loads(file.read_text()) | {"selected": {"epoch": 1, "test/accuracy": 0.25}}
    file.write_text(json.dumps(summary))
    assert em.load_runs(runs / "a")["accuracy_selected"][0] == 0.25


def test_a_folder_without_runs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="holds none"):
        em.load_runs(tmp_path)
    with pytest.raises(UserError, match="does not exist"):
        em.load_runs(tmp_path / "none")
