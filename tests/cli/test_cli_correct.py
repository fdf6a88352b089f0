"""Corrected copies of data on the command line."""

from __future__ import annotations

from edgemask.audit import read_corrections


def test_the_command_writes_and_says_what_it_did(call, read, tmp_path):
    table, decisions = tmp_path / "table.csv", tmp_path / "corrections.csv"
    table.write_text("key,label\na,x\nb,y\nc,y\n")
    rows = [{"id": "a", "action": "relabel", "label": "y"}, {"id": "b", "action": "drop"}]
    read_corrections(rows).save(decisions)
    options = ("--corrections", decisions, "--id", "key")
    result = call("correct", f"csv:{table}", *options, "--out", tmp_path / "fixed.csv")
    assert result.stdout == (
        f"0 labels kept, 1 changed, 1 sample dropped; 2 samples in {tmp_path / 'fixed.csv'}\n"
        "no sample of the class x is left\n"
    )
    assert (tmp_path / "fixed.csv").read_text() == "key,label\na,y\nc,y\n"
    found = read("correct", table, *options, "--out", tmp_path / "again.csv")
    assert (found["relabelled"], found["dropped"], found["samples"]) == (1, 1, 2)


def test_train_takes_corrections(call, read, tmp_path):
    decisions = tmp_path / "corrections.csv"
    decisions.write_text("id,action,label,given\n7,relabel,3,\n9,drop,,\n")
    options = ("--data", "digits", "--epochs", 1, "--out", tmp_path / "run", "--quiet")
    found = read("train", *options, "--corrections", decisions)
    assert found["corrections"]["relabelled"] + found["corrections"]["kept"] == 1
    assert found["corrections"]["dropped"] == 1
    decisions.write_text("id,action\n1797,drop\n")
    message = call("train", "--data", "digits", "--corrections", decisions, code=2).stderr
    assert "line 2: there is no sample '1797' in the data; samples are called like '0'" in message
