"""The verbs ``reproduce`` and ``sweep``."""

from __future__ import annotations

import json

import pytest

SMOKE = ("--preset", "smoke", "--seeds", "1", "--jobs", "0")
TINY = (
    "--set", "data.spec=digits", "--set", "data.limit=96", "--set", "data.test_limit=50",
    "--set", "model.width=0.25", "--set", "train.epochs=1", "--set", "head.name=sem",
)  # fmt: skip


def test_list_for_people_and_programs(call, read):
    assert "table8" in call("reproduce", "list").stdout
    found = {entry["name"]: entry for entry in read("reproduce", "list")}
    assert {"table1", "tables6", "figures6", "controls"} <= set(found)
    assert found["table8"]["rows"][0]["key"] == "ce"
    assert len(found["table8"]["paper"]) == 10


def test_a_table_twice_and_its_status(call, read, tmp_path):
    where = ("--out", tmp_path / "runs")
    words = ("reproduce", "table8", *SMOKE, *where, "--only", "ce,ce-sem")
    plan = read(*words, "--dry-run")
    assert len(plan["runs"]) == 2
    assert plan["seconds"] > 0
    assert "about" in call(*words, "--dry-run").stdout
    assert not (tmp_path / "runs").exists()
    first = call(*words)
    assert first.stdout.count("  done  ") == 2
    assert "39.72 ± 0.81" in first.stdout
    again = call(*words)
    assert "  done  " not in again.stdout
    states = read("reproduce", "status", "table8", "--preset", "smoke", *where)
    assert sorted({entry["state"] for entry in states}) == ["done", "to do"]
    assert "table8" in call("reproduce", "status", "--preset", "smoke", *where).stdout


def test_a_failed_run_makes_the_exit_code(call, tmp_path, monkeypatch):
    from edgemask.engine.job import JobResult

    def fail(job, **options):
        return JobResult(job.folder, "failed", "no luck")

    monkeypatch.setattr("edgemask.engine.jobs.run_job", fail)
    result = call("reproduce", "table8", *SMOKE, "--only", "ce", "--out", tmp_path / "runs", code=1)
    assert "no luck" in result.output
    assert "not done" in result.output


def test_mistakes_are_named(call):
    assert "unknown experiment 'table99'" in call("reproduce", "table99", code=2).output
    assert (
        "unknown row of table8 'foo'" in call("reproduce", "table8", "--only", "foo", code=2).output
    )
    wrong = call("reproduce", "table8", "--preset", "huge", code=2).output
    assert "unknown preset 'huge'" in wrong


def test_sweep_ends_in_a_picture(call, read, tmp_path):
    words = ("sweep", "--grid", "rho=0,0.5", *TINY, "--jobs", "0", "--out", tmp_path)
    assert len(read(*words, "--dry-run")["runs"]) == 2
    text = call(*words).stdout
    assert "head.options.rho" in text
    assert (tmp_path / "sweep.png").is_file()
    assert len(json.loads((tmp_path / "sweep.json").read_text())) == 2
    assert read(*words)["failed"] == []


def test_a_grid_that_makes_no_sense(call):
    assert "no setting has this name" in call("sweep", "--grid", "nonsense=1", code=2).output


@pytest.mark.slow
def test_names_of_ones_own_work_in_workers(call, tmp_path, monkeypatch):
    (tmp_path / "my_losses.py").write_text(
        "import edgemask as em\n\n\n"
        "class DoubleCE(em.losses.CELoss):\n"
        "    'Twice the cross entropy.'\n\n\n"
        "em.register('loss', 'double-ce-of-sweep', DoubleCE)\n"
    )
    monkeypatch.chdir(tmp_path)
    words = ("sweep", "--grid", "rho=0.5", *TINY, "--set", "loss.name=double-ce-of-sweep")
    text = call(*words, "--import", "my_losses", "--out", tmp_path / "runs").stdout
    assert "  done  " in text
    wrong = call(*words, "--import", "no_such_module", code=2).output
    assert "cannot import the module 'no_such_module'" in wrong
